"""``chsink verify``: are the tables what Kafka's records say?  Reads both, changes neither.

- :mod:`scope`: of which offsets the recorded state says that their rows are in the table.  Pure.
- :mod:`compare`: the rows that there should be, against the rows that there are.  Pure.
- :mod:`report`: what was found, bounded however much it is.
- :mod:`digests`: a row as sixteen bytes, made by the server for both sides.
- :mod:`by_offset`: tables with ``_kafka_*`` columns, a window of offsets at a time.
- :mod:`run`: all routes of a job, or a part of them.
"""
