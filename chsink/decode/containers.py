"""Array, Tuple and Map.

Rules: if one element does not fit, the whole value does not fit.  An element may be null only if its type is Nullable.
A named Tuple is an object with its names (others are ignored), or an array of its length; an unnamed Tuple is
an array.  A Map is an object without repeated keys; each key is read as a quoted value of the key type.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.accepted_types import reader_of
from chsink.decode.codec import Codec, Converted, Mask, Reader, Suspects, WireValue, merge, numpy_of, valid_of
from chsink.decode.types import TupleType
from chsink.decode.values import JsonValue, MisfitError, Pairs, RawNeededError, kinds_of, members, parse_values

_PARSED: Final = 256


def flatten(array: pa.ListArray) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int64]]:
    """``(offsets, elements, parents)`` of a list array of any offset, with nulls as empty lists."""
    lengths = numpy_of(pc.list_value_length(array))
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.array(offsets), array.flatten(), np.repeat(np.arange(len(array)), lengths)


def entries(array: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array, npt.NDArray[np.int64]]:
    """``(offsets, keys, items, parents)`` of a map array of any offset, with nulls as empty maps."""
    entry = pa.struct([array.type.key_field, array.type.item_field])
    offsets, pairs, parents = flatten(array.cast(pa.list_(entry)))
    assert isinstance(pairs, pa.StructArray), "of keys and items"
    keys, items = pairs.flatten()
    return offsets, keys, items, parents


def null_mask(array: pa.Array) -> pa.Array | None:
    """The null positions of an array, as a mask for a new array; None if there are none."""
    return pc.is_null(array) if array.null_count else None


def missing(codec: Codec, array: pa.Array) -> Suspects:
    """The positions of nulls that the element's type does not allow."""
    return None if codec.null_inside or not array.null_count else ~valid_of(array)


def lift(suspects: Suspects, parents: npt.NDArray[np.int64], size: int) -> Suspects:
    """The parents of suspect elements."""
    if suspects is None or not suspects.any():
        return None
    lifted: Mask = np.zeros(size, np.bool_)
    lifted[parents[suspects]] = True
    return lifted


class ArrayCodec(Codec):
    """``Array(item)``."""

    def __init__(self, item: Codec) -> None:
        super().__init__(f"Array({item.label})", pa.list_(item.wire))
        self.item = item

    def exact(self, value: JsonValue) -> WireValue:
        """List of the item's values."""
        if not isinstance(value, list):
            raise self.misfit(value)
        return [self.item.element(one) for one in value]

    def array(self, values: list[WireValue]) -> pa.Array:
        """Builds the elements with the item's codec, which may need more than ``pa.array``."""
        flat = [one for value in values if value is not None for one in value]
        lengths = [0 if value is None else len(value) for value in values]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        nulls = np.array([value is None for value in values], np.bool_)
        mask = pa.array(nulls) if nulls.any() else None
        return pa.ListArray.from_arrays(pa.array(offsets), self.item.array(flat), type=self.wire, mask=mask)

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """A reader of lists, if the item has a reader."""
        flat = [one for value in samples if isinstance(value, list) for one in value]
        if not kinds_of(samples) <= {"array"}:
            return None
        return self._over(self.item.reader(flat), pa.list_)

    def accept(self, source: pa.DataType) -> Reader | None:
        """Lists of what the item accepts."""
        if not (pa.types.is_list(source) or pa.types.is_large_list(source) or pa.types.is_fixed_size_list(source)):
            return None
        return self._over(reader_of(self.item, source.value_type), lambda _: source)

    def _over(self, item: Reader | None, source: Callable[[pa.DataType], pa.DataType]) -> Reader | None:
        if item is None:
            return None
        return Reader(source(item.source), lambda array: self._convert(item, array))

    def _convert(self, item: Reader, array: pa.ListArray) -> Converted:
        offsets, elements, parents = flatten(array)
        converted, suspects = item.convert(elements)
        bad = lift(merge(suspects, missing(self.item, elements)), parents, len(array))
        return pa.ListArray.from_arrays(offsets, converted, type=self.wire, mask=null_mask(array)), bad


