"""Converts the columns of a user's own transform to wire columns, by the decoder's rules.

A batch may have any Arrow types.  A column is converted at once if a checked conversion exists
(:meth:`~chsink.decode.codec.Codec.accept`).  All other columns, and suspect values, become JSON values, which the
reference converts: integers in range, decimals without rounding, floats to integers only if integral, timestamps
without loss, text like a JSON string.  Missing columns and nulls follow the null rule (:mod:`chsink.decode.fields`).
A binary value fits String and FixedString; the text of a JSON object fits a JSON column.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa

from chsink.decode.accepted_types import branches, reader_of, together
from chsink.decode.codec import Mask, Suspects, WireValue, python_values
from chsink.decode.columns import Column
from chsink.decode.documents import DynamicCodec, JsonCodec
from chsink.decode.fields import LENGTHS, Field, fields_of, groups_of, uneven
from chsink.decode.refused_texts import Refused
from chsink.decode.texts import is_text, raw_text
from chsink.decode.values import JsonValue, MisfitError, Number, Pairs, RawNeededError, kind_of, parse_value, with_raw
from chsink.ports import BadValue, Decoded


def conform(batch: pa.RecordBatch, columns: Sequence[Column], *, timezone: str) -> Decoded:
    """Check and convert a ``pa.RecordBatch``. Columns that the table lacks are ignored.

    Raises ConfigError CHS-5xx for a table that cannot be written.
    """
    return Conformer(fields_of(columns, timezone)).conform(batch)


class Conformer:
    """:func:`conform` for many batches of one table, given its fields."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = tuple(fields)
        self._groups = groups_of(self._fields)
        self.schema = pa.schema([pa.field(field.name, field.codec.wire) for field in self._fields])

    def conform(self, batch: pa.RecordBatch) -> Decoded:
        """The rows of ``batch`` that fit, and a reason for each other row."""
        found: dict[int, BadValue] = {}
        arrays = []
        for field in self._fields:
            if field.name in batch.schema.names:
                source = batch.column(batch.schema.names.index(field.name))
            else:
                source = pa.nulls(batch.num_rows)
            array, reasons = _convert(field, source)
            array, null = field.settle_nulls(array)
            arrays.append(array)
            for row in np.flatnonzero(null).tolist() if null is not None else ():
                reasons.setdefault(row, field.null_reason or "")
            for row, reason in reasons.items():
                found.setdefault(row, BadValue(row, field.name, reason))
        for row, group in _uneven_rows(arrays, self._groups):
            found.setdefault(row, BadValue(row, group, LENGTHS))
        return self._finish(pa.RecordBatch.from_arrays(arrays, schema=self.schema), found)

    def _finish(self, batch: pa.RecordBatch, found: dict[int, BadValue]) -> Decoded:
        if not found:
            return Decoded(batch, None)
        keep: Mask = np.ones(batch.num_rows, np.bool_)
        keep[list(found)] = False
        rows = np.flatnonzero(keep)
        return Decoded(batch.take(pa.array(rows)), pa.array(rows, pa.int64()), [found[row] for row in sorted(found)])


def _uneven_rows(arrays: Sequence[pa.Array], groups: dict[str, list[int]]) -> list[tuple[int, str]]:
    rows: list[tuple[int, str]] = []
    for group, positions in groups.items():
        bad = uneven(arrays, {group: positions})
        rows.extend((row, group) for row in (np.flatnonzero(bad).tolist() if bad is not None else ()))
    return rows


