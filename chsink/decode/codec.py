"""The codec of a column type: one exact rule for a value, and fast ways to apply it to many values.

A codec turns JSON values into values of one Arrow *wire type* (see :mod:`chsink.decode.wire`), in two ways:

* :meth:`Codec.exact`, the **reference**: one value, exact, with a reason when it does not fit;
* a :class:`Reader`, the **fast way**: an Arrow type to let the JSON parser read, and a vectorised
  conversion from it.

Rules for readers:

* A reader may refuse (raise ``pa.ArrowInvalid`` or :class:`MisfitError`) or mark rows as *suspect* without limit:
  the reference decides these rows.  Every value that the reader converts must equal the reference's result.
* Nulls stay nulls at their positions.  The caller, which knows the column or the container, decides whether a null is
  allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chsink.decode.values import JsonValue, MisfitError, Number, RawNeededError, kind_of, parse_values, with_raw

Mask = npt.NDArray[np.bool_]
Suspects = Mask | None
Converted = tuple[pa.Array, Suspects]
WireValue: TypeAlias = Any
"""A Python value of a wire type, which ``pa.array`` accepts."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads Arrow arrays of type ``source``; ``convert``, which takes that type's class, returns the wire array and the
    suspect positions.
    """

    source: pa.DataType
    convert: Callable[[Any], Converted]


class Codec:
    """Base of all codecs. ``nullable``: a column of the type can be NULL; ``null_inside``: so can an element."""

    numbers_are_text = False  # whether a number and the same number in quotes are the same value for this type
    guard: pa.DataType | None = None  # with which the parser accepts (and ignores) every fitting value, if there is one

    def __init__(self, label: str, wire: pa.DataType) -> None:
        self.label = label
        self.wire = wire
        self.nullable = False
        self.null_inside = False

    def exact(self, value: JsonValue) -> WireValue:
        """The value in a form that ``pa.array(…, wire)`` accepts; ``value`` is not None. Raises MisfitError."""
        raise NotImplementedError

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """The fast way for values like ``samples``; None if there is none: then use :meth:`build_raw` on raw text."""
        del samples
        return None

    def unquoted(self, samples: Sequence[JsonValue]) -> Reader | None:
        """As :meth:`reader`, but right only for values that are not in quotes: the caller must decide all others."""
        del samples
        return None

    def accept(self, source: pa.DataType) -> Reader | None:
        """A checked conversion from the Arrow type ``source``; None if there is none: then convert JSON values."""
        del source
        return None

    def element(self, value: JsonValue) -> WireValue:
        """:meth:`exact` for an element of a container, where null is allowed only in a Nullable type."""
        if value is None:
            if self.null_inside:
                return None
            raise MisfitError(f"null for an element of {self.label}, which takes no null")
        return self.exact(value)

    def build(self, values: Sequence[JsonValue]) -> tuple[pa.Array, dict[int, str]]:
        """Wire array of ``values`` (None stays null) and the reason for each that does not fit (null there)."""
        at_once = self._at_once(values)
        return self.one_by_one(values) if at_once is None else (at_once, {})

    def one_by_one(self, values: Sequence[JsonValue]) -> tuple[pa.Array, dict[int, str]]:
        """As :meth:`build`, but with the reference for each value."""
        out: list[WireValue] = [None] * len(values)
        reasons: dict[int, str] = {}
        for at, value in enumerate(values):
            if value is not None:
                try:
                    out[at] = self.exact(value)
                except MisfitError as misfit:
                    reasons[at] = misfit.reason
        return self.array(out), reasons

    def _at_once(self, values: Sequence[JsonValue]) -> pa.Array | None:
        """All values converted by the text reader; None unless all have one kind that it reads, and all fit."""
        kinds = set(map(type, values)) - {type(None)}
        if kinds != {str} and not (self.numbers_are_text and kinds == {Number}):
            return None
        reader = self.reader([next(value for value in values if type(value) is str)] if kinds == {str} else ["0"])
        if reader is None or reader.source != pa.string():
            return None
        try:
            array, suspects = reader.convert(pa.array(values, pa.string()))
        except (pa.ArrowInvalid, UnicodeEncodeError, MisfitError):
            return None
        return array if suspects is None else None

    def build_raw(self, texts: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """As :meth:`build`, from JSON texts (empty: missing)."""
        try:
            return self.build(parse_values(texts))
        except RawNeededError:
            return self.build([with_raw(text) if text else None for text in texts])

    def array(self, values: list[WireValue]) -> pa.Array:
        """Wire array of values that :meth:`exact` returned."""
        return pa.array(values, self.wire)

    def stored(self, value: WireValue) -> WireValue:
        """The form in which the server stores a value that :meth:`exact` returned: equal if they are stored alike."""
        return value

    def stored_array(self, array: pa.Array) -> pa.Array:
        """:meth:`stored` for a wire array."""
        return array

    def misfit(self, value: JsonValue) -> MisfitError:
        """The reason for a value of the wrong kind."""
        return MisfitError(f"{kind_of(value)} in {self.label}")

    def out_of_range(self) -> MisfitError:
        """The reason for a value beyond the type's range."""
        return MisfitError(f"out of range for {self.label}")


def numpy_of(array: pa.Array) -> npt.NDArray[Any]:
    """An array's values in NumPy; nulls become zero, false or an arbitrary value."""
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    result: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result


def mask_of(array: pa.Array) -> Mask:
    """A boolean Arrow array as a mask; null becomes false."""
    return numpy_of(array).astype(np.bool_, copy=False)


def valid_of(array: pa.Array) -> Mask:
    """A mask of the positions that are not null."""
    result: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return result


def merge(*masks: Suspects) -> Suspects:
    """The union of suspects; None if there are none."""
    merged: Suspects = None
    for mask in masks:
        if mask is not None and mask.any():
            merged = mask if merged is None else merged | mask
    return merged


def from_buffer(wire: pa.DataType, data: npt.NDArray[Any], valid: Mask | None) -> pa.Array:
    """A fixed-width Arrow array over the bytes of ``data``."""
    validity = None
    if valid is not None and not valid.all():
        validity = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(wire, len(data), [validity, pa.py_buffer(np.ascontiguousarray(data))])


def python_values(
    array: pa.Array, read: Callable[[pa.Scalar], Any] = methodcaller("as_py")
) -> tuple[list[Any], dict[int, str]]:
    """The scalars of an Arrow array, converted to Python by ``read``; and the reason for each value that Python cannot
    represent, which becomes None.
    """
    values: list[Any] = []
    reasons: dict[int, str] = {}
    for at, scalar in enumerate(array):
        try:
            values.append(read(scalar))
        except UnicodeDecodeError:
            reasons[at] = "a string that is not valid UTF-8"
        except OverflowError:
            reasons[at] = "a date or time beyond the years 1 to 9999"
        except ValueError:
            reasons[at] = f"Arrow {array.type} with a value that has no JSON form"
        if at in reasons:
            values.append(None)
    return values, reasons


def by_distinct(codec: Codec, texts: pa.Array) -> Converted:
    """Convert texts with the reference, once for each distinct text."""
    coded = texts.dictionary_encode()
    values, unreadable = python_values(coded.dictionary)
    converted, misfits = codec.one_by_one(values)
    reasons = unreadable | misfits
    suspects: Suspects = None
    if reasons:
        bad = np.zeros(len(coded.dictionary), np.bool_)
        bad[list(reasons)] = True
        suspects = bad[numpy_of(coded.indices)] & valid_of(coded)
    return converted.take(coded.indices), suspects
