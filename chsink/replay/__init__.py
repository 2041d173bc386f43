"""``chsink dlq replay``: dead letters, in a ClickHouse table or a Kafka topic, become rows, each once.

The protocol is that of a batch, with a sink name of its own (:func:`chsink.dlq.place.replay_sink`), so that a replay
fences other replays and never the job:

1. *Claim* the name, and settle what an earlier replay left in doubt.
2. Choose a round of dead letters whose records fit their table today, and write BEFORE with the list of their offsets.
3. Insert their rows under the tokens of the list, then write a *replay mark* for each, then AFTER.

A replay mark says that the row is there: dead letters that have one are never chosen.  A list in doubt is sent again as
it was recorded, by the same decoder and under the same layout, or a person decides.

- :mod:`choose`: which dead letters may be replayed.
- :mod:`land`: sends a list.
- :mod:`run`: the order of all of it; :mod:`report` is what it says.
"""
