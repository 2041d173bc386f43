"""Avro schemas of the control topic's events, written out, with the field ids by which readers know the fields.

The names, ids and framing are those of Apache Iceberg's Kafka Connect sink, so that its tools can read the topic.
Fields whose name begins with ``chsink_`` are ours.  They are optional, and have ids of their own.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import make_compatible_name
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.decimal import decimal_required_bytes

_Schema = dict[str, Any]

_PACKAGE = "org.apache.iceberg.connect.events"
START_COMMIT, DATA_WRITTEN, DATA_COMPLETE, COMMIT_TO_TABLE, COMMIT_COMPLETE = range(5)
"""The envelope's ``type``."""
KINDS = range(COMMIT_COMPLETE + 1)
UNPARTITIONED = StructType()


def _field(name: str, field_id: int, kind: str | _Schema, *, optional: bool = False) -> _Schema:
    if optional:
        return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
    return {"name": name, "type": kind, "field-id": field_id}


def _record(name: str, *fields: _Schema) -> _Schema:
    return {"type": "record", "name": name, "fields": list(fields)}


def _list(element: str | _Schema, element_id: int) -> _Schema:
    return {"type": "array", "items": element, "element-id": element_id}


def _map(key_id: int, value_id: int, value: str) -> _Schema:
    """A map as an array of key and value: Avro's own maps have text keys only."""
    entry = _record(f"k{key_id}_v{value_id}", _field("key", key_id, "int"), _field("value", value_id, value))
    return {"type": "array", "items": entry, "logicalType": "map"}


_TIME: _Schema = {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}
_UUID: _Schema = {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"}
_FILE = "org.apache.iceberg.GenericDataFile"
_UUID_AGAIN = "uuid_fixed"
"""A named type is defined once in a schema; the envelope's id, which comes first, defines it."""


def _table_reference() -> _Schema:
    return _record(
        f"{_PACKAGE}.TableReference",
        _field("catalog", 10600, "string"),
        _field("namespace", 10601, _list("string", 10602)),
        _field("name", 10603, "string"),
    )


_PLAIN: dict[type[IcebergType], str | _Schema] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    TimestampType: _TIME | {"adjust-to-utc": False},
    TimestamptzType: _TIME,
    StringType: "string",
    BinaryType: "bytes",
}
"""The Avro type of the values of a partition field, for all types without a size."""


def _partition_value(field: NestedField) -> str | _Schema:
    """A named type bears the field's id: a name may be defined once in a schema."""
    match field.field_type:
        case UUIDType():
            return _UUID | {"name": f"uuid_{field.field_id}"}
        case FixedType() as kind:
            return {"type": "fixed", "size": len(kind), "name": f"fixed_{field.field_id}"}
        case DecimalType() as kind:
            size = decimal_required_bytes(kind.precision)
            digits = {"precision": kind.precision, "scale": kind.scale}
            named = {"type": "fixed", "size": size, "name": f"decimal_{field.field_id}"}
            return named | {"logicalType": "decimal"} | digits
    return _PLAIN[type(field.field_type)]


def _partition(fields: StructType) -> _Schema:
    values = [_field(partition_name(f), f.field_id, _partition_value(f), optional=True) for f in fields.fields]
    return _record("org.apache.iceberg.PartitionData", *values)


def partition_name(field: NestedField) -> str:
    """A partition field's name in Avro; readers know the field by its id."""
    return make_compatible_name(field.name)


