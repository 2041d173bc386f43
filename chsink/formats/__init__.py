"""How records are read: one reader per format, for a ClickHouse table and for an Iceberg table.

- :mod:`settings`: the formats as the job file names them, with their options;
- :mod:`format_reader`, :mod:`readers`: the reader protocol, and the table of formats and readers; a new format needs
  a settings class, a file with its reader, and one line in :mod:`readers`;
- :mod:`json`, :mod:`json_schema`, :mod:`debezium`, :mod:`delimited`, :mod:`raw_and_string`, :mod:`avro`,
  :mod:`protobuf`: the readers; Avro and Protobuf share :mod:`message_reader`, all formats with a schema id share
  :mod:`with_schema`;
- :mod:`key_and_value`: reads the value and the key with a reader each; :mod:`deletes`: records that delete their key;
- :mod:`table_by`, :mod:`table_by_decoder`: which of a topic's tables takes a record (``table_by``);
- :mod:`column_checks`: checks that the options fit the columns of a table;
- :mod:`record_fields`, :mod:`declared_types`: fields without a column, and the column types to create for them;
- :mod:`announced_columns`: a range in doubt keeps its columns when columns are added to the table;
- :mod:`records`: the :class:`chsink.ports.Decoder` for records in a format;
- :mod:`columns`: the :class:`chsink.ports.Decoder` for a transformed stream, whose columns match the table's;
- :mod:`decoders`: chooses between these two decoders;
- :mod:`metadata`: adds columns for Kafka's own fields (topic, partition, offset and so on) to any format;
- :mod:`pipeline`: the fingerprint of a decoder and of the transform before it.
"""
