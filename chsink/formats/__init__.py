"""How records are read: one :class:`chsink.ports.Decoder` per format.

- :mod:`registry`: which formats there are, and which one reads a stream; a new format is one file and one line there.
- :mod:`json`: the record's value is one JSON object.
- :mod:`columns`: the stream's own columns are the table's.
- :mod:`metadata`: Kafka's own fields, beside what any format made of the value.
- :mod:`pipeline`: a decoder and what was done to the stream before it, with one fingerprint.
"""
