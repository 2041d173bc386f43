"""A shard key that the table has no column for is hashed from the record itself, however the records are cut."""

from __future__ import annotations

import pyarrow as pa
import pytest
import xxhash

from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.pieces import by_shard
from chsink.clickhouse.table import TargetTable
from chsink.decode.columns import Column
from chsink.ports import BadValue, Decoded
from chsink.sharding import Layout, Shard

SHARDS = tuple(Shard((f"http://h{number}:8123",), name=f"s{number}") for number in range(4))
ROWS = 200
ENGINE_RAND = [1, 0, 2, 0, 3, 1, 3, 0, 2, 1]
"""`SELECT xxHash64('t', toUInt32(3), toUInt64(number)) % 4 FROM numbers(10)`"""


def table(*columns: Column) -> TargetTable:
    return TargetTable("d", "t", "uuid", "MergeTree", columns, "", Ttl(), {}, "UTC")


def records(keys: list[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["t"] * len(keys)),
            "partition": pa.array([3] * len(keys), pa.int32()),
            "offset": pa.array(range(len(keys)), pa.int64()),
            "key": pa.array(keys, pa.binary()),
        }
    )


def decoded(rows: list[int], bad: list[BadValue] | None = None, **more: pa.Array) -> Decoded:
    batch = pa.RecordBatch.from_pydict({"id": pa.array(rows, pa.uint32()), **more})
    return Decoded(batch, pa.array(rows), bad or [])


def placed(layout: Layout, kept: list[int], keys: list[bytes | None]) -> dict[int, int]:
    """Row → shard."""
    prepared = by_shard(records(keys), decoded(kept), layout.to_json(), table(Column("id", "UInt32")))
    assert not prepared.rejected
    return {row: piece.shard for piece in prepared.pieces for row in piece.batch.column("id").to_pylist()}


def test_by_the_records_key() -> None:
    keys: list[bytes | None] = [b"k%d" % (row % 7) for row in range(ROWS)]
    kept = [row for row in range(ROWS) if row % 3]
    found = placed(Layout(SHARDS, "xxHash64", ("_kafka_key",)), kept, keys)
    assert found == {row: xxhash.xxh64_intdigest(keys[row] or b"") % 4 for row in kept}


def test_a_record_without_a_key_has_no_shard() -> None:
    layout = Layout(SHARDS, "xxHash64", ("_kafka_key",))
    bad = [BadValue(0, None, "no JSON")]
    prepared = by_shard(
        records([b"a", b"b", None]), decoded([1, 2], bad), layout.to_json(), table(Column("id", "UInt32"))
    )
    assert [(b.row, b.column) for b in prepared.rejected] == [(0, None), (2, "_kafka_key")]
    assert [row for piece in prepared.pieces for row in piece.batch.column("id").to_pylist()] == [1]


def test_the_tables_own_column_is_what_counts() -> None:
    """`Distributed` would hash it, and so does chsink: as the type that the table gives it."""
    layout = Layout(SHARDS, "xxHash64", ("_kafka_key",))
    own = table(Column("id", "UInt32"), Column("_kafka_key", "FixedString(4)"))
    rows = decoded([0, 1], _kafka_key=pa.array([b"a", b"b"], pa.binary()))
    prepared = by_shard(records([b"a", b"b"]), rows, layout.to_json(), own)
    found = {row: piece.shard for piece in prepared.pieces for row in piece.batch.column("id").to_pylist()}
    assert found == {row: xxhash.xxh64_intdigest(key + bytes(3)) % 4 for row, key in enumerate((b"a", b"b"))}


def test_rand_is_the_same_on_every_replay() -> None:
    layout = Layout(SHARDS, "rand")
    keys: list[bytes | None] = [None] * ROWS
    whole = placed(layout, list(range(ROWS)), keys)
    part = placed(layout, [row for row in range(ROWS) if row % 5], keys)
    assert {row: whole[row] for row in part} == part
    assert [whole[row] for row in range(10)] == ENGINE_RAND
    assert set(whole.values()) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", ["_kafka_partition", "_kafka_offset"])
def test_rand_does_not_depend_on_the_tables_columns(name: str) -> None:
    """Their types may differ from Kafka's, and they may be added while a range is in doubt."""
    layout = Layout(SHARDS, "rand")
    own = table(Column("id", "UInt32"), Column(name, "String"))
    rows = decoded(list(range(10)), None, **{name: pa.array([b"x"] * 10, pa.binary())})
    prepared = by_shard(records([None] * 10), rows, layout.to_json(), own)
    found = {row: piece.shard for piece in prepared.pieces for row in piece.batch.column("id").to_pylist()}
    assert [found[row] for row in range(10)] == ENGINE_RAND
