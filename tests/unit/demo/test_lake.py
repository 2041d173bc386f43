"""The demo's Iceberg tables hold every record of one's own file, and are read back by value."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField

from demo.checker import Compared, Verdict, compare, parse
from demo.data import FLIGHTS, METADATA, from_file
from demo.lake import Lake


def created(lake: Lake, topic: str, columns: dict[str, str]) -> Compared:
    """A table as the mirror creates it by what the demo's route says."""
    item = lake.compared(topic, columns)
    create = tomllib.loads(lake.create(columns))["create"]
    assert create["partition"] == [f"bucket(4, {'big' if topic == 'input' else 'carrier'})"]
    kinds = {"_kafka_topic": "string", "_kafka_partition": "int", "_kafka_offset": "long"} | create["types"]
    fields = [
        NestedField(number, name, TypeAdapter(IcebergType).validate_python(kind), required=False)
        for number, (name, kind) in enumerate(kinds.items(), 1)
    ]
    SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse).create_table(item.table, Schema(*fields))
    return item


def write(lake: Lake, table: str, rows: list[dict[str, Any]]) -> None:
    loaded = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse).load_table(table)
    loaded.append(pa.Table.from_pylist(rows, schema=loaded.schema().as_arrow()))


def test_rows_are_equal_to_the_records_they_came_from(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(
        '{"n": 1, "big": 9223372036854775808, "flag": true, "x": 1.50, "any": {"a": [1]}, "a.b": 1}\n{"n": null}\n'
    )
    [dataset] = from_file(path)
    lake = Lake(tmp_path / "lake")
    item = created(lake, dataset.topic, dataset.columns)
    assert item.types.keys() == {"n", "big", "flag", "x", "any"}, "a name with a dot is no column of the mirror"
    of = {"_kafka_topic": "input", "_kafka_partition": 1}
    first = {
        "n": 1,
        "big": "9223372036854775808",
        "flag": True,
        "x": 1.5,
        "any": '{"a": [1]}',
        **of,
        "_kafka_offset": 7,
    }
    write(lake, item.table, [{"n": None, **of, "_kafka_offset": 8}])
    write(lake, item.table, [first, {**first, "_kafka_partition": 2}])
    verdict = Verdict(sent=2)
    compare(item, 1, enumerate(map(parse, dataset.lines), 7), lake.landed(item, 1), verdict)
    assert verdict.exactly_once, verdict
    assert lake.snapshots(item.table) == 2


def test_a_time_is_read_as_it_was_sent(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    item = created(lake, "flights", FLIGHTS)
    of = {"_kafka_topic": "flights", "_kafka_partition": 0, "_kafka_offset": 0}
    row = {**dict.fromkeys({**FLIGHTS, **METADATA}), **of, "time_hour": datetime(2013, 1, 1, 10, tzinfo=UTC)}
    write(lake, item.table, [row])
    [(offset, landed)] = lake.landed(item, 0)
    assert (offset, landed["time_hour"]) == (0, "2013-01-01T10:00:00Z")
