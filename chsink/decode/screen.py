"""After the parser refused a block: which of its records are to blame?

A look at each record by msgspec, which stops at the first thing that is not of the expected kind.  It may name too many
records or too few: those that it names are decided by the reference, and a block that is refused again is cut.  So it
decides nothing but the speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from chsink.decode.codec import Mask


class Screen:
    """For records whose members the parser reads as ``fields``, by name and type."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        names = {f"f{number}": field.name for number, field in enumerate(fields)}
        members = [(at, _kind(field.type), None) for at, field in zip(names, fields, strict=True)]
        self._decoder: Any = msgspec.json.Decoder(msgspec.defstruct("Record", members, rename=names))

    def suspects(self, records: Any) -> Mask:
        """The records that do not look as expected."""
        decode, found = self._decoder.decode, np.zeros(len(records), np.bool_)
        for at, record in enumerate(records.to_pylist()):
            try:
                decode(record)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                found[at] = True
        return found


def _kind(wire: pa.DataType) -> Any:
    """What msgspec has to find where the parser reads this type."""
    if pa.types.is_boolean(wire):
        return bool | None
    if pa.types.is_integer(wire):
        bits = wire.bit_width if pa.types.is_unsigned_integer(wire) else wire.bit_width - 1
        low = 0 if pa.types.is_unsigned_integer(wire) else -(2**bits)
        bounds = (
            msgspec.Meta(ge=low, le=2**bits - 1) if bits < 64 else msgspec.Meta(ge=low)
        )  # msgspec has no larger one
        return Annotated[int, bounds] | None
    if pa.types.is_floating(wire) or pa.types.is_decimal(wire):
        return int | float | None
    if pa.types.is_string(wire) or pa.types.is_large_string(wire) or pa.types.is_binary(wire):
        return str | None
    if pa.types.is_list(wire):
        return list[msgspec.Raw] | None
    return dict[str, msgspec.Raw] | None if pa.types.is_struct(wire) else Any
