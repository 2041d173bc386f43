"""W-4: a record gives a field by the names of the table's mapping, at each level."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from chsink.config import load
from chsink.errors import PreflightError
from chsink.fields import TextFile
from chsink.findings import Severity
from chsink.formats.settings import JSON, Avro, Csv, FormatSettings, Json
from chsink.mirror.checks import table_findings
from chsink.mirror.names import clashes, faults, record_names
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.mirror.types import TableColumns
from tests.unit.config.conftest import LEAST

Open = Callable[[], Catalog]
MAPPING = "schema.name-mapping.default"
FLAT = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "s", StructType(NestedField(3, "a", LongType(), required=True), NestedField(4, "b", StringType()))),
    NestedField(
        5, "l", ListType(6, StructType(NestedField(7, "x", LongType(), required=True)), element_required=False)
    ),
    NestedField(8, "m", MapType(9, StringType(), 10, StructType(NestedField(11, "x", LongType(), required=True)))),
    NestedField(12, "_kafka_offset", LongType()),
)


@pytest.fixture
def table(open_catalog: Open) -> Table:
    """A table whose mapping has the old and the new name of each field, as pyiceberg keeps them."""
    made = open_catalog().create_table("shop.t", FLAT)
    with made.transaction() as change:
        change.set_properties({MAPPING: made.schema().name_mapping.model_dump_json()})
    with made.update_schema() as update:
        for old, new in (("id", "number"), ("s.a", "amount"), ("l.x", "left"), ("m.value.x", "right"), ("s", "sale")):
            update.rename_column(old, new)
    return made.refresh()


def decode(columns: TableColumns, *texts: str) -> tuple[list[Any], list[Any]]:
    offsets = pa.array(range(len(texts)), pa.int64())
    values = pa.array([text.encode() for text in texts], pa.binary())
    found = columns.decode(pa.RecordBatch.from_pydict({"value": values, "offset": offsets}))
    return found.batch.to_pylist(), [(bad.row, bad.column, bad.reason) for bad in found.bad]


def columns_of(table: Table, form: FormatSettings = JSON) -> TableColumns:
    return TableColumns(table.schema(), form, names=record_names(table.metadata, form))


def test_a_renamed_field_is_found_by_each_of_its_names(table: Table) -> None:
    """⚑ W-4: lists, maps and structs inside; never two values for one field."""
    columns: TableColumns = pickle.loads(pickle.dumps(columns_of(table)))
    rows, bad = decode(
        columns,
        '{"id": 1, "s": {"a": 2, "b": "x"}, "l": [{"x": 3}], "m": {"k": {"x": 4}}}',
        '{"number": 1, "sale": {"amount": 2, "b": "x"}, "l": [{"left": 3}, null], "m": {"k": {"right": 4}}}',
        '{"id": 1, "number": 1}',
        '{"id": 1, "s": {"a": 1, "amount": 1}}',
        '{"id": 1, "s": {"b": "x"}}',
        '{"id": 1, "sale": null, "l": [{"x": 1}, {"x": 1, "left": 2}]}',
        '{"id": 1, "l": [{}]}',
        '{"id": 1, "m": {"k": {"y": 1}}}',
        "{}",
        '{"id": null, "number": 5}',
    )
    sale = {"amount": 2, "b": "x"}
    assert rows == [
        {"number": 1, "sale": sale, "l": [{"left": 3}], "m": [("k", {"right": 4})], "_kafka_offset": 0},
        {"number": 1, "sale": sale, "l": [{"left": 3}, None], "m": [("k", {"right": 4})], "_kafka_offset": 1},
        {"number": 5, "sale": None, "l": None, "m": None, "_kafka_offset": 9},
    ]
    missing = "missing or null, and the column is required"
    assert bad == [
        (2, "number", "given under several of its names: id, number"),
        (3, "sale", "given under several of its names: a, amount"),
        (4, "sale", missing),
        (5, "l", "given under several of its names: x, left"),
        (6, "l", missing),
        (7, "m", missing),
        (8, "number", missing),
    ]


def test_a_mapping_decides_before_the_columns_name(open_catalog: Open) -> None:
    """A field that is not in the mapping keeps its own name."""
    table = open_catalog().create_table("shop.t", FLAT)
    held = {"field-id": table.schema().find_field("s.a").field_id, "names": ["A"]}
    mapping = [{"field-id": 1, "names": ["order_id"]}, {"field-id": 2, "names": ["S"], "fields": [held]}]
    with table.transaction() as change:
        change.set_properties({MAPPING: json.dumps(mapping)})
    columns = columns_of(table.refresh())
    rows, bad = decode(
        columns, '{"order_id": 1, "S": {"A": 2, "b": "x"}}', '{"id": 1}', '{"order_id": 1, "S": {"a": 1}}'
    )
    assert [(row["id"], row["s"]) for row in rows] == [(1, {"a": 2, "b": "x"})]
    assert [(row, column) for row, column, _ in bad] == [(1, "order_id"), (2, "S")], "as the record has them"


def test_a_record_of_avro(table: Table) -> None:
    avro = {"type": "record", "name": "R", "fields": [{"name": "number", "type": "long"}]}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(avro), {"number": 7})
    form = Avro(type="avro", schema_file=TextFile("r.avsc", json.dumps(avro).encode()))
    values = {"value": pa.array([buffer.getvalue()], pa.binary()), "offset": pa.array([0], pa.int64())}
    assert columns_of(table, form).decode(pa.RecordBatch.from_pydict(values)).batch.column("number").to_pylist() == [7]


def test_columns_that_options_name(table: Table) -> None:
    """⚑ An option and a mapping could lead a record's fields to different places."""
    form = Json(type="json", constants={"number": 1})
    names = record_names(table.metadata, form)
    assert clashes(table.schema(), names, form.named) == ("number",)
    assert clashes(table.schema(), names, {"l"}) == ()
    csv = Csv(type="csv", columns=("number",))
    assert record_names(table.metadata, csv) == {}, "its fields have no names"


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ('[{"field-id": 1', "it cannot be read"),
        ('[{"field-id": 1, "names": ["s"]}]', "s is a name of 2 fields"),
        ('[{"field-id": 2, "names": ["s"], "fields": [{"field-id": 6, "names": ["b"]}]}]', "s.b is a name of 2 fields"),
    ],
)
def test_a_mapping_that_cannot_be_followed(open_catalog: Open, mapping: str, words: str) -> None:
    """CHS-269, before the first record."""
    table = open_catalog().create_table("shop.t", FLAT, properties={MAPPING: mapping})
    assert words in "; ".join(faults(table.metadata))
    [finding] = table_findings("shop.t", table)
    assert (finding.severity, finding.id) == (Severity.ERROR, "CHS-269") and words in finding.sentence


