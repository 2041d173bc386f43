"""ClickHouse's notation: only this package parses and writes it.

- :mod:`sql`: names, string literals, ``database.table``;
- :mod:`table_template`: names of tables with placeholders;
- :mod:`type_text`: a column type's text as a tree;
- :mod:`metadata_columns`: the ``_kafka_*`` columns that a table may have;
- :mod:`hash_functions`: the sharding expressions that chsink computes;
- :mod:`codes`: error codes, and the meaning of groups of them.

Pure text, standard library only, so that every package may use it.  Text that cannot be parsed raises ValueError.
"""
