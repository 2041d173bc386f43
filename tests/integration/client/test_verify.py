"""The parts of ``chsink verify`` on the engine and the broker, without a job."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.clickhouse.table import read_table
from chsink.clock import SystemClock
from chsink.decode import Column
from chsink.dlq.place import LettersTopic
from chsink.dlq.search import held_in
from chsink.embedded.kafka import EmbeddedKafka
from chsink.errors import PreflightError, UnavailableError
from chsink.kafka import exact
from chsink.kafka.exact import ExactReader
from chsink.kafka.sample import Sampler
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.verify.by_content import sums_of
from chsink.verify.content import Sums
from chsink.verify.digests import Digester, Place, groups_of
from chsink.verify.rules import Rules, rules_of
from tests.conftest import MakeTopic
from tests.support.kafka import await_marker, produce

OFFSETS_ONLY = "_kafka_topic, _kafka_partition, _kafka_offset"
OFFSETS = "_kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64"


@pytest.fixture
def name(client: ClickHouseClient) -> Iterator[str]:
    """Of a table that is dropped."""
    table = f"v_{uuid.uuid4().hex}"
    yield table
    client.command(f"DROP TABLE IF EXISTS client_test.{table} SYNC")


def rules(client: ClickHouseClient, name: str, columns: str, engine: str) -> Rules:
    client.command(f"CREATE OR REPLACE TABLE client_test.{name} ({columns}) ENGINE = {engine}")
    table = read_table(client, "client_test", name)
    return rules_of(RoutedTable("t", f"client_test.{name}", (ShardTable(client, table),)))


def test_what_engine_and_ttl_leave_to_be_judged(client: ClickHouseClient, name: str) -> None:
    keyed = f"k UInt8, v UInt64, at DateTime, {OFFSETS}"

    def judged(columns: str, engine: str) -> tuple[bool, bool, bool]:
        found = rules(client, name, columns, engine)
        assert len(found.notes) == (not found.rows_stay) + (not found.cells_stay)
        return found.rows_stay, found.cells_stay, found.by_offset

    assert judged(keyed, "MergeTree ORDER BY k") == (True, True, True)
    assert judged("k UInt8 COMMENT 'a TTL', `TTL` UInt8", "MergeTree ORDER BY k COMMENT 'no TTL'") == (
        True,
        True,
        False,
    )
    assert judged(keyed, "ReplacingMergeTree ORDER BY k") == (False, True, True)
    assert judged(keyed, "MergeTree ORDER BY k TTL at + INTERVAL 1 DAY COMMENT 'x'") == (False, True, True)
    assert judged(f"v UInt64 TTL at + INTERVAL 1 DAY, at DateTime, {OFFSETS}", "MergeTree ORDER BY at") == (
        True,
        False,
        True,
    )
    grouped = "MergeTree ORDER BY k TTL at + INTERVAL 1 DAY GROUP BY k SET v = max(v)"
    assert judged(keyed, grouped) == (False, False, True)
    assert not judged(f"k UInt8, {OFFSETS.replace('UInt64', 'UInt64 ALIAS 1')}", "MergeTree ORDER BY k")[2]
    for engine in ("SummingMergeTree ORDER BY k", "CollapsingMergeTree(s) ORDER BY k", "Memory"):
        with pytest.raises(PreflightError, match="CHS-290"):
            rules(client, name, f"{keyed}, s Int8", engine)


def test_digests_agree_however_rows_are_stored_and_differ_in_one_bit(client: ClickHouseClient, name: str) -> None:
    """⚑ floats by their bits; JSON whatever paths its neighbours have; merges and other parts change no digest."""
    table = f"client_test.{name}"
    client.command(
        f"CREATE TABLE {table} (f Float64, j JSON(max_dynamic_paths = 2), s LowCardinality(String), {OFFSETS}) "
        "ENGINE = MergeTree ORDER BY s"
    )
    columns = tuple(c for c in read_table(client, "client_test", name).columns)
    floats = [0.0, -0.0, float("nan"), float("inf"), 0.1, 0.1]
    documents = [f'{{"k{n}": {n}, "b": {{"a": "x"}}, "a": [1, null]}}' for n in range(6)]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(floats, pa.float64()),
            pa.array(documents, pa.string()),
            pa.array([b"\0", b"", b"\xff", b"d", b"e", b"e"], pa.binary()),
            pa.array(["t"] * 6, pa.string()),
            pa.array([0] * 6, pa.uint32()),
            pa.array([0, 1, 2, 3, 4, 4], pa.uint64()),
        ],
        names=[c.name for c in columns],
    )
    digester = Digester(columns, SystemClock(), 5)
    groups, masks = groups_of(columns, batch)
    assert (groups, masks) == ([(0, 1, 2, 3, 4, 5)], [None])
    [wanted] = digester.of_rows(client, batch, groups)
    for row in range(6):
        one = batch.slice(row, 1)
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, one.schema) as writer:
            writer.write_batch(one)
        client.insert(f"INSERT INTO {table} FORMAT ArrowStream", body.getvalue(), {}, client.url)
    place = Place(client, table)
    for _ in range(2):
        offsets, [stored] = digester.of_table(place, TopicPartition("t", 0), OffsetRange(0, 5), groups)
        order = np.argsort(offsets, kind="stable")
        same = stored[order][:4] == wanted[:4]  # two rows are of the last offset, in no order
        assert same.all() and set(stored[order][4:].tolist()) == set(wanted[4:].tolist())
        assert len(set(wanted[:5].tolist())) == 5
        for some, differing in ((wanted, 0), (wanted[:5], 1)):
            sums = Sums.empty(1)
            sums.add(some, np.zeros(len(some), np.int32))
            assert len(sums.differing(sums_of([place], digester), any_shard=False)) == differing
        client.command(f"OPTIMIZE TABLE {table} FINAL")


def test_a_cell_that_the_server_fills_is_compared_with_nothing() -> None:
    columns = (
        Column("a", "UInt8", "DEFAULT", "7"),
        Column("b", "Nullable(UInt8)", "DEFAULT", "7"),
        Column("c", "UInt8"),
    )
    batch = pa.RecordBatch.from_pydict({"a": [1, None], "b": [None, 1], "c": [1, 1]})
    groups, masks = groups_of(columns, batch)
    assert groups == [(1, 2), (0,)]
    assert masks[0] is None and masks[1] is not None and masks[1].tolist() == [True, False]


def test_parts_tile_a_range_and_say_what_is_gone(
    kafka: EmbeddedKafka, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ an offset that Kafka deleted is never one without a record."""
    monkeypatch.setattr(exact, "PART_RECORDS", 7)
    name = topic()
    tp = TopicPartition(name, 0)
    produce(kafka.bootstrap, name, 0, (b"x" for _ in range(20)), headers=[("h", None)])
    produce(kafka.bootstrap, name, 0, (b"y" for _ in range(5)), transactional=f"{name}-a", abort=True)
    produce(kafka.bootstrap, name, 0, [None, b""], transactional=f"{name}-b", key=b"\xff")
    starts = iter([4])
    options = {"bootstrap.servers": kafka.bootstrap}
    with closing(ExactReader(options, "exact", "read_committed", 20, lambda _: next(starts))) as reader:

        def read(start: int, end: int) -> list[tuple[int, int, list[int], bool]]:
            parts = list(reader.read(tp, OffsetRange(start, end)))
            assert [p.range.start for p in parts] == [start, *(p.range.end for p in parts[:-1])]
            return [(p.range.start, p.range.end, p.records.column("offset").to_pylist(), p.gone) for p in parts]

        whole = read(0, 29)
        assert (whole[0][1], whole[-1][1]) == (7, 29)
        assert [offset for part in whole for offset in part[2]] == [*range(20), 26, 27]
        assert not any(gone for *_, gone in whole)
        assert read(20, 26) == [(20, 26, [], False)], "aborted records"
        assert read(28, 35)[-1] == (29, 35, [], True), "beyond the end of the log"
        admin = AdminClient({**options})
        [done] = admin.delete_records([ClientPartition(name, 0, 4)]).values()
        done.result(30)
        assert read(0, 6) == [(0, 4, [], True), (4, 6, [4, 5], False)]
        last = next(reader.read(tp, OffsetRange(26, 28))).records
        assert last.column("value").to_pylist() == [None, b""]
        assert last.column("key").to_pylist() == [b"\xff"] * 2
        assert set(last.column("timestampType").to_pylist()) == {0}


