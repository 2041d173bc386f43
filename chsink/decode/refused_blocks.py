"""Finds the records that probably caused the parser to refuse a block.

msgspec checks each record and stops at the first value of an unexpected kind.  It may find too many records or too few:
the reference decides the records that it finds, and a block that is refused again is cut.  So the screen affects only
the speed, never the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa

from chsink.decode.codec import Mask
from chsink.decode.field_paths import is_plain


class Screen:
    """Checks records against ``fields``: the names and types with which the parser reads them."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        plain = {f"f{number}": field for number, field in enumerate(fields) if is_plain(field.name)}
        members = [(at, _kind(field.type), None) for at, field in plain.items()]
        names = {at: field.name for at, field in plain.items()}
        self._decoder = msgspec.json.Decoder(msgspec.defstruct("Record", members, rename=names))

    def suspects(self, records: pa.Array) -> Mask:
        """A mask of the records that do not match the fields."""
        decode, found = self._decoder.decode, np.zeros(len(records), np.bool_)
        for at, record in enumerate(records.to_pylist()):
            try:
                decode(record)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                found[at] = True
        return found


def _kind(wire: pa.DataType) -> Any:
    """The type that msgspec must find if the parser reads ``wire``."""
    if pa.types.is_boolean(wire):
        return bool | None
    if pa.types.is_integer(wire):
        bits = wire.bit_width if pa.types.is_unsigned_integer(wire) else wire.bit_width - 1
        low = 0 if pa.types.is_unsigned_integer(wire) else -(2**bits)
        bounds = (
            msgspec.Meta(ge=low, le=2**bits - 1) if bits < 64 else msgspec.Meta(ge=low)
        )  # msgspec does not accept larger bounds
        return Annotated[int, bounds] | None
    if pa.types.is_floating(wire) or pa.types.is_decimal(wire):
        return int | float | None
    if pa.types.is_string(wire) or pa.types.is_large_string(wire) or pa.types.is_binary(wire):
        return str | None
    if pa.types.is_list(wire):
        return list[msgspec.Raw] | None
    return dict[str, msgspec.Raw] | None if pa.types.is_struct(wire) else Any