def data_file_schema(name: str, partition: StructType) -> _Schema:
    """A file of a table, with its partition value."""
    return _record(
        name,
        _field("content", 134, "int"),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("spec_id", 141, "int", optional=True),
        _field("partition", 102, _partition(partition)),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        _field("column_sizes", 108, _map(117, 118, "long"), optional=True),
        _field("value_counts", 109, _map(119, 120, "long"), optional=True),
        _field("null_value_counts", 110, _map(121, 122, "long"), optional=True),
        _field("nan_value_counts", 137, _map(138, 139, "long"), optional=True),
        _field("lower_bounds", 125, _map(126, 127, "bytes"), optional=True),
        _field("upper_bounds", 128, _map(129, 130, "bytes"), optional=True),
        _field("key_metadata", 131, "bytes", optional=True),
        _field("split_offsets", 132, _list("long", 133), optional=True),
        _field("equality_ids", 135, _list("int", 136), optional=True),
        _field("sort_order_id", 140, "int", optional=True),
    )


def _data_written(partition: StructType) -> _Schema:
    return _record(
        f"{_PACKAGE}.DataWritten",
        _field("commit_id", 10300, _UUID_AGAIN),
        _field("table_reference", 10301, _table_reference()),
        _field("data_files", 10302, _list(data_file_schema(_FILE, partition), 10303), optional=True),
        # chsink writes no deletes; they share the description of a data file
        _field("delete_files", 10304, _list(_FILE, 10305), optional=True),
        _field("chsink_unit", 19300, "string", optional=True),
        _field("chsink_table_uuid", 19301, "string", optional=True),
        _field("chsink_topic", 19302, "string", optional=True),
        _field("chsink_topic_id", 19303, "string", optional=True),
        _field("chsink_partition", 19304, "int", optional=True),
        _field("chsink_from", 19305, "long", optional=True),
        _field("chsink_until", 19306, "long", optional=True),
        _field("chsink_part", 19307, "int", optional=True),
        _field("chsink_parts", 19308, "int", optional=True),
        _field("chsink_spec_id", 19309, "int", optional=True),
        _field("chsink_timestamp", 19310, "long", optional=True),
        _field("chsink_choice", 19311, "string", optional=True),
        _field("chsink_skipped", 19312, "long", optional=True),
    )


def _data_complete() -> _Schema:
    assignment = _record(
        f"{_PACKAGE}.TopicPartitionOffset",
        _field("topic", 10700, "string"),
        _field("partition", 10701, "int"),
        _field("offset", 10702, "long", optional=True),
        _field("timestamp", 10703, _TIME, optional=True),
    )
    return _record(
        f"{_PACKAGE}.DataComplete",
        _field("commit_id", 10100, _UUID_AGAIN),
        _field("assignments", 10101, _list(assignment, 10102), optional=True),
    )


def _commit_to_table() -> _Schema:
    return _record(
        f"{_PACKAGE}.CommitToTable",
        _field("commit_id", 10400, _UUID_AGAIN),
        _field("table_reference", 10401, _table_reference()),
        _field("snapshot_id", 10402, "long", optional=True),
        _field("valid_through_ts", 10403, _TIME, optional=True),
    )


_PAYLOADS: dict[int, _Schema] = {
    START_COMMIT: _record(f"{_PACKAGE}.StartCommit", _field("commit_id", 10200, _UUID_AGAIN)),
    DATA_COMPLETE: _data_complete(),
    COMMIT_TO_TABLE: _commit_to_table(),
    COMMIT_COMPLETE: _record(
        f"{_PACKAGE}.CommitComplete",
        _field("commit_id", 10000, _UUID_AGAIN),
        _field("valid_through_ts", 10001, _TIME, optional=True),
    ),
}
"""All but DataWritten, whose files have a partition."""


def envelope(kind: int, partition: StructType = UNPARTITIONED) -> _Schema:
    """The schema of an event whose payload is of this kind.  ``partition`` is the type of its files' partition."""
    return _record(
        f"{_PACKAGE}.Event",
        _field("id", 10500, _UUID),
        _field("type", 10501, "int"),
        _field("timestamp", 10502, _TIME),
        _field("group_id", 10503, "string"),
        _field("payload", 10504, _data_written(partition) if kind == DATA_WRITTEN else _PAYLOADS[kind]),
    )