def test_the_default_of_a_column_and_the_first_row_with_another_value(client: ClickHouseClient, name: str) -> None:
    table = f"client_test.{name}"
    client.command(f"CREATE TABLE {table} ({OFFSETS}) ENGINE = MergeTree ORDER BY tuple()")
    client.command(f"INSERT INTO {table} SELECT 't', 0, number FROM numbers(5)")
    filled = {
        "Int32": "7",
        "Int8 DEFAULT 3": "0",
        "String": "'x'",
        "LowCardinality(String) DEFAULT 'own'": "''",
        "Nullable(Float64)": "-0.0",
        "Nullable(Int32) DEFAULT 1": "NULL",
        "Enum8('a' = 5, 'b' = 6)": "'b'",
        "DateTime64(3, 'UTC') DEFAULT toDateTime64('2020-01-01', 3)": "'1970-01-01 00:00:00'",
        "Decimal(18, 2)": "0.01",
        "Array(String)": "['']",
        "Map(String, Int8)": "map('a', 0)",
        "Tuple(a Int8, b Nullable(String))": "(0, '')",
        "UUID": "generateUUIDv4()",
        "JSON": "'{\"a\": 1}'",
    }
    columns = {f"c{at}": kind for at, kind in enumerate(filled)}
    for column, kind in columns.items():
        client.command(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
    values = ", ".join(filled.values())
    client.command(f"INSERT INTO {table} ({OFFSETS_ONLY}, {', '.join(columns)}) SELECT 't', 0, 7, {values}")
    client.command(
        f"INSERT INTO {table} ({OFFSETS_ONLY}) SELECT 't', partition, 6 FROM (SELECT arrayJoin([0, 1]) AS partition)"
    )
    digester = Digester(
        tuple(c for c in read_table(client, "client_test", name).columns if c.name in columns), SystemClock(), 5
    )
    groups = [(at,) for at in range(len(columns))]
    place, tp = Place(client, table), TopicPartition("t", 0)
    for _ in range(2):
        offsets, digests = digester.of_table(place, tp, OffsetRange(0, 9), groups)
        for at, kind in enumerate(filled):
            default = digester.default_of(client, at)
            assert sorted(offsets[digests[at] == default].tolist()) == [0, 1, 2, 3, 4, 6], kind
            assert digester.filled_from(place, tp, at) == 7, kind
            assert digester.filled_from(place, TopicPartition("t", 1), at) is None
        client.command(f"OPTIMIZE TABLE {table} FINAL")
    client.command(f"ALTER TABLE {table} ADD COLUMN twice UInt64 DEFAULT _kafka_offset * 2")
    varying = Digester((read_table(client, "client_test", name).columns[-1],), SystemClock(), 5)
    with pytest.raises(PreflightError, match="CHS-293.*twice"):
        varying.default_of(client, 0)


@pytest.mark.soak
def test_a_long_aborted_transaction_takes_longer_than_the_timeout(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    """⚑ The client skips it silently, and Kafka answers all the while: it counted as silent (CHS-702).  Here, each answer
    takes 0.4 s, and is twice as large as the one before.
    """
    name = topic(1)
    tp, started = TopicPartition(name, 0), {"bootstrap.servers": kafka.bootstrap}
    producer = Producer({**started, "transactional.id": name, "batch.num.messages": 1})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(500):
        producer.produce(name, b"x" * 900, partition=0)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)
    await_marker(kafka.bootstrap, name, 0)
    whole = OffsetRange(0, 501)
    slow = {**started, "fetch.min.bytes": "100000000", "fetch.wait.max.ms": "400", "fetch.message.max.bytes": "1000"}
    began = time.monotonic()
    with closing(ExactReader(slow, "exact", "read_committed", 1.5, lambda _: 0)) as reader:
        assert [(part.range, part.records.num_rows, part.gone) for part in reader.read(tp, whole)] == [
            (whole, 0, False)
        ]
    assert time.monotonic() - began > 2, "longer than the timeout"
    with closing(Sampler(slow, "sample", "read_committed", 1.5)) as sampler:
        assert not sampler.holds(tp, whole, readable=False)
    assert not list(held_in(LettersTopic(slow, name, "reader", 1.5)))


def test_a_broker_that_stops_answering(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    tp = TopicPartition(topic(1), 0)
    produce(kafka.bootstrap, tp.topic, 0, ["a", "b"])
    options, asked = {"bootstrap.servers": kafka.bootstrap}, OffsetRange(0, 3)
    with (
        closing(ExactReader(options, "exact", "read_committed", 1, lambda _: 0)) as reader,
        closing(Sampler(options, "sample", "read_committed", 1)) as sampler,
    ):
        assert sampler.holds(tp, asked, readable=True)
        assert [part.range for part in reader.read(tp, OffsetRange(0, 2))] == [OffsetRange(0, 2)]
        os.kill(kafka.pid, signal.SIGSTOP)
        try:
            with pytest.raises(UnavailableError, match=f"CHS-702.* of {tp} at offset 2 for 1 s"):
                list(reader.read(tp, OffsetRange(2, 3)))
            with pytest.raises(UnavailableError, match=f"CHS-702.* of {tp} at offset 2 for 1 s"):
                sampler.holds(tp, OffsetRange(2, 3), readable=True)
        finally:
            os.kill(kafka.pid, signal.SIGCONT)