JOB = """
{least}
[mirror]
enabled = true
catalog = {{ name = "lake", type = "sql", uri = "sqlite:///{folder}/catalog.db", warehouse = "file://{folder}/warehouse" }}

[[mirror.route]]
topic = "orders"
table = "shop.t"
format = {form}
"""


def opened(folder: Path, form: str) -> OpenMirror:
    job = folder / "job.toml"
    job.write_text(JOB.format(least=LEAST, folder=folder, form=form), "utf-8")
    kafka = SimpleNamespace(topics=list, topic_ids=lambda topics: dict.fromkeys(topics, "id"))
    return open_mirror(load(job, environ={}), cast("Any", kafka))


def test_workers_and_samples_follow_the_mapping(table: Table, tmp_path: Path) -> None:
    mirror = opened(tmp_path, '"json"')
    [(name, sampled, _)] = mirror.readable({})["orders"]
    [work] = mirror.feeds().tables["orders"]
    assert name == work.table == "shop.t"
    for columns in (sampled, work.columns):
        rows, _ = decode(columns, '{"id": 1}', '{"number": 2}')
        assert [row["number"] for row in rows] == [1, 2]


def test_a_start_refuses_options_beside_a_mapping(table: Table, tmp_path: Path) -> None:
    form = '{ type = "json", constants = { number = 1 } }'
    with pytest.raises(PreflightError, match=r"CHS-269.*options name number"):
        opened(tmp_path, form).feeds()
