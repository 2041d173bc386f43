"""Tables that are made of a schema: every record of it fits, at each level, and its values are there."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from chsink.fields import TextFile
from chsink.formats.record_fields import offered_by
from chsink.formats.settings import Avro, FormatSettings
from chsink.mirror.column_types import ICEBERG
from chsink.mirror.types import TableColumns, unsupported
from tests.unit.mirror.test_nested_formats import FORMATS, RECORDS


def made(form: FormatSettings, values: list[bytes]) -> tuple[Schema, list[Any]]:
    """The schema that is inferred from these records, and their rows in it; all of them fit."""
    offered = offered_by(form, ICEBERG)
    assert offered is not None
    found = offered.columns(pa.array(values, pa.binary()), (), times=True).items()
    fields = [NestedField(0, name, kind, required=False) for name, kind in found if kind is not None]
    schema = assign_fresh_schema_ids(Schema(*fields))
    assert not unsupported(schema)
    decoded = TableColumns(schema, form).decode(pa.record_batch([pa.array(values, pa.binary())], names=["value"]))
    assert not decoded.bad
    return schema, decoded.batch.to_pylist()


TYPES = {
    "json": "s struct<x: long, price: string, day: date>; l list<long>; m struct<a: struct<x: long>, b: struct<x: long>>",
    "debezium": "s struct<x: int, price: string, day: date>; l list<long>; m struct<a: struct<x: long>, b: struct<x: long>>",
    "avro": "s struct<more: string, x: long, price: decimal(18, 2), day: date>; l list<long>; m map<string, struct<x: int>>",
    "protobuf": "s struct<x: long, price: string, day: string>; l list<int>; m map<string, "
    "struct<x: long, price: string, day: string>>",
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_the_formats(name: str) -> None:
    form, written = FORMATS[name]
    schema, rows = made(form, [written(record) for record in RECORDS])
    said = "; ".join(f"{field.name} {shown(field.field_type)}" for field in schema.fields)
    assert said == TYPES[name]
    assert [row["s"]["x"] for row in rows] == [1, 2, 3, 4]
    assert [row["l"] for row in rows] == [[1, 2], [], [], [-3]]
    assert dict(rows[3]["m"])["b"]["x"] == 2


def shown(kind: IcebergType) -> str:
    match kind:
        case StructType():
            return f"struct<{', '.join(f'{field.name}: {shown(field.field_type)}' for field in kind.fields)}>"
        case ListType():
            return f"list<{shown(kind.element_type)}>"
        case MapType():
            return f"map<{shown(kind.key_type)}, {shown(kind.value_type)}>"
    return str(kind)


# --- random schemas ---------------------------------------------------------------------------------------------------

LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=5),
    "bytes": st.binary(max_size=5),
}


@st.composite
def avro(draw: st.DrawFn, names: list[int], depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    """A type, and its values."""
    form = draw(st.sampled_from(["leaf", "leaf", "record", "array", "map", "optional"])) if depth else "leaf"
    if form == "leaf":
        name = draw(st.sampled_from(sorted(LEAVES)))
        return name, LEAVES[name]
    if form == "record":
        return draw(record(names, depth - 1))
    inner, values = draw(avro(names, depth - 1))
    if form == "optional":
        return inner if isinstance(inner, list) else ["null", inner], values | st.none()
    if form == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=3), values, max_size=3)


@st.composite
def record(draw: st.DrawFn, names: list[int], depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
    names.append(len(names))
    name = f"R{names[-1]}"
    fields = {
        each: draw(avro(names, depth)) for each in draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
    }
    kind = {"type": "record", "name": name, "fields": [{"name": n, "type": k} for n, (k, _) in fields.items()]}
    return kind, st.fixed_dictionaries({n: values for n, (_, values) in fields.items()})


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_record_fits_the_table_of_its_schema(data: st.DataObject) -> None:
    """⚑ A-2, W-5."""
    schema, values = data.draw(record([], 3))
    records = data.draw(st.lists(values, min_size=1, max_size=4))
    parsed, written = fastavro.parse_schema(schema), []
    for each in records:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, each)
        written.append(buffer.getvalue())
    form = Avro(type="avro", schema_file=TextFile("r.avsc", json.dumps(schema).encode()))
    table, rows = made(form, written)
    whole = table.as_struct()
    assert [plain(whole, row) for row in rows] == records


@pytest.mark.parametrize(
    ("kinds", "values", "column", "rows"),
    [
        (["null", "int", "long"], [None, 1, 2**40], "long", [None, 1, 2**40]),
        (["int", "double"], [1, 0.5], "double", [1.0, 0.5]),
        (["long", "double"], [2**53 + 1, 0.5], "string", [str(2**53 + 1), "0.5"]),
        (["long", "float"], [2**53 + 1, 0.5], "string", [str(2**53 + 1), "0.5"]),
        (["long", "string", "boolean"], [2**62, "x", True], "string", [str(2**62), "x", "true"]),
        (["double", "string"], [0.1, "0.1", 1e300], "string", ["0.1", "0.1", "1e+300"]),
        ([{"type": "array", "items": "int"}, "string"], ["x"], "none", []),
        (["bytes", "string"], ["x"], "none", []),
    ],
)
def test_unions_of_avro(kinds: list[Any], values: list[Any], column: str, rows: list[Any]) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": kinds}, {"name": "id", "type": "int"}]}
    parsed, written = fastavro.parse_schema(schema), []
    for each in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, {"u": each, "id": 1})
        written.append(buffer.getvalue())
    form = Avro(type="avro", schema_file=TextFile("r.avsc", json.dumps(schema).encode()))
    table, found = made(form, written)
    types = {field.name: str(field.field_type) for field in table.fields}
    assert types.get("u", "none") == column
    assert [row["u"] for row in found if "u" in row] == rows


def plain(kind: IcebergType, value: Any) -> Any:
    """A row as the record was given."""
    match kind:
        case _ if value is None:
            return None
        case StructType():
            return {field.name: plain(field.field_type, value[field.name]) for field in kind.fields}
        case ListType():
            return [plain(kind.element_type, item) for item in value]
        case MapType():
            return {key: plain(kind.value_type, item) for key, item in value}
    return value
