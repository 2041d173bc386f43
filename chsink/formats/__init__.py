"""How records are read: one reader per format, for a ClickHouse table and for an Iceberg table.

- :mod:`settings`: the formats as the job file names them, with their options;
- :mod:`format_reader`, :mod:`readers`: what a reader is, and which one reads which format; a new format is its
  settings, its file, and one line there;
- :mod:`json`, :mod:`json_schema`, :mod:`debezium`, :mod:`delimited`, :mod:`whole`, :mod:`avro`, :mod:`protobuf`: the
  readers; :mod:`message_reader` is what Avro and Protobuf share, :mod:`with_schema` what all with a schema id share;
- :mod:`keyed`: a reader of values and one of keys, side by side; :mod:`deletes`: records that delete their key;
- :mod:`choice`, :mod:`chosen`: which of a topic's tables takes a record (``table_by``);
- :mod:`filled`: whether the options fit the columns of a table;
- :mod:`offered`, :mod:`declared`: fields without a column, and the columns that would take them;
- :mod:`announced`: a range in doubt keeps its columns when the table gains some;
- :mod:`records`: :class:`chsink.ports.Decoder` of records in a format, for a ClickHouse table;
- :mod:`columns`: :class:`chsink.ports.Decoder` of a transformed stream, whose own columns are the table's;
- :mod:`decoders`: which of the two reads a stream;
- :mod:`metadata`: Kafka's own fields, beside what any format made of the record;
- :mod:`pipeline`: a decoder and what was done to the stream before it, with one fingerprint.
"""
