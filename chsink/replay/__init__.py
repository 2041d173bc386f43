"""``chsink dlq replay``: dead letters of a ClickHouse table become rows, each once.

The protocol is that of a batch, with a sink name of its own (:func:`chsink.dlq.table.replay_sink`), so that it fences
other replays and never the job:

1. *claim* the name, and settle what an earlier replay left in doubt.
2. Choose a round of dead letters whose records have a row today, and write BEFORE with the list of their offsets.
3. Insert their rows under tokens of the list, then a *mark* for each under one more token, then write AFTER.

A mark says that the row is there: dead letters with a mark are never chosen.  A list in doubt is sent again as it was
recorded, by the same decoder and under the same layout, or a person decides.

- :mod:`choose`: which dead letters may be replayed.
- :mod:`land`: sends a list.
- :mod:`run`: the order of all of it; :mod:`report` is what it says.
"""