def _convert(field: Field, source: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """The wire array, and the reason for each value that does not fit, which becomes null."""
    source = _plain(source)
    if isinstance(source, pa.UnionArray) and source.type.mode == "dense":
        return _by_branch(field, source)
    reader = reader_of(field.codec, source.type)
    if reader is not None:
        try:
            array, suspects = reader.convert(source)
        except Refused:
            array, suspects = None, None
        if array is not None:
            return _settle(field, source, array, suspects)
    return _one_by_one(field, source)


def _by_branch(field: Field, source: pa.UnionArray) -> tuple[pa.Array, dict[int, str]]:
    """Converts a union branch by branch, each branch like a column of its type."""
    positions, parts = [], []
    reasons: dict[int, str] = {}
    for at, values in branches(source):
        array, misfits = _convert(field, values)
        positions.append(at)
        parts.append(array)
        reasons |= {int(at[one]): reason for one, reason in misfits.items()}
    return together(positions, parts), reasons


def _settle(field: Field, source: pa.Array, array: pa.Array, suspects: Suspects) -> tuple[pa.Array, dict[int, str]]:
    """Convert the suspects one by one, and put the results in their places."""
    if suspects is None:
        return array, {}
    at = np.flatnonzero(suspects)
    decided, reasons = _one_by_one(field, source.take(pa.array(at)))
    index = np.arange(len(array))
    index[at] = len(array) + np.arange(len(at))
    merged = pa.concat_arrays([array, decided]).take(pa.array(index))
    return merged, {int(at[one]): reason for one, reason in reasons.items()}


def _one_by_one(field: Field, source: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    out: list[WireValue] = []
    mixed = _holds_union(source.type)
    items, unreadable = python_values(source, json_of) if mixed else python_values(source)
    reasons = {at: f"{reason}, in {field.codec.label}" for at, reason in unreadable.items()}
    document = isinstance(field.codec, JsonCodec) and is_text(source.type)
    takes_json = isinstance(field.codec, JsonCodec | DynamicCodec) and not document
    for at, item in enumerate(items):
        out.append(None)
        value: JsonValue = None
        try:
            value = _document(item) if document else item if mixed else json_value(item, source.type)
            if value is not None and takes_json and not isinstance(value, str):
                value = with_raw(json_text(value).encode())
            if value is not None:
                out[-1] = field.codec.exact(value)
        except RawNeededError:
            reasons[at] = f"{kind_of(value)} in {field.codec.label}"
        except MisfitError as misfit:
            reasons[at] = misfit.reason
    return field.codec.array(out), reasons


def _plain(array: pa.Array) -> pa.Array:
    """The array without dictionary encoding and without 64-bit offsets."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    return array


def _document(text: str | bytes | None) -> JsonValue:
    """The JSON value of a JSON column's text, with its raw text."""
    if text is None:
        return None
    data = text.encode("utf-8") if isinstance(text, str) else text
    parse_value(data)
    return with_raw(data)


def json_value(value: Any, source: pa.DataType) -> JsonValue:
    """The equivalent JSON value of a Python value of the Arrow type ``source``. Raises MisfitError."""
    if value is None or isinstance(value, bool | str | bytes):
        return value
    if isinstance(value, int):
        return Number(value)
    if isinstance(value, float):
        return Number(repr(value)) if math.isfinite(value) else repr(value)
    if isinstance(value, Decimal):
        return Number(f"{value:f}")
    if isinstance(value, date | time):
        return value.isoformat()
    if pa.types.is_map(source):
        return Pairs([(_key(key, source.key_type), json_value(item, source.item_type)) for key, item in value])
    if isinstance(value, list):
        item_type = cast("pa.ListType", source).value_type
        return [json_value(item, item_type) for item in value]
    if isinstance(value, dict):
        return Pairs([(name, json_value(item, source.field(name).type)) for name, item in value.items()])
    raise MisfitError(f"Arrow {source}, which no column takes")


def _holds_union(source: pa.DataType) -> bool:
    return pa.types.is_union(source) or any(_holds_union(source.field(at).type) for at in range(source.num_fields))


def json_of(scalar: pa.Scalar) -> JsonValue:
    """As :func:`json_value`, for a scalar that may contain a union: its Python value does not tell the branch."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.UnionScalar):
        return json_of(scalar.value)
    if isinstance(scalar, pa.MapScalar):
        entries = cast("Iterable[pa.StructScalar]", scalar.values)
        pairs = [(entry["key"], json_of(entry["value"])) for entry in entries]
        return Pairs([(_key(key.as_py(), key.type), value) for key, value in pairs])
    if isinstance(scalar, pa.ListScalar):
        return [json_of(item) for item in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return Pairs([(field.name, json_of(scalar[field.name])) for field in scalar.type])
    return json_value(scalar.as_py(), scalar.type)


def json_text(value: JsonValue) -> str:
    """The JSON text of a value.  Raises MisfitError for a byte string, which has none."""
    if value is None:
        return "null"
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json_text(name)}:{json_text(item)}" for name, item in value.items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, str) and not isinstance(value, Number):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        raise MisfitError("a binary string, which JSON does not have")
    return raw_text(value)


def _key(key: Any, source: pa.DataType) -> str:
    if isinstance(key, bytes):
        try:
            return key.decode("utf-8")
        except UnicodeDecodeError:
            return cast("str", key)  # it fits only keys that are strings
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(json_value(key, source))
