"""How records are read: one reader per format, for a ClickHouse table and for an Iceberg table.

- :mod:`settings`: the formats as the job file names them, with their options;
- :mod:`format_reader`, :mod:`readers`: what a reader is, and which one reads which format; a new format is its
  settings, its file, and one line there;
- :mod:`json`, :mod:`debezium`, :mod:`delimited`, :mod:`whole`, :mod:`avro`, :mod:`protobuf`: the readers;
- :mod:`keyed`: a reader of values and one of keys, side by side;
- :mod:`filled`: whether the options fit the columns of a table;
- :mod:`records`: :class:`chsink.ports.Decoder` of records in a format, for a ClickHouse table;
- :mod:`columns`: :class:`chsink.ports.Decoder` of a transformed stream, whose own columns are the table's;
- :mod:`registry`: which of the two reads a stream;
- :mod:`metadata`: Kafka's own fields, beside what any format made of the record;
- :mod:`pipeline`: a decoder and what was done to the stream before it, with one fingerprint.
"""
