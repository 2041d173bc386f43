"""Iceberg tables that change inside structs, lists and maps."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import uuid4

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    DecimalType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from chsink.config.mirror import NewTable
from chsink.errors import PreflightError
from chsink.fields import TextFile
from chsink.formats.record_fields import offered_by
from chsink.formats.settings import JSON, Avro, Debezium, FormatSettings
from chsink.mirror.column_types import ICEBERG
from chsink.mirror.growing import grow
from chsink.mirror.lacking import ColumnLook, encoded, joined
from chsink.mirror.names import record_names
from chsink.mirror.new_tables import defined
from chsink.mirror.tables import MirrorTable, PropertyKeys
from chsink.mirror.types import TableColumns

INNER = StructType(NestedField(11, "x", IntegerType(), required=True), NestedField(12, "d", DecimalType(3, 1)))
SCHEMA = Schema(
    NestedField(1, "s", INNER, required=True),
    NestedField(2, "l", ListType(21, StructType(NestedField(22, "y", IntegerType())), element_required=True)),
    NestedField(3, "m", MapType(31, StringType(), 32, StructType(NestedField(33, "z", LongType())))),
)


def batch(*records: Any) -> pa.RecordBatch:
    values = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder = tmp_path_factory.mktemp("inside")
    made = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    made.create_namespace("shop")
    return made


class Growing:
    """A table that changes for records as the mirror changes it."""

    def __init__(self, catalog: Catalog, schema: Schema, form: FormatSettings = JSON) -> None:
        name = f"shop.t{uuid4().hex}"
        catalog.create_table(name, schema)
        self.table, self.form = MirrorTable(catalog, name, PropertyKeys("chsink-s", "control")), form
        self.catalog, self.name = catalog, name

    def load(self) -> Table:
        return self.catalog.load_table(self.name)

    @property
    def columns(self) -> TableColumns:
        metadata = self.load().metadata
        return TableColumns(metadata.schema(), self.form, names=record_names(metadata, self.form))

    def take(self, *records: Any) -> list[Any]:
        """The rows of these records, for which the table changed first, once."""
        columns, read = self.columns, batch(*records)
        wanted = ColumnLook(columns).lacking(read, columns.decode(read).bad)
        encoded({"shop.t": wanted})
        if wanted:
            grow(self.table, wanted, 100)
        columns = self.columns
        decoded = columns.decode(read)
        assert not ColumnLook(columns).lacking(read, decoded.bad), "or the range would be read for ever"
        rows: list[Any] = decoded.batch.to_pylist()
        return rows

    @property
    def types(self) -> list[str]:
        return [shown(field) for field in self.load().schema().fields if not field.name.startswith("_kafka")]


def shown(field: NestedField) -> str:
    """A field without ids."""
    return f"{field.name} {form(field.field_type)}{' required' if field.required else ''}"


def form(kind: IcebergType) -> str:
    match kind:
        case StructType():
            return f"({', '.join(map(shown, kind.fields))})"
        case ListType():
            return f"list of {shown(kind.element_field)}"
        case MapType():
            return f"map to {shown(kind.value_field)}"
    return str(kind)


def test_each_change_inside(catalog: Catalog) -> None:
    """⚑ A-5: fields are added, numbers widen, what is required becomes optional."""
    table = Growing(catalog, SCHEMA)
    records: list[Any] = [
        {"s": {"x": 2**40, "new": {"a": 1}}, "l": [{"y": 2**31, "more": [True]}]},
        {"s": {"d": 123.5}, "l": [None, {"y": 1}], "m": {"k": {"z": 1}, "other": {"z": 2, "at": "x"}}},
        {"s": {"x": 1}, "m": {"k": None}},
    ]
    rows = table.take(*records)
    assert table.types == [
        "s (x long, d decimal(4, 1), new (a long)) required",
        "l list of element (y long, more list of element boolean)",
        "m map to value (z long, at string)",
    ]
    assert [row["s"]["x"] for row in rows] == [2**40, None, 1]
    assert rows[0]["s"]["new"] == {"a": 1} and rows[0]["l"] == [{"y": 2**31, "more": [True]}]
    assert rows[1]["m"] == [("k", {"z": 1, "at": None}), ("other", {"z": 2, "at": "x"})]
    assert len(table.load().schemas()) == 2, "one change"


def test_what_changes_nothing(catalog: Catalog) -> None:
    """⚑ Another form than the column's is a bad value; names that no column can have, and empty values, are passed by."""
    table = Growing(catalog, SCHEMA)
    before = table.types
    table.take({"s": [{"x": 1, "new": 1}]}, {"s": 1}, {"s": {"x": 1, "a.b": 1, "e": [], "f": {}}, "l": {"q": 1}})
    table.take({"s": {"x": "text"}}, {"s": {"x": 2**70}}, {"s": {"x": 1}, "m": [1], "l": [[{"new": 1}]]})
    assert table.types == before


def test_one_record_of_another_form_hides_no_new_field(catalog: Catalog) -> None:
    table = Growing(catalog, SCHEMA)
    rows = table.take({"s": 7}, {"s": {"x": 1, "new": 1, "a.b": 2}}, {"s": ["x"]})
    assert [row["s"]["new"] for row in rows] == [1]


