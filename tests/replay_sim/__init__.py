"""A simulator of replays of dead letters: the production code of ``chsink.replay`` and of ``chsink state reset`` in a world of
faults, beside a job that goes on.

``python -m tests.replay_sim --seed 7`` runs worlds; hub, servers, state store and the topic are those of ``tests.sim``.

- :mod:`letters`: the dead letters of a world, in a table or in a topic, and the marks.
- :mod:`job`: the job beside the replays, in short; :mod:`people`: replays, resets, and what a person answers to halts.
- :mod:`oracle`: what must hold; :mod:`world`: all of it together.
"""
