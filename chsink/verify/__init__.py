"""``chsink verify``: are the tables what Kafka's records say?  Reads both, changes neither.

- :mod:`scope`: the offsets whose rows are in the table according to the recorded state.  Pure.
- :mod:`compare`: compares the expected rows with the rows in the table.  Pure.
- :mod:`report`: what was found; its size is bounded.
- :mod:`digests`: a row as sixteen bytes, made by the server for both sides.
- :mod:`by_offset`: tables with ``_kafka_*`` columns, a window of offsets at a time.
- :mod:`run`: all routes of a job, or a part of them.
"""
