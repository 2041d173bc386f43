"""How a micro-batch reaches ClickHouse, without knowing Spark: the driver's steps and the executor's.

- :mod:`ledger`: owns the state rows: claims the epoch, writes BEFORE and AFTER, resolves unknown outcomes.
- :mod:`driver`: one batch: plan → settle → BEFORE → pieces → AFTER.
- :mod:`task`: one topic-partition on an executor: chunks → columns → shards → inserts → acknowledgement.

Everything outside is reached through :mod:`chsink.ports`, so that the simulator runs this very code.
"""
