"""One micro-batch for any lander, without knowing Spark: the driver's steps and the executor's.

- :mod:`loop`: one batch after the other to one lander: when it is opened, and how it ends.
- :mod:`lanes`: several tables of one topic: a driver for each lane, on one ledger.
- :mod:`driver`: one batch: decide → settle → BEFORE → pieces → AFTER.  :mod:`rounds`: how much of it at once.
- :mod:`ledger`: owns the state rows: claims the epoch, writes BEFORE and AFTER, resolves unknown outcomes.
- :mod:`confirm`: do the acknowledgements tile what was assigned?  :mod:`recheck`: does Kafka still hold it?
- :mod:`task`: one topic-partition on an executor.  :mod:`reader`: its input, cut into chunks.
- :mod:`roles`: the Protocols of landers, tasks and targets.  :mod:`model`: assignments and acknowledgements.

Everything outside is reached through :mod:`chsink.ports`, so that the simulator runs this very code.
"""
