"""Makes message types from file descriptors.  The package ``protobuf`` links the descriptors.

Decoding does not use that package, except for the rare record whose fields must be merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError

# Google's well-known types: schemas may use them without including their descriptors.
from google.protobuf import any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2  # isort: skip

from chsink.decode.protobuf.scalars import (
    ProtoBoolean,
    ProtoBytes,
    ProtoEnum,
    ProtoFixed,
    ProtoInteger,
    ProtoString,
    ProtoType,
)
from chsink.decode.protobuf.types import (
    DurationType,
    EntryType,
    MessageType,
    ProtobufMessage,
    ProtoField,
    ProtoRecursive,
    TimestampType,
    WrapperType,
)

_KNOWN_FILES: Final = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
_SCALARS: Final = {
    FieldDescriptor.TYPE_INT32: lambda: ProtoInteger(32, signed=True),
    FieldDescriptor.TYPE_INT64: lambda: ProtoInteger(64, signed=True),
    FieldDescriptor.TYPE_UINT32: lambda: ProtoInteger(32, signed=False),
    FieldDescriptor.TYPE_UINT64: lambda: ProtoInteger(64, signed=False),
    FieldDescriptor.TYPE_SINT32: lambda: ProtoInteger(32, signed=True, zigzag=True),
    FieldDescriptor.TYPE_SINT64: lambda: ProtoInteger(64, signed=True, zigzag=True),
    FieldDescriptor.TYPE_BOOL: ProtoBoolean,
    FieldDescriptor.TYPE_FIXED32: lambda: ProtoFixed(pa.uint32()),
    FieldDescriptor.TYPE_FIXED64: lambda: ProtoFixed(pa.uint64()),
    FieldDescriptor.TYPE_SFIXED32: lambda: ProtoFixed(pa.int32()),
    FieldDescriptor.TYPE_SFIXED64: lambda: ProtoFixed(pa.int64()),
    FieldDescriptor.TYPE_FLOAT: lambda: ProtoFixed(pa.float32()),
    FieldDescriptor.TYPE_DOUBLE: lambda: ProtoFixed(pa.float64()),
    FieldDescriptor.TYPE_STRING: ProtoString,
    FieldDescriptor.TYPE_BYTES: ProtoBytes,
}
_NOT_PACKABLE: Final = frozenset(
    {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP}
)
_WELL_KNOWN: Final[dict[str, type[MessageType]]] = {
    "google.protobuf.Timestamp": TimestampType,
    "google.protobuf.Duration": DurationType,
    **{
        f"google.protobuf.{name}Value": WrapperType
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
    },
}


class DescriptorError(ValueError):
    """The bytes are not a valid descriptor, or the descriptor lacks the requested message; the text says which."""


def file_of(described: bytes, references: Iterable[tuple[str, bytes]]) -> FileDescriptor:
    """The file that a ``FileDescriptorProto`` describes.  ``references`` are (name, descriptor) pairs of the files it
    imports, directly or not, dependencies first.
    """
    pool = _pool()
    for name, reference in references:
        _add(pool, _parsed(reference), name)
    main = _parsed(described)
    return _add(pool, main, main.name or "main.proto")


def message_in_set(described: bytes, name: str) -> ProtobufMessage:
    """The message of this full name in a ``FileDescriptorSet``, as ``protoc --include_imports`` writes it."""
    files = descriptor_pb2.FileDescriptorSet()
    pool = _pool()
    try:
        files.ParseFromString(described)
    except DecodeError:
        raise DescriptorError("it is not a FileDescriptorSet (protoc --descriptor_set_out --include_imports)") from None
    for one in files.file:
        _add(pool, one, one.name)
    try:
        return message_of(pool.FindMessageTypeByName(name))
    except KeyError:
        raise DescriptorError(f"it has no message {name}") from None


def message_at(file: FileDescriptor, path: Sequence[int]) -> ProtobufMessage:
    """The message type at these indexes: the first into the file's types, each further one into the nested types."""
    found: Any = None
    try:
        for index in path:
            names = file.message_types_by_name if found is None else found.nested_types_by_name
            found = list(names.values())[index]
    except IndexError:
        raise DescriptorError(f"it has no message at {list(path)}") from None
    return message_of(found)


def message_of(descriptor: Descriptor) -> ProtobufMessage:
    """A record that consists of one message of this type."""
    made = message_factory.GetMessageClass(descriptor)

    def merge(data: bytes) -> bytes:
        try:
            whole: Any = made.FromString(data)
        except DecodeError:
            raise DescriptorError("no such message") from None
        merged: bytes = whole.SerializePartialToString()
        return merged

    return ProtobufMessage(_message(descriptor, {}), merge)


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for module in _KNOWN_FILES:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool


def _parsed(described: bytes) -> descriptor_pb2.FileDescriptorProto:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(described)
    except DecodeError:
        raise DescriptorError("it is not a FileDescriptorProto") from None


def _add(pool: descriptor_pool.DescriptorPool, file: descriptor_pb2.FileDescriptorProto, name: str) -> FileDescriptor:
    file.name = name
    try:
        if not any(module.DESCRIPTOR.name == name for module in _KNOWN_FILES):
            pool.Add(file)
        return pool.FindFileByName(name)
    except (TypeError, KeyError):
        raise DescriptorError(f"the file {name} cannot be linked") from None


def _message(descriptor: Descriptor, inside: dict[str, MessageType]) -> MessageType:
    kind = EntryType if descriptor.GetOptions().map_entry else _WELL_KNOWN.get(descriptor.full_name, MessageType)
    made = kind(descriptor.full_name)
    inside = {**inside, descriptor.full_name: made}
    made.fields = tuple(_field(field, inside, entry=kind is EntryType) for field in descriptor.fields)
    return made


def _field(field: FieldDescriptor, inside: dict[str, MessageType], *, entry: bool) -> ProtoField:
    repeated = field.is_repeated
    group = field.containing_oneof
    return ProtoField(
        field.name,
        field.number,
        _type(field, inside),
        repeated=repeated,
        presence=field.has_presence and not entry,
        required=field.is_required,
        oneof=-1 if group is None else group.index,
        packable=repeated and field.type not in _NOT_PACKABLE,
    )


def _type(field: FieldDescriptor, inside: dict[str, MessageType]) -> ProtoType:
    if field.type == FieldDescriptor.TYPE_GROUP:
        raise DescriptorError(f"its field {field.full_name} is a group")
    if field.type == FieldDescriptor.TYPE_ENUM:
        values = {value.number: value.name for value in reversed(field.enum_type.values)}
        return ProtoEnum(values, field.enum_type.values[0].number, closed=field.enum_type.is_closed)
    if field.message_type is None:
        return _SCALARS[field.type]()
    name = field.message_type.full_name
    return ProtoRecursive() if name in inside else _message(field.message_type, inside)
