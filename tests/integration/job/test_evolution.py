"""A table is created from the first records, and gains columns for fields that come later: no value is lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.checks import all_findings
from chsink.cli.main import app
from chsink.clickhouse.grants import SYSTEM_TABLES
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.clickhouse.users import ClickHouseUser
from chsink.embedded.stack import Stack
from chsink.errors import HaltError, PreflightError, UnavailableError
from chsink.failpoints import FailpointError
from chsink.sample import sample_findings
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.doubt import quietly_connected
from tests.support.job import DATABASE, Job, Row, command, select
from tests.support.kafka import Record

pytestmark = pytest.mark.slow

COLUMNS = ("id", "text", "more", "tags", "late", "inner")
SETTINGS = {"schema.evolution": "add_columns", "schema.auto_create": True, "schema.order_by": "id"}


def row(record: Record) -> list[Row]:
    """What each record is to become: all of its fields, objects as text, nulls where it has none."""
    value = json.loads(record.value or b"")
    value["late"] = "true" if value.get("late") is True else value.get("late")
    value["inner"] = json.dumps(value["inner"], separators=(",", ":")) if "inner" in value else None
    return [
        (*(value.get(name) for name in COLUMNS[:3]), tuple(value.get("tags", ())), value.get("late"), value["inner"])
    ]


def values(start: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": n, "text": f"t{n}", **more} for n in range(start, start + 10)]


def found_by_doctor(job: Job, user: str = "default") -> list[dict[str, Any]]:
    with quietly_connected(job, {"clickhouse.user": user}) as services:
        return [finding.as_dict() for finding in all_findings(services)]


def test_fields_that_come_later(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ The driver dies after one of two shards has the new columns, and the first chunk of the range has landed."""
    job = make_job(partitions=2, shards=2, table=False, shard_key=["id"], settings=SETTINGS)
    job.tables[job.name] = f"{DATABASE}.t_{job.name}".replace("-", "_")
    table = job.tables[job.name]
    for partition in (0, 1):
        job.send_values(partition, values(100 * partition))
    printed = CliRunner().invoke(app, ["sql", "create-table", "-c", str(job.file()), "--set", "schema.order_by=id"])
    assert printed.exit_code == 0, printed.output
    assert printed.output.startswith(f"-- Run this on {job.shards[0]} and on {job.shards[1]}:\nCREATE TABLE")
    command(job.shards[0], printed.output.strip().removesuffix(";"))
    assert [f["id"] for f in found_by_doctor(job) if f["severity"] == "info" and table in f["sentence"]][:1] == [
        "CHS-202"
    ]
    with quietly_connected(job) as services:
        assert not [*sample_findings(services.clickhouse, services.kafka, 5, print)], "other checks name the table"
    job.drain(spark)
    assert len(job.landed(columns=["id", "text"])) == 20
    assert select(job.shards[1], f"SHOW CREATE TABLE {table}").count("Nullable(String)") == 1, "id is in the key"

    for partition, more in ((0, 7), (1, 0.5)):
        at = 100 * partition
        job.send_values(partition, values(at + 10, gone=None))
        job.send_values(partition, values(at + 20, more=more, tags=["a", None]))
        job.send_values(partition, values(at + 30, late="x" if partition else True, inner={"a": [1, 2.50]}))
    failpoints.arm("tables.between_servers=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.assert_fired("tables.between_servers")
    failpoints.disarm()
    assert job.in_doubt() == {0, 1}
    doubts = [f["severity"] for f in found_by_doctor(job) if f["id"] == "CHS-227"]
    assert doubts == ["info", "info"], "the next start settles both"
    described = [select(url, f"SELECT name FROM system.columns WHERE table = '{table[4:]}'") for url in job.shards]
    assert ["more" in names for names in described] == [True, False]
    assert len(job.landed(columns=["id", "text"])) == 40, "chunks without a new field landed before"
    for url in job.shards:  # ⚑ by hand, and no record of the range has a value for it
        command(url, f"ALTER TABLE {table} ADD COLUMN needed UInt8")
    failpoints.arm("driver.after_settle_inserts=fail")
    with pytest.raises(FailpointError):
        job.drain(spark)
    failpoints.assert_fired("driver.after_settle_inserts")
    failpoints.disarm()
    for url in job.shards:  # ⚑ the range has landed with the column as it was
        command(url, f"ALTER TABLE {table} MODIFY COLUMN more Nullable(String)")
    with pytest.raises(HaltError, match="CHS-309.*changed since: added_columns;"):
        job.drain(spark)
    for url in job.shards:
        command(url, f"ALTER TABLE {table} MODIFY COLUMN more Nullable(Float64)")

    job.drain(spark)

    types = f"SELECT name, type FROM system.columns WHERE table = '{table[4:]}' AND NOT startsWith(name, '_') ORDER BY position"
    for url in job.shards:
        assert dict(line.split("\t") for line in select(url, f"{types} FORMAT TSVRaw").splitlines()) == {
            "id": "Int64",
            "text": "Nullable(String)",
            "more": "Nullable(Float64)",
            "tags": "Array(Nullable(String))",
            "late": "Nullable(String)",
            "inner": "Nullable(String)",
            "needed": "UInt8",
        }
    job.check(columns=COLUMNS, rows_of=row)
    assert [p["unknown_fields"] for p in job.status()["partitions"]] == [{"gone": 10}, {"gone": 10}], "only nulls"
    shown = CliRunner().invoke(app, ["status", "-c", str(job.file())]).output
    assert f"fields of topic '{job.topic}' without a column in {table}: gone (20)" in shown

    for url in job.shards:
        command(url, f"DROP TABLE {table} SYNC")
    with pytest.raises(PreflightError, match=f"CHS-202.*{table}"):  # ⚑ it is lost, not new
        job.drain(spark)


@pytest.mark.soak
def test_names_that_json_writes_with_escapes(make_job: MakeJob, spark: SparkSession) -> None:
    """The columns were added and the rows inserted; then that batch, and each start after it, ended with CHS-708.  No
    column is added for a name with control characters.
    """
    job = make_job(partitions=1, settings={"schema.evolution": "add_columns"})
    odd = {'say "x"': 1, "back\\slash": "two", "new\nline": [3], "ta\tb": {'in"ner': 4}}
    job.send_values(0, [{"id": 1, "text": "a", **odd}, {"id": 2, "text": "b"}, {"id": 3, "text": "c", **odd}])
    job.drain(spark)
    job.send_values(0, [{"id": 4, "text": "d", **odd}, {"id": "none", **odd}])
    job.settings = {**job.settings, "errors.on_bad_value": "skip"}
    job.drain(spark)
    names = ", ".join(f"`{name}`" for name in ('say "x"', "back\\\\slash"))
    found = select(
        job.shards[0], f"SELECT id, {names} FROM {job.tables[job.topic]} ORDER BY id FORMAT JSONCompactEachRow"
    )
    rows = [json.loads(line) for line in found.splitlines()]
    assert [row[0] for row in rows] == [1, 2, 3, 4]
    assert all([str(v) for v in row[1:]] == ["1", "two"] for row in rows if row[0] != 2)


@pytest.mark.soak
def test_a_new_table_has_columns_for_times(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ A later value that does not fit is a bad value: never another day or another moment."""
    job = make_job(partitions=1, table=False, settings={"schema.auto_create": True, "errors.on_bad_value": "skip"})
    table = job.tables[job.name] = f"{DATABASE}.t_{job.name}".replace("-", "_")
    sampled: dict[str, Any] = {
        "id": 1,
        "day": "2026-01-31",
        "at": "2026-01-31T23:59:59.5+01:00",
        "local": "2026-01-31 10:00:00",
    }
    job.send_values(0, [sampled])
    off = ["sql", "create-table", "-c", str(job.file()), "--set", "schema.infer_times=false"]
    assert CliRunner().invoke(app, off).output.count("Nullable(String)") == 3
    job.drain(spark)
    later: list[dict[str, Any]] = [
        {"day": "9999-12-31"},
        {"day": "2026-02-30"},
        {"at": "2026-02-01T00:00:00.1234Z"},
        {"at": "2026-02-01"},
    ]
    job.send_values(
        0, [{"id": 2 + n, **sampled, **more, "local": "x"} for n, more in enumerate([*later, {"day": None}])]
    )
    job.drain(spark)

    types = f"SELECT name, type FROM system.columns WHERE table = '{table[4:]}' AND NOT startsWith(name, '_')"
    assert dict(line.split("\t") for line in select(job.shards[0], f"{types} FORMAT TSVRaw").splitlines()) == {
        "id": "Nullable(Int64)",
        "day": "Nullable(Date32)",
        "at": "Nullable(DateTime64(3, 'UTC'))",
        "local": "Nullable(String)",
    }
    rows = select(job.shards[0], f"SELECT _kafka_offset, day, at, local FROM {table} ORDER BY ALL FORMAT TSVRaw")
    assert rows.splitlines() == [
        "0\t2026-01-31\t2026-01-31 22:59:59.500\t2026-01-31 10:00:00",
        "4\t2026-01-31\t2026-02-01 00:00:00.000\tx",
        "5\t\\N\t2026-01-31 22:59:59.500\tx",
    ]


@pytest.mark.soak
def test_a_backlog_with_a_new_field_in_each_chunk(
    make_job: MakeJob, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The batch starts over once, with the columns of all of its chunks: not once for each of them."""
    job = make_job(partitions=2, settings={"schema.evolution": "add_columns"})
    for partition in (0, 1):
        for chunk in range(6):
            more = {f"f{partition}{chunk}": chunk, "same": 1 if chunk < 3 else 2**70}
            job.send_values(
                partition, values(100 * partition + 10 * chunk, **more) if chunk else values(100 * partition)
            )
    job.drain(spark)

    said = capsys.readouterr().err
    assert said.count("checking the table again") == 1
    assert said.count("adding columns") == 1
    fields = [f"f{partition}{chunk}" for partition in (0, 1) for chunk in range(1, 6)]
    job.check(columns=["id", "text", *fields])
    same = f"SELECT countIf(same = 1), countIf(same = toInt256('{2**70}')) FROM {job.tables[job.topic]}"
    assert select(job.shards[0], same).split() == ["40", "60"]


STATE = ("GRANT SELECT, INSERT, CREATE TABLE, ALTER UPDATE ON job.chsink_state", "GRANT TABLE ENGINE ON KeeperMap")
SYSTEM = tuple(f"GRANT SELECT ON {name}" for name in SYSTEM_TABLES)
WRITES = (*STATE, *SYSTEM, "GRANT SELECT, INSERT ON job.t", "GRANT TABLE ENGINE ON MergeTree")


@pytest.fixture
def guarded(services: Stack, tmp_path: Path) -> Iterator[EmbeddedClickHouse]:
    """A server with users who may write to a table, create it, and add columns to it."""
    users = [
        ClickHouseUser("default"),
        ClickHouseUser("writer", grants=WRITES),
        ClickHouseUser("creator", grants=(*WRITES, "GRANT CREATE TABLE ON job.t")),
        ClickHouseUser("grower", grants=(*WRITES, "GRANT ALTER ADD COLUMN ON job.t")),
    ]
    with EmbeddedClickHouse(tmp_path / "guarded", zookeeper=services.zookeeper.hosts, users=users) as server:
        command(server.url, f"CREATE DATABASE {DATABASE}")
        yield server


@pytest.mark.soak
def test_what_the_user_may_not_do(make_job: MakeJob, spark: SparkSession, guarded: EmbeddedClickHouse) -> None:
    """The server refuses (497): the error names the GRANT, nothing is lost, and with this grant the job goes on."""
    job = make_job(partitions=2, table=False, settings=SETTINGS)
    job.tables[job.name], job.shards = f"{DATABASE}.t", [guarded.url]
    with pytest.raises(PreflightError, match=f"CHS-285.*job.t does not exist.*{job.topic}"):
        job.drain(spark, {"clickhouse.user": "writer"})
    for partition in (0, 1):
        job.send_values(partition, values(100 * partition))
    grant = "GRANT CREATE TABLE ON `job`.`t` TO `writer`"
    both = f"{grant}; GRANT TABLE ENGINE ON MergeTree TO `writer`"
    with pytest.raises(PreflightError, match=rf"CHS-286.*may not create the table job\.t: (?s:.*)run {both}; or"):
        job.drain(spark, {"clickhouse.user": "writer"})
    missing = [f["fix"] for f in found_by_doctor(job, user="writer") if f["severity"] == "warning"]
    assert missing == [f"run {grant}"]
    job.drain(spark, {"clickhouse.user": "creator"})
    assert len(job.landed(columns=["id", "text"])) == 20

    job.send_values(0, values(10, more=1))
    job.send_values(1, values(110))
    grant = "GRANT ALTER ADD COLUMN ON `job`.`t` TO `creator`"
    with pytest.raises(
        PreflightError,
        match=rf"CHS-288.*may not add columns to job\.t: (?s:.*)run {grant}; or, as an administrator, run ALTER",
    ):
        job.drain(spark, {"clickhouse.user": "creator"})
    assert [f["fix"] for f in found_by_doctor(job, user="creator") if f["severity"] == "warning"] == [f"run {grant}"]
    assert job.in_doubt() == {0, 1}
    job.drain(spark, {"clickhouse.user": "grower"})
    job.check(columns=("id", "text", "more"), rows_of=lambda record: [row(record)[0][:3]])
