"""The only package that imports pyspark: planned ranges, the stream's plan, tasks, the sink and the job.

It depends on a few internals of Spark for which there is no public API: the query's checkpoint path, the analysed plan
of a stream and the tasks of a micro-batch.  Each is used in one module only.  pyspark is kept to one minor
version, and ``docs/adr/0003-spark-internals.md`` lists what to check before changing that.
"""
