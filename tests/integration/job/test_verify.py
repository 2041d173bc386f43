"""``chsink verify`` on the real job: what it finds, and what it does not mistake for a defect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle, islice
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.cli.verify import read_report
from chsink.dlq.letters import create_table
from chsink.embedded.stack import Stack
from chsink.errors import UnavailableError
from chsink.verify import without_offsets
from chsink.verify.report import DEFECTS, NO_DEFECTS
from chsink.verify.route import Selection
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.integration.job.test_data import METADATA
from tests.integration.test_decode_engine import CASES
from tests.support.job import DATABASE, WINDOW, Job, command, connect

SHAPES = (("{}", "{}"), ("Map(String, Array({}))", '{{"b": [{0}, {0}], "a": []}}'))
NULLABLE = [(kind, good) for kind, good, _ in CASES if kind != "Dynamic" and "LowCardinality" not in kind]
TYPES = [
    *((kind.format(case[0]), [text.format(v) for v, _ in case[1]]) for case in CASES for kind, text in SHAPES[:1]),
    *((kind.format(case[0]), [text.format(v) for v, _ in case[1]]) for case in CASES[::4] for kind, text in SHAPES[1:]),
    *((f"Nullable({kind})", ["null", good[0][0]]) for kind, good in NULLABLE),
    *((f"{kind} DEFAULT CAST('{good[-1][1]}' AS {kind})", ["null", good[0][0]]) for kind, good in NULLABLE[:12]),
    ("String DEFAULT toString(now64(9))", ["null", '"own"']),
    ("LowCardinality(Nullable(String))", ["null", '"x"']),
    ("Tuple(x Int32, deep Tuple(y String, z Nullable(Bool)))", ['{"x": 1, "deep": {"y": "q", "z": null}}']),
    ("Nested(sku String, n Nullable(UInt8))", ['[{"sku": "s", "n": 1}, {"sku": "t"}]', "[]"]),
    ("JSON", ['{"b": 1, "a": {"x": [1, "y", null]}}', "{}", '{"q": 1.5}', '{"b": "text"}']),
    ("Array(JSON)", ['[{"b": 1, "a": 2}]']),
    ("Variant(Bool, Float64, Int64, String)", ["1", '"1"', "true", "1.5", "null"]),
    ("Array(Variant(Int64, String))", ['[1, "x", null]']),
]
NAMES = ["c0", "at", "h", "low", "bucket", "rows", *(f"c{at}" for at in range(6, len(TYPES)))]
"""Some are what the questions of ``verify`` could call things of their own."""
COLUMNS = "id UInt64, " + ", ".join(f"{name} {kind}" for name, (kind, _) in zip(NAMES, TYPES, strict=True))
ALLOWED = {
    "enable_time_time64_type": 1,
    "allow_suspicious_low_cardinality_types": 1,
    "allow_suspicious_variant_types": 1,
}
WIDE = f"CREATE TABLE {{}} ({COLUMNS}, {METADATA}) ENGINE = MergeTree ORDER BY id SETTINGS {WINDOW}"


def records(first: int, count: int) -> Iterator[bytes]:
    """Every column's values in turn."""
    columns = [islice(cycle(values), first, first + count) for _, values in TYPES]
    for number, tokens in zip(range(first, first + count), zip(*columns, strict=True), strict=True):
        fields = "".join(f', "{name}": {token}' for name, token in zip(NAMES, tokens, strict=True))
        yield f'{{"id": {number}{fields}}}'.encode()


