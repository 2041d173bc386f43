"""A simulator of replays of dead letters: the production code of ``chsink.replay`` and of ``chsink state reset`` in a
world of faults, beside a running job.

``python -m tests.replay_sim --seed 7`` runs worlds; hub, servers, state store and the topic are those of ``tests.sim``.

- :mod:`letters`: the dead letters of a world, in a table or in a topic, and the marks.
- :mod:`job`: a simplified job beside the replays; :mod:`people`: replays, resets, and a person who answers halts.
- :mod:`oracle`: the invariants; :mod:`world`: one world with all of these.
"""