def test_names_of_the_mapping_are_not_new(catalog: Catalog) -> None:
    """⚑ A renamed field of a struct, which records give by its earlier name, also below another new field."""
    table = Growing(catalog, SCHEMA)
    with table.load().transaction() as change:
        mapping = change.table_metadata.schema().name_mapping.model_dump_json()
        change.set_properties({"schema.name-mapping.default": mapping})
    table.load().update_schema().rename_column("s.x", "xx").rename_column("s", "ss").commit()
    rows = table.take({"s": {"x": 2**40, "new": 1}}, {"ss": {"xx": 5}})
    assert table.types[0] == "ss (xx long required, d decimal(3, 1), new long) required"
    assert [(row["ss"]["xx"], row["ss"]["new"]) for row in rows] == [(2**40, 1), (5, None)]


def test_fields_of_structs_count(catalog: Catalog) -> None:
    table = Growing(catalog, SCHEMA)
    columns, read = table.columns, batch({"s": {"x": 1, "new": {"a": 1, "b": 2}}})
    wanted = ColumnLook(columns).lacking(read, [])
    with pytest.raises(PreflightError, match=r"CHS-289.*s\.new"):
        grow(table.table, wanted, 9)
    grow(table.table, wanted, 10)


def avro(fields: list[Any], value: dict[str, Any]) -> tuple[Avro, bytes]:
    kind = {"type": "record", "name": "S", "fields": fields}
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": {"type": "array", "items": kind}}]}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), {"s": [value]})
    return Avro(type="avro", schema_file=TextFile("r.avsc", json.dumps(schema).encode())), buffer.getvalue()


def test_a_schema_that_grows(catalog: Catalog) -> None:
    """A wider type and a new field of an element's schema, whether a record has such a value or not."""
    narrow, first = avro([{"name": "x", "type": "int"}], {"x": 1})
    offered = offered_by(narrow, ICEBERG)
    assert offered is not None
    found = {n: kind for n, kind in offered.columns(pa.array([first]), ()).items() if kind is not None}
    schema = defined("shop.t", found, NewTable()).schema
    schema = Schema(*(field for field in schema.fields if not field.name.startswith("_kafka")))
    assert Growing(catalog, schema, narrow).take(first) == [{"s": [{"x": 1}]}]

    wide, second = avro([{"name": "x", "type": "long"}, {"name": "y", "type": ["null", "string"]}], {"x": 1, "y": None})
    table = Growing(catalog, schema, wide)
    assert table.take(second) == [{"s": [{"x": 1, "y": None}]}]
    assert table.types == ["s list of element (x long, y string)"]


def test_rows_of_debezium(catalog: Catalog) -> None:
    """Fields of a struct by Connect's types; by the values, without a schema."""
    table = Growing(catalog, SCHEMA, Debezium(type="debezium"))
    inner = [{"type": "int32", "field": "x"}, {"type": "int16", "field": "n"}]
    row = {"type": "struct", "field": "after", "fields": [{"type": "struct", "field": "s", "fields": inner}]}
    described = {"schema": {"fields": [row]}, "payload": {"op": "c", "after": {"s": {"x": 1, "n": 2}}}}
    rows = table.take(described, {"op": "c", "after": {"s": {"x": 3, "more": "y"}}})
    assert [row["s"] for row in rows] == [
        {"x": 1, "d": None, "n": 2, "more": None},
        {"x": 3, "d": None, "n": None, "more": "y"},
    ]


# --- whatever comes ---------------------------------------------------------------------------------------------------

LEAVES = st.one_of(st.none(), st.integers(-9, 9), st.sampled_from([2**31, 2**70, 0.5, "x", "2026-01-31", True]))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)),
    max_leaves=6,
)
RECORDS = st.fixed_dictionaries({"s": st.fixed_dictionaries({"x": st.integers(0, 9)})}, optional={"l": VALUES}) | (
    st.fixed_dictionaries({}, optional={"s": VALUES, "l": VALUES, "m": VALUES, "new": VALUES})
)


@settings(max_examples=10, deadline=None)
@given(batches=st.lists(st.lists(RECORDS, min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_table_that_changed_lacks_nothing(catalog: Catalog, batches: list[list[Any]]) -> None:
    """⚑ Or a range would be read again and again."""
    table = Growing(catalog, SCHEMA)
    for records in batches:
        table.take(*records)


@settings(max_examples=15, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=6), st.integers(0, 6))
def test_every_field_that_fits_is_there(catalog: Catalog, records: list[Any], cut: int) -> None:
    """⚑ What tasks want of each other's ranges together makes room for the records of all."""
    table = Growing(catalog, SCHEMA)
    columns, found = table.columns, []
    for part in filter(None, (records[:cut], records[cut:])):
        read = batch(*part)
        found.append(ColumnLook(columns).lacking(read, columns.decode(read).bad))
    grow(table.table, joined(found), 100)
    decoded = table.columns.decode(batch(*records))
    for number, row in zip(decoded.rows.to_pylist(), decoded.batch.to_pylist(), strict=True):
        assert fits(table.load().schema().as_struct(), records[number], row), (records[number], row)


def fits(kind: IcebergType, value: Any, found: Any) -> bool:
    """Whether a row holds the record's value; fields that hold nothing but nulls and empty values may be left out."""
    match kind:
        case _ if value is None or found is None:
            return value is None and found is None
        case StructType():
            known = {field.name: field for field in kind.fields}
            return all(
                fits(known[name].field_type, item, found[name]) if name in known else shows_nothing(item)
                for name, item in value.items()
            )
        case ListType():
            return all(fits(kind.element_type, *pair) for pair in zip(value, found, strict=True))
        case MapType():
            return all(fits(kind.value_type, item, dict(found)[name]) for name, item in value.items())
        case StringType():
            return bool(found == (value if isinstance(value, str) else json.dumps(value)))
        case DecimalType():
            return bool(float(found) == value)
    return bool(found == value)


def shows_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    return all(map(shows_nothing, value)) if isinstance(value, list) else value is None
