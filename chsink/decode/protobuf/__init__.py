"""Protobuf's binary encoding to Arrow columns.

- :mod:`descriptors`: makes message types from file descriptors; the only module that uses the package ``protobuf``.
- :mod:`types`: message types; each reads its fields from many records at once.
- :mod:`scalars`: the types of fields that are not messages.
"""
