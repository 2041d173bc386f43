"""Protobuf's messages: their fields may be in any order, and may occur more than once.

All records are read together: each step takes the smallest of the next tags, and reads this field in all records where
it is next.  Encoders usually write fields in ascending order, so each field takes one step.

Rules:

* A field that the schema lacks, or that has a different wire type than the schema's, is skipped.
* A missing field has its default if it has no presence; it is null if it has presence; it is a fault if it is required.
* A field that occurs twice but is not repeated, or two fields of the same oneof, must be merged (:data:`TWICE`):
  :class:`ProtobufMessage`, which has the whole record, lets Protobuf's own library do this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.binary import Cursors, Positions
from chsink.decode.codec import from_buffer
from chsink.decode.protobuf.scalars import FIXED32, FIXED64, SIZED, VARINT, ProtoType

TWICE: Final = "a field that is not repeated is there twice"
REQUIRED: Final = "a required field is missing"
RECURSIVE: Final = "a value of a recursive message, which no column holds"
NO_TAG: Final = "a field's number or wire type does not exist"
GROUP: Final = "a group, which chsink does not read"
INVALID: Final = "it is not a message of its schema"
_END: Final = np.uint64(2**64 - 1)
_NONE: Final[Positions] = np.zeros(0, np.int64)
_US: Final = pa.timestamp("us", "UTC")
_NS: Final = pa.timestamp("ns", "UTC")
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
_DURATION: Final = pa.decimal128(28, 9)
_NS_SECONDS: Final = 9_223_372_035


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field; ``oneof`` is the number of the oneof to which it belongs, or -1."""

    name: str
    number: int
    type: ProtoType
    repeated: bool = False
    presence: bool = False
    required: bool = False
    oneof: int = -1
    packable: bool = False


class MessageType(ProtoType):
    """A length, then the fields' tags and values."""

    wire = SIZED

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: tuple[ProtoField, ...] = ()
        self.complete = False

    @property
    def default(self) -> pa.Array:
        """A message without fields."""
        return self.read(Cursors(pa.array([b"\0"])))

    def read(self, c: Cursors) -> pa.Array:
        """Structs."""
        start, end = c.sized(c.varint().view(np.int64))
        return self.whole(c.inside(start, end))

    def whole(self, c: Cursors) -> pa.Array:
        """A struct for each cursor, read from all of its remaining bytes."""
        columns = self.columns(c, {field.name for field in self.fields})
        if not columns:
            return pa.array([{}] * len(c), pa.struct([]))
        return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))

    def columns(self, c: Cursors, wanted: Collection[str]) -> dict[str, pa.Array]:
        """The arrays of the wanted fields, by name.  Skips the other fields."""
        fields = {field.number: _Collected(field, len(c)) for field in self.fields if field.name in wanted}
        oneofs: dict[int, npt.NDArray[np.bool_]] = {}
        for tag, at, part in _steps(c):
            collected = fields.get(tag >> 3)
            if collected is None or not collected.take(at, part, tag & 7):
                _skip(part, tag & 7)
            elif collected.field.oneof >= 0:
                taken = oneofs.setdefault(collected.field.oneof, np.zeros(len(c), np.bool_))
                part.fault(taken[at], TWICE)
                taken[at] = True
        return {one.field.name: one.array(c) for one in fields.values()}


def _no_records() -> Cursors:
    return Cursors(pa.array([], pa.binary()))


def _steps(c: Cursors) -> Iterator[tuple[int, Positions, Cursors]]:
    """The steps: a tag, the indexes of the cursors at which it is next, and these cursors, moved behind the tag."""
    upcoming = np.full(len(c), _END, np.uint64)
    _read_tags(c, np.arange(len(c)), upcoming)
    while True:
        tag = upcoming.min(initial=_END)
        if tag == _END:
            return
        at = np.flatnonzero(upcoming == tag)
        part = c.some(at)
        yield int(tag), at, part
        c.pos[at] = part.pos
        _read_tags(c, at, upcoming)


def _read_tags(c: Cursors, at: Positions, upcoming: npt.NDArray[np.uint64]) -> None:
    """Read the next tag of the cursors ``at`` into ``upcoming``."""
    over = c.pos[at] >= c.end[at]
    upcoming[at[over]] = _END
    at = at[~over] if over.any() else at
    part = c.some(at)
    tags = part.varint()
    part.fault((tags < 8) | (tags >= 2**32) | (tags & np.uint64(7) > 5), NO_TAG)
    c.pos[at] = part.pos
    upcoming[at] = np.where(part.faults.wrong(part.rows), _END, tags)


