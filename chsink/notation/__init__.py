"""How ClickHouse writes things down: read and written here, and nowhere else.

- :mod:`sql`: names, string literals, ``database.table``;
- :mod:`type_text`: a column type's text as a tree;
- :mod:`metadata_columns`: the ``_kafka_*`` columns that a table may have;
- :mod:`codes`: error codes, and what a group of them means.

Pure text, standard library only, so that every package may use it.  What cannot be read is a ValueError.
"""
