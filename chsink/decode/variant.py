"""Variant: the value's kind decides which alternatives are tried; it takes the first one that it fits exactly.

A whole number fits a float only up to :data:`_WHOLE`: up to there, a float holds every whole number, and the server
shows it.  A number with a fraction or exponent becomes the nearest value of the widest float.  A number that fits no
number is kept in the String, as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeGuard

import pyarrow as pa

from chsink.decode.codec import Codec, WireValue
from chsink.decode.values import JsonValue, MisfitError, Number, kind_of

# For each kind of value: the prefixes of the alternatives' labels to try, in this order.
_ORDER: Final = {
    "a boolean": ("Bool",),
    "an integer": ("Int", "UInt", "Decimal", "Float", "String"),
    "a number with a fraction or exponent": ("Decimal", "Float64", "Float32", "String"),
    "a string": ("String",),
    "a binary string": ("String",),
    "an array": (),
    "an object": (),
}


_WHOLE: Final = {"Float32": 1 << 24, "Float64": 1 << 53}


def _is_whole(value: JsonValue) -> TypeGuard[Number]:
    return isinstance(value, Number) and value.integral_text


class VariantCodec(Codec):
    """``Variant(…)`` as a dense union; each alternative has a different Arrow type."""

    wire: pa.DenseUnionType

    def __init__(self, names: Sequence[str], items: Sequence[Codec]) -> None:
        fields = [pa.field(name, item.wire) for name, item in zip(names, items, strict=True)]
        super().__init__("Variant", pa.dense_union(fields))
        self.nullable = self.null_inside = True
        self.items = tuple(items)

    def exact(self, value: JsonValue) -> WireValue:
        """The pair (index of the alternative, value)."""
        for beginning in _ORDER[kind_of(value)]:
            for at, item in enumerate(self.items):
                if item.label.startswith(beginning):
                    try:
                        fitting = item.exact(value)
                    except MisfitError:
                        continue
                    if item.label not in _WHOLE or not _is_whole(value) or abs(int(value)) <= _WHOLE[item.label]:
                        return at, fitting
        raise MisfitError(f"{kind_of(value)} that fits no alternative of the Variant")

    def array(self, values: list[WireValue]) -> pa.Array:
        """None becomes a null of the first alternative."""
        chosen = [(0, None) if value is None else value for value in values]
        groups: list[list[WireValue]] = [[] for _ in self.items]
        offsets = []
        for at, value in chosen:
            offsets.append(len(groups[at]))
            groups[at].append(value)
        children = [item.array(group) for item, group in zip(self.items, groups, strict=True)]
        types = pa.array([at for at, _ in chosen], pa.int8())
        names = [field.name for field in self.wire]
        return pa.UnionArray.from_dense(types, pa.array(offsets, pa.int32()), children, names)
