"""The fields that records have and the table may lack: how many records have each, and a column type to create for it.

JSON has no schema, so column types are inferred from the values (:mod:`chsink.decode.inferred`).  Avro and Protobuf
schemas declare the types; Debezium's events may (:mod:`chsink.formats.change_fields`).
Formats whose columns are set in the job file offer no fields.  Names may appear in messages; values never leave this
module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, overload

import msgspec
import pyarrow as pa

from chsink.decode.binary import Cursors
from chsink.decode.field_paths import is_plain
from chsink.decode.inferred import Kinds
from chsink.decode.messages import Message
from chsink.formats.avro import avro_reader
from chsink.formats.change_fields import NOT_JSON, ChangeFields
from chsink.formats.column_types import CLICKHOUSE, ColumnTypes, T, widest
from chsink.formats.message_reader import MessageReader
from chsink.formats.protobuf import protobuf_reader
from chsink.formats.raw_and_string import as_binary
from chsink.formats.settings import Avro, Debezium, FormatSettings, Json, JsonFields, JsonSchema, Protobuf, names_of
from chsink.formats.with_schema import HEADER
from chsink.ports import BadValue

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Offered(Protocol[T]):
    """Finds the fields of a format's values.  A value that cannot be read has no fields."""

    def counts(self, values: pa.Array, known: Collection[str]) -> Counter[str]:
        """The number of values that have each field, without the ``known`` fields."""

    def columns(self, values: pa.Array, known: Collection[str], *, times: bool = False) -> dict[str, T | None]:
        """Maps each field, without the ``known`` ones, to its column type; None if the values do not determine a type
        yet, or the user must choose.  ``times``: JSON text may be a time.
        """


@overload
def offered_by(settings: FormatSettings) -> Offered[str] | None: ...


@overload
def offered_by(settings: FormatSettings, types: ColumnTypes[T]) -> Offered[T] | None: ...


def offered_by(settings: FormatSettings, types: ColumnTypes[Any] = CLICKHOUSE) -> Offered[Any] | None:
    """Finds the fields of this format; None if the format's columns are set in the job file.  ``types`` names the
    types of their columns.
    """
    if isinstance(settings, Json | JsonSchema):
        skip = HEADER if isinstance(settings, JsonSchema) else 0
        return _JsonFields(around := names_of(settings.envelope), _read_whole(settings, around), skip, types)
    if isinstance(settings, Debezium):
        return ChangeFields(_read_whole(settings, ("after",)), types)
    if isinstance(settings, Avro):
        return _SchemaFields(avro_reader(settings, ()), types)
    return _SchemaFields(protobuf_reader(settings, ()), types) if isinstance(settings, Protobuf) else None


def _read_whole(settings: JsonFields, around: tuple[str, ...]) -> frozenset[str]:
    """Members of the object ``around`` that the job file gives to a column.  A path that leads further in leaves the
    rest of its member unread.
    """
    return frozenset(path[-1] for path in settings.paths.values() if path[:-1] == around)


@dataclass(frozen=True)
class _JsonFields(Generic[T]):
    """Members of the object at ``envelope``.  ``used``: members that columns of other names take.  The JSON text begins
    ``skip`` bytes into each value.
    """

    envelope: tuple[str, ...]
    used: frozenset[str]
    skip: int
    types: ColumnTypes[T]

    def counts(self, values: pa.Array, known: Collection[str]) -> Counter[str]:
        """See :class:`Offered`."""
        found: Counter[str] = Counter()
        for members in self._with_more(values, known):
            found.update(members.keys())
        return found

    def columns(self, values: pa.Array, known: Collection[str], *, times: bool = False) -> dict[str, T | None]:
        """See :class:`Offered`."""
        kinds: dict[str, Kinds] = {}
        for members in self._with_more(values, known):
            for name, raw in members.items():
                if name not in kinds:
                    kinds[name] = self.types.kinds(times=times)
                kinds[name].add(bytes(raw))
        return {name: self.types.of_json(seen, name) for name, seen in kinds.items()}

    def _with_more(self, values: pa.Array, known: Collection[str]) -> Iterator[dict[str, msgspec.Raw]]:
        """The unknown members of each record that has any."""
        names = frozenset(known) | self.used
        plain = None if self.envelope or self.skip else _only(names, self.types.inside)
        tried = missed = 0
        for value in as_binary(values).to_pylist():
            if value is None:
                continue
            if plain is not None and missed * 4 <= tried:  # with more misses, the fast check costs more than it saves
                tried += 1
                try:
                    plain(value)
                    continue
                except NOT_JSON:
                    missed += 1
            more = {name: raw for name, raw in self._members(value[self.skip :]).items() if name not in names}
            if more:
                yield more

    def _members(self, value: bytes) -> dict[str, msgspec.Raw]:
        try:
            members = _MEMBERS.decode(value)
            for name in self.envelope:
                members = _MEMBERS.decode(members[name])
        except (*NOT_JSON, KeyError):
            return {}
        return members


def _only(names: Collection[str], inside: Mapping[str, Any]) -> Callable[[bytes], msgspec.Struct]:
    """A decoder of objects that have no members but these; it raises one of ``NOT_JSON`` for any other record."""
    return msgspec.json.Decoder(only_members({**dict.fromkeys(sorted(names), msgspec.Raw), **inside})).decode


def only_members(members: Mapping[str, Any]) -> type[msgspec.Struct]:
    """What msgspec reads as objects with no members but these, which it reads as what they map to.  A member whose name
    it cannot take is none of them.
    """
    taken = {name: kind for name, kind in members.items() if is_plain(name)}
    fields = [
        (f"f{at}", kind, msgspec.Raw() if kind is msgspec.Raw else None) for at, kind in enumerate(taken.values())
    ]
    rename = {f"f{at}": name for at, name in enumerate(taken)}
    return msgspec.defstruct("Record", fields, rename=rename, forbid_unknown_fields=True, gc=False)


class _Everything(Collection[str]):
    """Contains every name."""

    def __contains__(self, _: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True)
class _SchemaFields(Generic[T]):
    """Fields of the messages' schemas, whether a record has a value for them or not."""

    reader: MessageReader[Any]
    types: ColumnTypes[T]

    def counts(self, values: pa.Array, known: Collection[str]) -> Counter[str]:
        """See :class:`Offered`."""
        found: Counter[str] = Counter()
        for fields, records in self._types(values):
            found.update({name: records for name in fields if name not in known})
        return found

    def columns(self, values: pa.Array, known: Collection[str], *, times: bool = False) -> dict[str, T | None]:
        """See :class:`Offered`.  The schemas declare which fields are times."""
        del times
        found: dict[str, T | None] = {}
        for fields, _ in self._types(values):
            for name, kind in fields.items():
                if name not in known:
                    found[name] = widest(self.types, found.get(name), self.types.of_schema(kind))
        return found

    def _types(self, values: pa.Array) -> Iterator[tuple[dict[str, pa.DataType], int]]:
        """For each message type among the values: its fields with their Arrow types, and its number of records."""
        bad: list[BadValue] = []
        for message, some, _, skip in self.reader.messages(as_binary(values), bad):
            start = skip if isinstance(skip, int) else skip[:1]
            if len(some):
                yield _types_of(message, Cursors(some.slice(0, 1), start)), len(some)


def _types_of(message: Message, first: Cursors) -> dict[str, pa.DataType]:
    return {name: array.type for name, array in message.columns(first, _Everything()).items()}
