"""Dead letters: the records that fit no row, kept whole beside the table, each exactly once.

- :mod:`fates`: what becomes of a record that has no row.
- :mod:`letters`: what a dead letter holds, and the table that takes them.
- :mod:`place`, :mod:`topic`: a Kafka topic that takes them, by transactions; :mod:`search` reads it.
- :mod:`kept`, :mod:`table`: dead letters as they are read again; :mod:`where`: which of them.

The ClickHouse lander delivers a chunk's dead letters before it inserts any of the chunk's pieces, so they are durable
before AFTER.  To a table it does so by itself (:mod:`chsink.clickhouse.dead_letters`).
"""
