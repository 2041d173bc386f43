"""``chsink init --from-topic``: a first job file and table for a topic that exists.

- :mod:`guess`: the format of sampled values.
- :mod:`job`: the text of the job file.
- :mod:`nested`: what became of nested fields.
- :mod:`outliers`: columns that became text because of a few values.
- :mod:`propose`: samples a topic, and says what its table would be and which records would not fit.
"""
