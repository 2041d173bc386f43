"""How records are read: one reader per format, for a ClickHouse table and for an Iceberg table.

- :mod:`settings`: the formats as the job file names them, with their options;
- :mod:`format_reader`, :mod:`readers`: the reader protocol, and the table of formats and readers; a new format needs
  a settings class, a file with its reader, and one line in :mod:`readers`;
- :mod:`json`, :mod:`json_schema`, :mod:`debezium`, :mod:`delimited`, :mod:`whole`, :mod:`avro`, :mod:`protobuf`: the
  readers; Avro and Protobuf share :mod:`message_reader`, all formats with a schema id share :mod:`with_schema`;
- :mod:`keyed`: reads the value and the key with a reader each; :mod:`deletes`: records that delete their key;
- :mod:`choice`, :mod:`chosen`: which of a topic's tables takes a record (``table_by``);
- :mod:`filled`: checks that the options fit the columns of a table;
- :mod:`offered`, :mod:`declared`: fields without a column, and the column types to create for them;
- :mod:`announced`: a range in doubt keeps its columns when columns are added to the table;
- :mod:`records`: the :class:`chsink.ports.Decoder` for records in a format;
- :mod:`columns`: the :class:`chsink.ports.Decoder` for a transformed stream, whose columns match the table's;
- :mod:`decoders`: chooses between these two decoders;
- :mod:`metadata`: adds columns for Kafka's own fields (topic, partition, offset and so on) to any format;
- :mod:`pipeline`: the fingerprint of a decoder and of the transform before it.
"""