def run(job: Job, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of the command."""
    sets = [f"--set={key}={value}" for key, value in job.settings.items()]
    answer = CliRunner().invoke(app, ["verify", "-c", str(job.file()), "--json", *sets, *options])
    return answer.exit_code, json.loads(answer.stdout)


def found(report: dict[str, Any], partition: int) -> dict[str, list[list[int]]]:
    """What was found of one partition: the ranges by category."""
    [one] = [p for p in report["partitions"] if p["partition"] == partition]
    names = (*DEFECTS, *NO_DEFECTS)
    return {name: one[name]["ranges"] for name in names if one[name]["offsets"]}


def test_every_type_agrees_and_each_planted_defect_is_found(
    make_job: MakeJob, spark: SparkSession, services: Stack
) -> None:
    dead = f"{DATABASE}.dead_{uuid4().hex}"
    command(services.clickhouse[0].url, create_table(dead))
    kept = {"errors.on_bad_value": "dead_letter", "errors.on_tombstone": "dead_letter", "dead_letters.table": dead}
    settings = {**kept, "clickhouse.chunk_offsets": 1000}
    job = make_job(partitions=2, shards=2, shard_key=["id"], table=False, settings=settings)
    table = f"{DATABASE}.wide_{job.name.replace('-', '_')}"
    job.tables[job.name] = table
    for url in job.shards:
        with connect(url) as client:
            client.command(WIDE.format(table), settings=ALLOWED)
    job.send_values(0, records(0, 60), headers=[("h", b"1"), ("h", None)], key=b"\xffkey")
    job.send_values(0, records(60, 5), transactional=f"{job.name}-a", abort=True)
    job.send_values(0, [None, b"{", b'{"id": -1}', *records(60, 10)], transactional=f"{job.name}-b")
    job.send_values(1, records(100, 40))
    plain = f"{job.name}-plain"
    services.kafka.create_topic(plain, 2)
    job.make_table(plain, columns="id UInt64, text String, at DateTime DEFAULT now()", metadata="")
    for partition in (0, 1):
        job.send_values(partition, ({"id": n % 7, "text": f"{partition}:{n}"} for n in range(50)), topic=plain)
    job.drain(spark)
    only, bare = ("--topic", job.name), ("--topic", plain)
    code, report = run(job, *bare)
    assert code == 0, report
    assert (report["records"], report["rows"], report["missing"], report["unexpected"]) == (100, 100, 0, 0)
    assert any("not compared" in note and note.endswith(": at") for note in report["notes"])
    code, report = run(job, *only)
    assert code == 0, report
    kept = job.status()["verified"]
    assert (kept["part"], kept["ok"], kept["offsets"]) == (f"--topic {job.name}", True, report["offsets"])
    assert (report["records"], report["rows"]) == (113, 110)
    assert [found(report, n) for n in (0, 1)] == [{}, {}]
    assert [p["dead_letters"] for p in report["partitions"]] == [3, 0]
    assert [p["judged"] for p in report["partitions"]] == [[[0, 80]], [[0, 40]]]

    plant(job, table)
    command(job.shards[0], f"DELETE FROM {dead} WHERE _kafka_offset = 67")
    command(
        job.shards[0], f"ALTER TABLE {dead} UPDATE value = 'x' WHERE _kafka_offset = 68 SETTINGS mutations_sync = 2"
    )
    code, report = run(job, *only)
    assert code == 1
    assert found(report, 0) == {
        "missing": [[7, 10]],
        "duplicated": [[20, 21]],
        "unexpected": [[62, 63]],
        "letter_missing": [[67, 68]],
        "letter_different": [[68, 69]],
    }, "a row beside a dead letter, at 66, is what somebody corrected"
    assert found(report, 1) == {"different": [[3, 4]], "wrong_shard": [[5, 6]]}
    assert report["partitions"][1]["different_columns"] == {"c0": 1}
    assert any("mutations" in note for note in report["notes"])
    code, report = run(job, *only, "--partition", "1", "--from", "4", "--any-shard")
    assert (code, report["offsets"], report["rows"]) == (0, 36, 36)

    plant_plain(job, job.tables[plain])
    code, report = run(job, *bare)
    assert code == 1
    assert [found(report, n) for n in (0, 1)] == [
        {"missing": [[17, 18]]},
        {"missing": [[23, 24]], "wrong_shard": [[30, 31]]},
    ]
    assert report["unexpected"] == 2, "the changed row, and the double"
    code, report = run(job, *bare, "--partition", "0")
    assert (code, report["error"]["id"]) == (2, "CHS-293")


def plant(job: Job, table: str) -> None:
    """The defects that the test names, by SQL."""
    at = "_kafka_partition = {} AND _kafka_offset IN ({})"
    move(job, table, at.format(1, 5))
    for url in job.shards:
        for replaced in ("", "REPLACE (62 AS _kafka_offset)", "REPLACE (66 AS _kafka_offset)"):
            row = f"SELECT * FROM {table} WHERE {at.format(0, 20)} LIMIT 1"
            command(url, f"INSERT INTO {table} SELECT * {replaced} FROM ({row})")
        command(url, f"DELETE FROM {table} WHERE {at.format(0, '7, 8, 9')}")
        changed = f"UPDATE c0 = toInt8(c0 + 1) WHERE {at.format(1, 3)}"
        command(url, f"ALTER TABLE {table} {changed} SETTINGS mutations_sync = 2")


def plant_plain(job: Job, table: str) -> None:
    """The same in a table whose rows do not name their records."""
    move(job, table, "text = '1:30'")
    for url in job.shards:
        command(url, f"INSERT INTO {table} SELECT * FROM (SELECT * FROM {table} WHERE text = '0:5')")
        command(url, f"DELETE FROM {table} WHERE text = '0:17'")
        command(url, f"ALTER TABLE {table} UPDATE text = 'else' WHERE text = '1:23' SETTINGS mutations_sync = 2")


def move(job: Job, table: str, where: str) -> None:
    """Rows to the other shard."""
    first, second = job.shards
    with connect(first) as one, connect(second) as other:
        rows = [client.raw_query(f"SELECT * FROM {table} WHERE {where} FORMAT Native") for client in (one, other)]
        for client, taken in zip((other, one), rows, strict=True):
            client.command(f"DELETE FROM {table} WHERE {where}")
            if taken:
                client.raw_insert(table, insert_block=taken, fmt="Native")


@pytest.mark.soak
def test_rows_older_than_a_column_are_told_from_defects(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ only the default, only in the column that is named, only before the column has other values."""
    job = make_job(partitions=2, shards=2, shard_key=["id"])
    table = job.tables[job.name]
    for partition in (0, 1):
        job.send_values(partition, ({"id": n, "text": "t", "note": f"n{n}"} for n in range(20)))
    job.drain(spark)
    assert run(job)[0] == 0
    for url in job.shards:
        command(
            url,
            f"ALTER TABLE {table} ADD COLUMN note LowCardinality(String) DEFAULT 'none', ADD COLUMN other UInt8 DEFAULT 1",
        )
    code, report = run(job)
    assert code == 1
    assert [found(report, n) for n in (0, 1)] == [{"different": [[0, 20]]}] * 2
    code, report = run(job, "--added", "note")
    assert (code, [found(report, n) for n in (0, 1)]) == (0, [{"before_column": [[0, 20]]}] * 2)
    assert [p["filled_from"] for p in report["partitions"]] == [{"note": None}] * 2

    job.send_values(0, ({"id": n, "text": "t", "note": f"n{n}"} for n in range(20, 30)))
    job.drain(spark)
    code, report = run(job, "--added", "note")
    assert (code, found(report, 0)) == (0, {"before_column": [[0, 20]]})
    assert job.status()["verified"]["part"] == "--added note"
    for url in job.shards:
        for change, offset in (("note = 'none'", 25), ("text = 'else'", 5), ("note = 'else'", 7)):
            where = f"_kafka_partition = 0 AND _kafka_offset = {offset}"
            command(url, f"ALTER TABLE {table} UPDATE {change} WHERE {where} SETTINGS mutations_sync = 2")
    code, report = run(job, "--added", "note", "--added", "other")
    assert code == 1
    assert found(report, 0) == {"different": [[5, 6], [7, 20], [25, 26]], "before_column": [[0, 5], [6, 7]]}
    [first, _] = report["partitions"]
    assert first["different_columns"] == {"note": 14, "text": 1} and first["filled_from"] == {"note": 7, "other": None}
    assert run(job, "--added", "nota")[1]["error"]["id"] == "CHS-293"


@pytest.mark.soak
def test_beside_a_job_nothing_is_mistaken_for_a_defect(
    make_job: MakeJob, spark: SparkSession, services: Stack, failpoints: Failpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range in doubt, rows that land meanwhile, records that Kafka deleted, a transform that only the job knows.

    A table without offsets is compared only while nothing is in doubt, and only if Kafka holds all that landed.
    """
    monkeypatch.setattr(without_offsets, "PATIENCE_S", 0.0)
    job = make_job(partitions=1, settings={"kafka.max_offsets_per_trigger": 80})
    plain = f"{job.name}-plain"
    services.kafka.create_topic(plain, 1)
    job.make_table(plain, metadata="")
    only, bare = ("--topic", job.topic), ("--topic", plain)
    for topic in job.tables:
        job.send(0, 40, topic=topic)
    job.drain(spark)
    failpoints.arm("driver.before_after=fail")
    for topic in job.tables:
        job.send(0, 160, topic=topic)
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    code, report = run(job, *only)
    unjudged = [left_out["range"] for left_out in report["partitions"][0]["unjudged"]]
    assert (code, report["offsets"], unjudged) == (0, 40, [[40, 80], [80, 200]])
    assert len(job.landed()) > 40, "rows are there that are not judged"
    assert refused(job, *bare) == "CHS-294"

    done = Event()
    beside: list[dict[str, Any]] = []

    def look() -> None:
        while not done.is_set():
            beside.append(read_report(job.config(), Selection(topic=job.topic)).as_dict())

    looking = Thread(target=look)
    looking.start()
    job.drain(spark)
    done.set()
    looking.join()
    assert beside[0]["offsets"] < 200, "it ran while records landed"
    assert [report for report in beside if not report["ok"]] == []
    code, report = run(job)
    assert (code, report["offsets"], report["rows"]) == (0, 400, 400)

    for topic in job.tables:
        delete_records(services.kafka.bootstrap, topic, 30)
    code, report = run(job, *only)
    assert (code, report["offsets"], report["partitions"][0]["unjudged"][0]["range"]) == (0, 170, [0, 30])
    assert refused(job, *bare) == "CHS-295"
    assert [refused(job, "--topic", "x"), refused(job, *only, "--partition", "7")] == ["CHS-292"] * 2
    assert refused(job, "--set=sink.name=another") == "CHS-292"
    job.send(0, 1)
    job.drain_sink(spark, lambda stream: stream.where("offset >= 0"))
    assert refused(job, *only) == "CHS-291"


def refused(job: Job, *options: str) -> str:
    """The id of the error."""
    code, report = run(job, *options)
    assert code == 2, report
    return str(report["error"]["id"])


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """What retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [done] = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    done.result(30)
