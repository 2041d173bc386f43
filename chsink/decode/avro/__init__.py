"""Avro's binary encoding to Arrow columns.

- :mod:`schema`: an Avro schema, and those it refers to, as a tree of types.
- :mod:`types`: the types, each of which reads its next value from many records at once.
- :mod:`scalars`: those without parts, logical types among them.
"""
