"""The base of codecs that read a value in another form, and leave the rest to the codec of the column's type."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from chsink.decode.codec import Codec, Reader, WireValue
from chsink.decode.field_paths import ANY_OBJECT
from chsink.decode.values import JsonValue, Pairs, kinds_of


class OuterCodec(Codec):
    """Has the type and the wire values of ``inner``."""

    def __init__(self, inner: Codec) -> None:
        super().__init__(inner.label, inner.wire)
        self.nullable, self.null_inside = inner.nullable, inner.null_inside
        self.inner = inner

    def array(self, values: list[WireValue]) -> pa.Array:
        """As ``inner``."""
        return self.inner.array(values)

    def stored(self, value: WireValue) -> WireValue:
        """As ``inner``."""
        return self.inner.stored(value)

    def stored_array(self, array: pa.Array) -> pa.Array:
        """As ``inner``."""
        return self.inner.stored_array(array)


class OuterNumberCodec(OuterCodec):
    """Of numbers, for which text does not mean what it means to ``inner``."""

    def unquoted(self, samples: Sequence[JsonValue]) -> Reader | None:
        """As ``inner``, for numbers."""
        return self.inner.reader(samples) if kinds_of(samples) <= {"int", "frac"} else None

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """As :meth:`unquoted`, if the parser refuses text: where it reads a decimal, it also takes text."""
        reader = self.unquoted(samples)
        return None if reader is None or pa.types.is_decimal(reader.source) else reader


class ThereCodec(Codec):
    """Whether an object is there, whatever is in it."""

    def __init__(self) -> None:
        super().__init__("object", pa.bool_())
        self.nullable = True

    def exact(self, value: JsonValue) -> WireValue:
        """Whether it is an object."""
        return isinstance(value, Pairs)

    def reader(self, samples: Sequence[JsonValue]) -> Reader | None:
        """Ignores the members."""
        return Reader(ANY_OBJECT, lambda array: (array.is_valid(), None)) if kinds_of(samples) <= {"object"} else None
