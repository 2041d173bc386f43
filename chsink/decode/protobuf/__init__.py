"""Protobuf's binary encoding to Arrow columns.

- :mod:`descriptors`: the types of a file's messages; the only module that uses the package ``protobuf``.
- :mod:`types`: messages, each of which reads its fields from many records at once.
- :mod:`scalars`: the types of single fields.
"""
