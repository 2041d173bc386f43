"""A record without a value is the deletion of its key; and which engines name the columns that this needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from chsink.clickhouse.deletes import deletes_of, engine_arguments
from chsink.config.problems import InvalidConfigError
from chsink.decode import Column
from chsink.errors import PreflightError
from chsink.formats.deletes import Deletes
from chsink.formats.metadata import Columns
from chsink.formats.records import Records
from chsink.formats.settings import JSON, KeyColumns

PAYLOAD = (
    Column("id", "UInt32"),
    Column("name", "String"),
    Column("gone", "UInt8"),
    Column("tags", "Array(String)"),
    Column("note", "Nullable(String)"),
)
COLUMNS = Columns(PAYLOAD, (Column("_kafka_offset", "UInt64"),), "UTC")
READS = Records(JSON, COLUMNS, KeyColumns(JSON, ("id",)), Deletes("gone"))


def records(*pairs: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
            "offset": pa.array(range(len(pairs)), pa.int64()),
        }
    )


FULL = b'{"name":"n","tags":["x"],"note":"y","gone":1}'


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1,), (0,), (2, 3)])
def test_a_null_value_is_a_row_that_says_so(order: tuple[int, ...]) -> None:
    """⚑ The mark of a record with a value is 0, whatever the value says."""
    given = [
        (b'{"id":7}', FULL),
        (b'{"id":7}', None),
        (b'{"id":8}', b'{"name":5}'),
        (b'{"id":9}', None),
    ]
    rows: list[dict[str, Any] | None] = [
        {"id": 7, "name": b"n", "gone": 0, "tags": [b"x"], "note": b"y"},
        {"id": 7, "name": None, "gone": 1, "tags": [], "note": None},
        None,
        {"id": 9, "name": None, "gone": 1, "tags": [], "note": None},
    ]
    found = READS.decode(records(*(given[at] for at in order)))
    assert found.batch.schema.names == [*(c.name for c in PAYLOAD), "_kafka_offset"]
    expected = [{**row, "_kafka_offset": n} for n, at in enumerate(order) if (row := rows[at]) is not None]
    assert found.batch.to_pylist() == expected
    assert [bad.row for bad in found.bad] == [n for n, at in enumerate(order) if rows[at] is None]


@pytest.mark.parametrize("key", [None, b"", b"{}", b'{"id":null}', b'{"id":"x"}'])
def test_a_deletion_has_its_whole_key(key: bytes | None) -> None:
    """⚑ Without it, the row of another key would vanish."""
    found = READS.decode(records((key, None), (b'{"id":1}', None)))
    assert found.batch.column("id").to_pylist() == [1]
    [bad] = found.bad
    assert (bad.row, bad.tombstone) == (0, True)
    assert "cannot delete by this key" in bad.reason


def test_deletes_are_a_part_of_the_fingerprint() -> None:
    plain = Records(JSON, COLUMNS, KeyColumns(JSON, ("id",)))
    assert [part for part in READS.parts() if part not in plain.parts()] == [("deletes", [1, "gone"])]


@pytest.mark.parametrize(
    ("engine", "arguments"),
    [
        ("ReplacingMergeTree(_kafka_offset, gone) ORDER BY id", ["_kafka_offset", "gone"]),
        ("ReplicatedReplacingMergeTree('/a,(b)', '{replica}', `a)b`, gone) ORDER BY (id, f(x))", ["a)b", "gone"]),
        ("ReplacingMergeTree ORDER BY tuple(id)", []),
        ("ReplacingMergeTree(v) ORDER BY (id)", ["v"]),
    ],
)
def test_the_columns_of_an_engine(engine: str, arguments: list[str]) -> None:
    assert list(engine_arguments(engine)) == arguments


def cluster(engine: str, keys: list[str], **said: Any) -> Any:
    """One table ``d.t`` whose engine and keys the server gives so."""

    def query(sql: str, _: Any) -> list[tuple[str, ...]]:
        return [(engine,)] if "engine_full" in sql else [(name,) for name in keys]

    table = SimpleNamespace(database="d", name="t", engine=engine.partition("(")[0].partition(" ")[0])
    shard = SimpleNamespace(client=SimpleNamespace(query=query), table=table)
    target = SimpleNamespace(name="d.t", shards=[shard] * said.get("shards", 1), shard_key=said.get("shard_key", ()))
    routes = {(topic, "d.t"): SimpleNamespace(topic=topic, key_columns=("id",)) for topic in said.get("topics", ["t"])}
    clickhouse = SimpleNamespace(hash_function=said.get("hash_function", "xxHash64"))
    return SimpleNamespace(
        targets=dict.fromkeys(routes, target), routes=routes, config=SimpleNamespace(clickhouse=clickhouse)
    )


REPLACES = "ReplacingMergeTree(_kafka_offset, gone) ORDER BY id"


@pytest.mark.parametrize(
    ("engine", "keys", "said", "problem"),
    [
        ("MergeTree ORDER BY id", ["id"], {}, "engine MergeTree does not name"),
        ("ReplacingMergeTree(_kafka_offset) ORDER BY id", ["id"], {}, "an is_deleted column"),
        ("ReplacingMergeTree(updated, gone) ORDER BY id", ["id"], {}, "version column of its engine is updated"),
        (REPLACES, ["id", "day"], {}, "PARTITION BY uses day"),
        (REPLACES, ["id"], {"topics": ["t", "u"]}, "topic u lands in it, too"),
        (REPLACES, ["id"], {"shards": 2, "shard_key": ("name",)}, "depends on name"),
        (REPLACES, ["id"], {"shards": 2, "hash_function": "rand"}, "depends on rand"),
    ],
)
def test_where_the_newest_row_is_unknown(engine: str, keys: list[str], said: dict[str, Any], problem: str) -> None:
    """⚑"""
    with pytest.raises(PreflightError, match=f"CHS-278.*{problem}"):
        deletes_of(cluster(engine, keys, **said), ("t", "d.t"))


@pytest.mark.parametrize("said", [{}, {"shards": 2, "shard_key": ("id",)}, {"shards": 2, "shard_key": ("_kafka_key",)}])
def test_where_it_is_known(said: dict[str, Any]) -> None:
    assert deletes_of(cluster(REPLACES, ["id", "_kafka_key"], **said), ("t", "d.t")) == Deletes("gone")


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        ({}, "sets no key_format"),
        ({"format": {"type": "debezium"}, "key_format": "json", "key_columns": ["id"]}, 'has format = "debezium"'),
    ],
)
def test_a_job_file_whose_records_have_no_keys(route: dict[str, Any], problem: str) -> None:
    from chsink.config import Config

    job = {
        "sink": {"name": "s"},
        "kafka": {"bootstrap": "h:1"},
        "clickhouse": {"endpoints": ["http://h:1"]},
        "errors": {"on_tombstone": "delete"},
        "route": [{"topic": "t", "table": "t", **route}],
    }
    with pytest.raises(InvalidConfigError, match=f"CHS-115.*{problem}"):
        Config.from_mapping(job)
    job["route"] = [{"topic": "t", "table": "t", "key_format": "json", "key_columns": ["id"]}]
    assert Config.from_mapping(job).errors.on_tombstone == "delete"
