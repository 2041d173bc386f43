"""The INSERT that stores decoded rows, without its data.

Rules:
- The server reads the Arrow stream into the table's own types, unless one of them holds JSON.  ClickHouse's reader of
  Arrow takes texts inside JSON for dates, whatever the settings say, and later texts of the insert with them: beside a
  time, ``"20260131"`` became one.
- So where a type holds JSON, the INSERT selects from ``input()``, which reads text in its place, and casts this text to
  the column's type.  The cast obeys the settings: a text stays that text.  Nothing else is selected, so one record
  batch is still one block, under the same token.
- There, only a NULL becomes a column's DEFAULT, so a column with nulls is read as Nullable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from chsink.decode.columns import Column
from chsink.notation.sql import quote_identifier, quote_string
from chsink.notation.type_text import TypeNode, parse_type_text

TEXTS_STAY: Final[Mapping[str, str | int]] = {
    "input_format_try_infer_dates": 0,
    "input_format_try_infer_datetimes": 0,
    "input_format_json_try_infer_numbers_from_strings": 0,  # in arrays
    "input_format_json_read_numbers_as_strings": 0,
    "input_format_json_read_bools_as_numbers": 0,
    "input_format_json_read_bools_as_strings": 0,
    "input_format_json_infer_incomplete_types_as_strings": 1,  # else an empty array refuses the insert
    "allow_simdjson": 1,  # the other parser does not round fractions to the nearest Float64
}
"""With these, a cast to JSON keeps each value, whatever a profile says: no text is taken for a date or a number."""
SELECTED: Final[Mapping[str, str | int]] = {
    **TEXTS_STAY,
    "input_format_null_as_default": 0,  # a null that the decoder must not send is an error
    "insert_null_as_default": 1,
    "max_columns_to_read": 0,
}
"""Set where the INSERT selects."""
ALIKE: Final[Mapping[str, str | int]] = {"allow_suspicious_variant_types": 1}
"""Without it, ClickHouse reads no Variant of types that are alike, though the table has it."""
SELECTED_WHERE_KNOWN: Final[Mapping[str, str | int]] = {
    "deduplicate_insert_select": "enable_even_for_bad_queries",  # the token says what is the same
    "insert_select_deduplicate": 1,  # its name before
    "input_format_json_infer_array_of_dynamic_from_array_of_different_types": 1,
}
"""The same, but not every server knows them; they change no other INSERT."""


@dataclass(frozen=True, slots=True)
class ReadAndCast:
    """What an INSERT selects: ``structure`` is the argument of ``input()``."""

    expressions: str
    structure: str


def insert_into(table: str, columns: Sequence[Column], batch: pa.RecordBatch) -> tuple[str, Mapping[str, str | int]]:
    """The statement for this batch and the settings that it needs.

    ``table`` is quoted.  ``columns`` are the table's; those that the batch does not name are left out.
    """
    head, end = f"INSERT INTO {table} ({', '.join(map(quote_identifier, batch.schema.names))})", "FORMAT ArrowStream"
    by_name = {column.name: column for column in columns}
    types = [by_name[name].type for name in batch.schema.names if name in by_name]
    allowed = ALIKE if any("Variant(" in kind for kind in types) else {}
    if not any(map(holds_json, types)):
        return f"{head} {end}", allowed
    made = selection([by_name[name] for name in batch.schema.names], batch)
    source = f"input({quote_string(made.structure)})"
    return f"{head} SELECT {made.expressions} FROM {source} {end}", {**SELECTED, **allowed}


def selection(columns: Sequence[Column], batch: pa.RecordBatch) -> ReadAndCast:
    """How these columns, all of the batch, are read and cast."""
    structure = [
        f"{quote_identifier(column.name)} {_read_as(column.type, nulls=array.null_count > 0)}"
        for column, array in zip(columns, batch.columns, strict=True)
    ]
    expressions = [from_text(quote_identifier(column.name), column.type) for column in columns]
    return ReadAndCast(", ".join(expressions), ", ".join(structure))


def from_text(expression: str, type_text: str) -> str:
    """The column's value, where ``expression`` is of the type :func:`with_text`."""
    return f"CAST({expression}, {quote_string(type_text)})" if holds_json(type_text) else expression


def with_text(type_text: str) -> str:
    """The type with String in the place of JSON."""
    return str(_with_text(parse_type_text(type_text))) if holds_json(type_text) else type_text


def holds_json(type_text: str) -> bool:
    """Whether the type is JSON, or has JSON inside."""
    return "JSON" in type_text and any(node.name == "JSON" for node in parse_type_text(type_text).walk())


def _read_as(type_text: str, *, nulls: bool) -> str:
    text = with_text(type_text)
    node = parse_type_text(text)
    if not nulls or node.name in {"Nullable", "Variant", "Dynamic"}:
        return text
    if node.name == "SimpleAggregateFunction" and node.args:
        node = node.args[-1]
    if node.name == "LowCardinality" and node.args:
        inside = node.args[0]
        return str(node) if inside.name == "Nullable" else f"LowCardinality(Nullable({inside}))"
    return f"Nullable({node})"


def _with_text(node: TypeNode) -> TypeNode:
    if node.name == "JSON":
        return TypeNode("String", words=node.words)
    return node if node.args is None else replace(node, args=tuple(map(_with_text, node.args)))
