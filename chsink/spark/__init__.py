"""The only room that knows pyspark: planned ranges, the stream's plan, tasks, the sink and the job.

It leans on a few internals of Spark that no public API offers: the query's checkpoint path, the analysed plan of a
stream and the lineage of a micro-batch.  They are used in :mod:`stream_plan`, :mod:`offset_log`, :mod:`lineage` and
:mod:`query` only; pyspark is pinned, and ``docs/adr/0003-spark-internals.md`` says what to check when it moves.
"""