class TupleCodec(Codec):
    """``Tuple(…)``; the wire fields of an unnamed Tuple are named 1, 2, …  An array fits if it is ``ordered``."""

    wire: pa.StructType

    def __init__(self, kind: TupleType, items: Sequence[Codec], *, ordered: bool = True) -> None:
        self.ordered = ordered
        self.names = kind.names or tuple(str(at + 1) for at in range(len(items)))
        self.named = kind.names is not None
        self.items = tuple(items)
        fields = [pa.field(name, item.wire) for name, item in zip(self.names, self.items, strict=True)]
        super().__init__("Tuple", pa.struct(fields))

    def exact(self, value: JsonValue) -> WireValue:
        """Tuple of the items' values."""
        if isinstance(value, Pairs) and self.named:
            found = members(value, self.names)
            return tuple(item.element(found.get(name)) for name, item in zip(self.names, self.items, strict=True))
        if not (isinstance(value, list) and self.ordered):
            raise self.misfit(value)
        if len(value) != len(self.items):
            raise MisfitError("an array of another length than the Tuple")
        return tuple(item.element(one) for one, item in zip(value, self.items, strict=True))

    def array(self, values: list[WireValue]) -> pa.Array:
        """Builds each field with its item's codec."""
        empty = (None,) * len(self.items)
        columns = zip(*[empty if value is None else value for value in values], strict=True) if values else empty
        children = [item.array(list(column or ())) for item, column in zip(self.items, columns, strict=True)]
        nulls = np.array([value is None for value in values], np.bool_)
        return pa.StructArray.from_arrays(children, fields=list(self.wire), mask=pa.array(nulls))

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """A reader of objects, if every item has a reader."""
        if not (self.named and kinds_of(samples) <= {"object"}):
            return None
        found = [dict(value.items) for value in samples if isinstance(value, Pairs)]
        readers = [item.reader([one.get(name) for one in found]) for name, item in self._named()]
        return self._over(list(self.names), readers)

    def accept(self, source: pa.DataType) -> Reader | None:
        """Structs, by name, whose other fields are ignored; for an unnamed Tuple, structs with as many fields."""
        if not pa.types.is_struct(source):
            return None
        names = [field.name for field in source]
        if not self.named and len(names) == len(self.items):
            in_order = zip(self.items, source, strict=True)
            return self._over(names, [reader_of(item, field.type) for item, field in in_order])
        if any(names.count(name) > 1 for name in self.names):
            return None
        kinds = [source.field(name).type if name in names else pa.null() for name in self.names]
        readers = [reader_of(item, kind) for item, kind in zip(self.items, kinds, strict=True)]
        return self._over(list(self.names), readers, source)

    def _named(self) -> list[tuple[str, Codec]]:
        return list(zip(self.names, self.items, strict=True))

    def _over(
        self, names: list[str], readers: Sequence[Reader | None], source: pa.DataType | None = None
    ) -> Reader | None:
        known = [reader for reader in readers if reader is not None]
        if len(known) != len(self.items):
            return None
        fields = [pa.field(name, reader.source) for name, reader in zip(names, known, strict=True)]
        return Reader(source or pa.struct(fields), lambda array: self._convert(names, known, array))

    def _convert(self, names: list[str], readers: list[Reader], array: pa.StructArray) -> Converted:
        valid = valid_of(array)
        columns = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
        bad: Suspects = None
        children = []
        for name, reader, item in zip(names, readers, self.items, strict=True):
            given = columns.get(name, pa.nulls(len(array)))
            child, suspects = reader.convert(given)
            bad = merge(bad, suspects, missing(item, given))
            children.append(child)
        built = pa.StructArray.from_arrays(children, fields=list(self.wire), mask=null_mask(array))
        return built, None if bad is None else bad & valid


