"""``format = "json"``: the record's value is one JSON object.  The table's columns decide how it is parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from chsink.decode.conform import json_value
from chsink.decode.connect import Said, connected
from chsink.decode.epoch import with_unit
from chsink.decode.field_paths import Places
from chsink.decode.fields import Field
from chsink.decode.json_decoder import FieldDecoder
from chsink.decode.values import MisfitError
from chsink.errors import preflight
from chsink.formats.raw_and_string import as_binary
from chsink.formats.settings import Constant, JsonFields, JsonObjects, names_of
from chsink.ports import Decoded


class JsonReader:
    """:class:`chsink.formats.format_reader.FormatReader` of JSON values."""

    record_fields = ("value",)

    def __init__(self, settings: JsonObjects, fields: Sequence[Field]) -> None:
        self._fields = ShapedFields(settings, fields)
        self._decoder = FieldDecoder(self._fields.read, Places(names_of(settings.envelope), settings.paths))

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        return self._fields.whole(self._decoder.decode(as_binary(records.column("value"))))


class ShapedFields:
    """A JSON format's options applied to the fields: ``read`` are the fields to parse, with units and scales; ``plain``
    the same fields without.  All others are constant.

    Raises PreflightError CHS-280 if an option does not fit its column.
    """

    def __init__(self, settings: JsonFields, fields: Sequence[Field]) -> None:
        for field in fields:
            if field.group and field.name in settings.named:
                raise preflight.FORMAT_NESTED(column=field.name)
        self._names = [field.name for field in fields]
        self.plain = [field for field in fields if field.name not in settings.constants]
        self.read = [_shaped(field, settings) for field in self.plain]
        self._constant = {
            f.name: constant_of(f, settings.constants[f.name]) for f in fields if f.name in settings.constants
        }

    def whole(self, decoded: Decoded, more: Mapping[str, pa.Array] = MappingProxyType({})) -> Decoded:
        """Adds the constants and ``more`` (arrays of one value each); puts the columns in the order of all fields."""
        once = {**self._constant, **more}
        if not once:
            return decoded
        rows = pa.array(np.zeros(decoded.batch.num_rows, np.int64))
        arrays = {name: value.take(rows) for name, value in once.items()}
        arrays |= {name: decoded.batch.column(name) for name in decoded.batch.schema.names}
        batch = pa.RecordBatch.from_pydict({name: arrays[name] for name in self._names})
        return replace(decoded, batch=batch)


def said_of(settings: JsonFields, name: str) -> Said:
    """What the options say of a column's values."""
    return Said(settings.decimals.get(name), settings.epoch.get(name))


def _shaped(field: Field, settings: JsonFields) -> Field:
    """The field with its unit or its scale.  Raises PreflightError CHS-280 if that does not fit its type."""
    said = said_of(settings, field.name)
    if said.unit is not None and with_unit(field.codec, said.unit) is None:
        raise preflight.FORMAT_EPOCH(column=field.name, type=field.codec.label, unit=said.unit)
    if said.digits is not None and connected(field.codec, None, Said(digits=0)) is field.codec:
        raise preflight.FORMAT_DECIMALS(column=field.name, type=field.codec.label)
    return field if said == Said() else replace(field, codec=connected(field.codec, None, said))


def constant_of(field: Field, value: Constant) -> pa.Array:
    """The value as a wire array of length one.  Raises PreflightError CHS-280 if it does not fit the field."""
    try:
        return field.codec.array([field.codec.exact(json_value(value, pa.null()))])
    except MisfitError as misfit:
        raise preflight.FORMAT_CONSTANT(column=field.name, reason=misfit.reason) from None
