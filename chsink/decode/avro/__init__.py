"""Avro's binary encoding to Arrow columns.

- :mod:`schema`: parses an Avro schema, and the schemas it refers to, into a tree of types.
- :mod:`types`: unions, arrays, maps and records; each type reads its next value from many records at once.
- :mod:`scalars`: all other types, including logical types.
"""