def _skip(c: Cursors, wire: int) -> None:
    """Skip a value of this wire type."""
    if wire == VARINT:
        c.varint()
    elif wire == SIZED:
        c.sized(c.varint().view(np.int64))
    elif wire in (FIXED32, FIXED64):
        c.skip(4 if wire == FIXED32 else 8)
    else:
        c.fault(np.ones(len(c), np.bool_), GROUP)


class _Collected:
    """The values of one field read so far."""

    def __init__(self, field: ProtoField, size: int) -> None:
        self.field = field
        self._size = size
        self._owners: list[Positions] = []
        self._values: list[pa.Array] = []
        self._seen = np.zeros(size, np.bool_)

    def take(self, at: Positions, part: Cursors, wire: int) -> bool:
        """Read one or several values at each cursor.  Returns False if the wire type does not match the field."""
        field = self.field
        if field.packable and wire == SIZED:
            owners, elements = _packed(part, field.type)
            self._owners.append(at[owners])
            self._values.append(field.type.read(elements))
            return True
        if wire != field.type.wire:
            return False
        self._values.append(field.type.read(part))
        self._owners.append(at)
        if not field.repeated:
            part.fault(self._seen[at], TWICE)
            self._seen[at] = True
        return True

    def array(self, c: Cursors) -> pa.Array:
        """A value for each cursor."""
        field = self.field
        values = self._values or [field.type.read(_no_records())]
        owners = np.concatenate(self._owners) if self._owners else _NONE
        if field.repeated:
            return self._lists(values, owners)
        if field.required:
            c.fault(~self._seen, REQUIRED)
        if len(owners) == self._size and len(values) == 1:
            return values[0]
        back = np.full(self._size, len(owners), np.int64)
        back[owners] = np.arange(len(owners))
        absent = ~self._seen
        if field.presence:
            return _joined(values).take(pa.array(back, mask=absent))
        return pa.concat_arrays([*values, field.type.default]).take(pa.array(back))

    def _lists(self, values: Sequence[pa.Array], owners: Positions) -> pa.Array:
        counts = np.bincount(owners, minlength=self._size) if len(owners) else np.zeros(self._size, np.int64)
        offsets = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
        items = _joined(values)
        if len(values) > 1:
            items = items.take(pa.array(np.argsort(owners, kind="stable")))
        if isinstance(self.field.type, EntryType):
            assert isinstance(items, pa.StructArray), "an entry is a message"
            key, value = items.flatten()
            return pa.MapArray.from_arrays(offsets, key, value)
        return pa.ListArray.from_arrays(offsets, items)


def _joined(values: Sequence[pa.Array]) -> pa.Array:
    return values[0] if len(values) == 1 else pa.concat_arrays(values)


def _packed(c: Cursors, kind: ProtoType) -> tuple[Positions, Cursors]:
    """The elements of each cursor's packed field: for every element, the index of its owner, and a cursor."""
    start, end = c.sized(c.varint().view(np.int64))
    cut = c.cut(start, end)
    bounds = np.frombuffer(cut.buffers()[1], np.int32)[cut.offset : cut.offset + len(cut) + 1].astype(np.int64)
    bounds -= bounds[0]
    data = np.frombuffer(cut.buffers()[2] or b"", np.uint8)[: bounds[-1]]
    size = {FIXED32: 4, FIXED64: 8}.get(kind.wire, 0)
    if size:
        counts = np.diff(bounds) // size
        c.fault(np.diff(bounds) % size != 0, "a packed field ends inside a value")
        owners = np.repeat(np.arange(len(c)), counts)
        first = np.repeat(bounds[:-1] - size * (np.cumsum(counts) - counts), counts)
        begin = first + size * np.arange(len(owners))
        return owners, c.within(owners, data, begin, begin + size)
    given = np.flatnonzero(np.diff(bounds))
    unended = np.zeros(len(c), np.bool_)
    unended[given] = data[bounds[1:][given] - 1] >= 0x80
    c.fault(unended, "a packed field ends inside a value")
    last = data < 0x80
    last[bounds[1:][given] - 1] = True
    stops = np.flatnonzero(last) + 1
    begin = np.concatenate(([0], stops[:-1])) if len(stops) else _NONE
    owners = np.searchsorted(bounds, begin, side="right") - 1
    return owners, c.within(owners, data, begin, stops)