class MapCodec(Codec):
    """``Map(key, value)``."""

    guard = pa.struct([])

    def __init__(self, key: Codec, value: Codec) -> None:
        super().__init__(f"Map({key.label}, {value.label})", pa.map_(key.wire, value.wire))
        self.key = key
        self.value = value

    def exact(self, value: JsonValue) -> WireValue:
        """List of (key, value)."""
        if not isinstance(value, Pairs):
            raise self.misfit(value)
        pairs = [(self.key.element(name), self.value.element(one)) for name, one in value.items]
        if len({self.key.stored(name) for name, _ in pairs}) != len(pairs):
            raise MisfitError("a key is repeated in a Map")
        return pairs

    def array(self, values: list[WireValue]) -> pa.Array:
        """Builds keys and values with their codecs."""
        flat = [pair for value in values if value is not None for pair in value]
        lengths = [0 if value is None else len(value) for value in values]
        nulls = np.array([value is None for value in values], np.bool_)
        keys, items = self.key.array([pair[0] for pair in flat]), self.value.array([pair[1] for pair in flat])
        return self._assemble(lengths, keys, items, nulls)

    def _assemble(self, lengths: npt.ArrayLike, keys: pa.Array, items: pa.Array, nulls: Mask) -> pa.Array:
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
        mask = pa.array(nulls) if nulls.any() else None
        return pa.MapArray.from_arrays(offsets, keys, items, type=self.wire, mask=mask)

    def build(self, values: Sequence[JsonValue]) -> tuple[pa.Array, dict[int, str]]:
        """All keys and all values at once if they all fit; otherwise one map at a time."""
        built = self._flat([values])
        return self.one_by_one(values) if built is None else (built, {})

    def build_raw(self, texts: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """As :meth:`build`, parsing a few at a time: many live objects would keep the garbage collector busy."""
        try:
            built = self._flat(parse_values(texts[at : at + _PARSED]) for at in range(0, len(texts), _PARSED))
        except RawNeededError:
            built = None
        return super().build_raw(texts) if built is None else (built, {})

    def _flat(self, batches: Iterable[Sequence[JsonValue]]) -> pa.Array | None:
        keys: list[JsonValue] = []
        values: list[JsonValue] = []
        sizes: list[int | None] = []
        for value in itertools.chain.from_iterable(batches):
            if value is None:
                sizes.append(None)
            elif isinstance(value, Pairs):
                sizes.append(len(value.items))
                for name, item in value.items:
                    keys.append(name)
                    values.append(item)
            else:
                return None
        key_array, wrong_keys = self.key.build(keys)
        value_array, wrong_values = self.value.build(values)
        lengths = np.array([size or 0 for size in sizes], np.int64)
        bad_null = value_array.null_count and not self.value.null_inside
        if wrong_keys or wrong_values or bad_null or self._repeated(key_array, lengths) is not None:
            return None
        return self._assemble(lengths, key_array, value_array, np.array([size is None for size in sizes], np.bool_))

    def _repeated(self, keys: pa.Array, lengths: npt.NDArray[np.int64]) -> Suspects:
        """The maps with a repeated key: sorting by owner and key makes equal keys adjacent."""
        if lengths.max(initial=0) < 2:
            return None
        owner = np.repeat(np.arange(len(lengths)), lengths)
        code = numpy_of(self.key.stored_array(keys).dictionary_encode().indices).astype(np.int64)
        pairs = np.sort(owner * (len(code) + 1) + code)
        again = pairs[1:][pairs[1:] == pairs[:-1]]
        return lift(np.ones(len(again), np.bool_), again // (len(code) + 1), len(lengths))

    def accept(self, source: pa.DataType) -> Reader | None:
        """Maps of what keys and values accept."""
        if not pa.types.is_map(source):
            return None
        key, item = reader_of(self.key, source.key_type), reader_of(self.value, source.item_type)
        if key is None or item is None:
            return None
        return Reader(source, lambda array: self._convert(key, item, array))

    def _convert(self, key: Reader, item: Reader, array: pa.MapArray) -> Converted:
        offsets, source_keys, source_items, parents = entries(array)
        keys, wrong_keys = key.convert(source_keys)
        items, wrong_items = item.convert(source_items)
        bad = merge(wrong_keys, wrong_items, missing(self.key, source_keys), missing(self.value, source_items))
        lengths = np.diff(numpy_of(offsets))
        if keys.null_count:
            raise MisfitError("a key that does not fit")
        bad = merge(lift(bad, parents, len(array)), self._repeated(keys, lengths))
        return self._assemble(lengths, keys, items, ~valid_of(array)), bad