class EntryType(MessageType):
    """An entry of a map: a message of key and value, each with its default."""


class WrapperType(MessageType):
    """``google.protobuf.Int64Value`` and similar types: read as the value itself; null if the message is missing."""

    def whole(self, c: Cursors) -> pa.Array:
        """The values."""
        return self.columns(c, {"value"})["value"]


class TimestampType(MessageType):
    """``google.protobuf.Timestamp``: in microseconds, or in nanoseconds if microseconds are not exact."""

    def whole(self, c: Cursors) -> pa.Array:
        """A union of timestamps in microseconds and in nanoseconds, so that each value is exact."""
        found = self.columns(c, {"seconds", "nanos"})
        seconds, nanos = (found[name].to_numpy().astype(np.int64) for name in ("seconds", "nanos"))
        wrong = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND) | (nanos < 0) | (nanos > 999_999_999)
        c.fault(wrong, "a Timestamp that does not exist")
        fine = nanos % 1000 != 0
        far = fine & (np.abs(seconds) > _NS_SECONDS)
        c.fault(far, "a Timestamp in nanoseconds beyond the years 1677 to 2262")
        seconds = np.where(wrong | far, 0, seconds)
        coarse_at, fine_at = np.flatnonzero(~fine), np.flatnonzero(fine)
        offsets = np.zeros(len(c), np.int32)
        offsets[coarse_at], offsets[fine_at] = np.arange(len(coarse_at)), np.arange(len(fine_at))
        us = from_buffer(_US, (seconds * 10**6 + nanos // 1000)[coarse_at], None)
        ns = from_buffer(_NS, (seconds[fine_at] * 10**9 + nanos[fine_at]), None)
        return pa.UnionArray.from_dense(pa.array(fine.astype(np.int8)), pa.array(offsets), [us, ns], ["us", "ns"])


class DurationType(MessageType):
    """``google.protobuf.Duration``: seconds with nine decimal places."""

    def whole(self, c: Cursors) -> pa.Array:
        """Decimal seconds."""
        found = self.columns(c, {"seconds", "nanos"})
        seconds, nanos = (found[name].to_numpy().astype(np.int64) for name in ("seconds", "nanos"))
        wrong = (np.abs(seconds) > 315_576_000_000) | (np.abs(nanos) > 999_999_999) | (seconds * np.sign(nanos) < 0)
        c.fault(wrong, "a Duration that does not exist")
        parts = [pa.array(np.where(wrong, 0, seconds)).cast(pa.decimal128(19, 0)).cast(_DURATION)]
        parts.append(from_buffer(_DURATION, np.stack((nanos, nanos >> 63), axis=1), None))
        return pc.add(*parts)


class ProtoRecursive(ProtoType):
    """A message inside itself: null if it is missing, else a fault."""

    wire = SIZED
    _default = pa.nulls(1)

    def read(self, c: Cursors) -> pa.Array:
        """Mark every message as wrong."""
        c.sized(c.varint().view(np.int64))
        c.fault(np.ones(len(c), np.bool_), RECURSIVE)
        return pa.nulls(len(c))


class ProtobufMessage:
    """A record that consists of one message.  ``merge`` returns its encoding with every field at most once, or raises
    ValueError.
    """

    def __init__(self, kind: MessageType, merge: Callable[[bytes], bytes]) -> None:
        self._kind = kind
        self._merge = merge

    def columns(self, c: Cursors, wanted: Collection[str]) -> dict[str, pa.Array]:
        """See :class:`chsink.decode.messages.Message`."""
        start, end = c.pos.copy(), c.end
        found = self._kind.columns(c, wanted)
        again = c.faults.of(TWICE).tolist()
        if not again:
            return found
        values = [c.data[one:other].tobytes() for one, other in zip(start, end, strict=True)]
        invalid = []
        for at in again:
            try:
                values[at] = self._merge(values[at])
            except ValueError:
                invalid.append(at)
        c.restart(pa.array(values, pa.binary()))
        c.faults.mark(np.array(invalid, np.int64), INVALID)
        return self._kind.columns(c, wanted)
