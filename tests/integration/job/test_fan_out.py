"""One topic to several tables of different shapes, two of which its records name: each record once in each of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chsink.cli.verify import read_report
from chsink.clickhouse.landing import present_fingerprint
from chsink.connect import connected
from chsink.embedded.stack import Stack
from chsink.errors import HaltError, PreflightError, UnavailableError
from chsink.formats.pipeline import Untouched
from chsink.recovery.decide import plan_resolve
from chsink.verify.route import Selection
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.doubt import run
from tests.support.job import Job, command, select
from tests.support.kafka import read_all
from tests.support.told import says

pytestmark = pytest.mark.slow

SHAPES = {
    "orders": "id Int64, text String, type String",
    "refunds": "id Int64, amount Decimal(9, 2), reason Nullable(String), type String",
    "raw": "value String",
}
UNKNOWN, MISFIT = {"id": 1, "type": "secret"}, {"id": 2, "type": "refund", "amount": "secret"}


def make_tables(job: Job) -> Mapping[str, Any]:
    """The tables, and the settings that route the topic to them."""
    names = job.create_for(SHAPES)
    choice = {"field": "$.type", "tables": {"order": names["orders"], "refund": names["refunds"]}}
    return {
        "route": [
            {"topic": job.name, "table_by": choice},
            {"topic": job.name, "table": names["raw"], "format": {"type": "raw", "column": "value"}},
        ],
        "errors.on_bad_value": "dead_letter",
        "dead_letters.topic": f"{job.name}-dead",
    }


def swapped(settings: Mapping[str, Any]) -> list[Any]:
    """The routes with each kind of record in the other one's table."""
    by, raw = settings["route"]
    tables = by["table_by"]["tables"]
    other = {"order": tables["refund"], "refund": tables["order"]}
    return [{**by, "table_by": {**by["table_by"], "tables": other}}, raw]


def send(job: Job, partition: int, *, gift: Mapping[str, Any], note: Mapping[str, Any]) -> None:
    """Records of both kinds with more fields, one of no kind and one that does not fit, over two chunks."""
    orders = [{"id": n, "type": "order", "text": f"x{n}", **gift} for n in range(6)]
    refunds = [{"id": n, "type": "refund", "amount": f"{n}.50", **note} for n in range(6)]
    job.send_values(partition, [v for pair in zip(orders, refunds, strict=True) for v in pair] + [UNKNOWN, MISFIT])


def check_columns(job: Job, settings: Mapping[str, Any]) -> None:
    """Each table has a column for the new field of its own records, with their values, and none for the other's."""
    tables = settings["route"][0]["table_by"]["tables"]
    for kind, own, other in (("order", "gift", "note"), ("refund", "note", "gift")):
        database, name = tables[kind].split(".")
        where = f"database = '{database}' AND table = '{name}' AND name IN ('{own}', '{other}')"
        assert select(job.shards[0], f"SELECT name FROM system.columns WHERE {where} FORMAT TSV").split() == [own]
        assert select(job.shards[0], f"SELECT count({own}) FROM {tables[kind]} FORMAT TSV").strip() == "12"


def check(job: Job, settings: Mapping[str, Any]) -> None:
    """Every record has one row or one dead letter in each table that it is for, and nothing anywhere else."""
    sent = {(r.partition, r.offset): json.loads(r.value or b"") for r in read_all(job.bootstrap, job.name)}
    by, raw = settings["route"]
    tables = {
        "orders": by["table_by"]["tables"]["order"],
        "refunds": by["table_by"]["tables"]["refund"],
        "raw": raw["table"],
    }
    fits = {at: v for at, v in sent.items() if v not in (UNKNOWN, MISFIT)}
    expected = {
        "orders": {at: [v["id"], v["text"]] for at, v in fits.items() if v["type"] == "order"},
        "refunds": {at: [v["id"], float(v["amount"])] for at, v in fits.items() if v["type"] == "refund"},
        "raw": {at: [json.dumps(v, separators=(",", ":"))] for at, v in sent.items()},
    }
    columns = {"orders": "id, text", "refunds": "id, amount", "raw": "value"}
    for kind, table in tables.items():
        sql = f"SELECT _kafka_partition, _kafka_offset, {columns[kind]} FROM {table} FORMAT JSONCompactEachRow"
        rows = [json.loads(line) for line in select(job.shards[0], sql).splitlines()]
        assert sorted(rows) == sorted([*at, *row] for at, row in expected[kind].items()), kind
    dead = [{k: (v or b"").decode() for k, v in r.headers} for r in read_all(job.bootstrap, f"{job.name}-dead")]
    found = sorted((d["chsink.table"], int(d["chsink.partition"]), int(d["chsink.offset"])) for d in dead if d)
    assert found == sorted(
        (tables["orders" if v == UNKNOWN else "refunds"], *at) for at, v in sent.items() if at not in fits
    )
    assert not any("secret" in d["chsink.reason"] for d in dead), "the value is nobody's to read"
    status = job.status()["partitions"]
    assert {(p["table"], p["partition"], p["phase"], p["lag"]) for p in status} == {
        (table, partition, "AFTER", 0) for table in tables.values() for partition in (0, 1)
    }


@pytest.mark.soak
@pytest.mark.exit_of("CHOICE_CHANGED")
@pytest.mark.exit_of("RESEND_OTHER_RECORDS")
def test_each_table_has_its_records_whatever_ends_the_job(
    make_job: MakeJob, services: Stack, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ The job ends in the second table of a batch, and between two tables of the next one, where its records must not
    change their tables.  The tables gain columns in that batch, each for its own records.  Then one of the tables starts
    over, in small batches: the others skip what they have.
    """
    job = make_job(table=False)
    settings = make_tables(job)
    job.settings = settings
    services.kafka.create_topic(f"{job.name}-dead", 1, {"retention.ms": "-1"})
    for crash in ("driver.before_after=fail@2", "driver.after_after=fail"):
        grows = crash.startswith("driver.after")
        settings["route"][0]["evolution"] = "add_columns" if grows else "off"
        for partition in (0, 1):
            send(job, partition, gift={"gift": True} if grows else {}, note={"note": "n"} if grows else {})
        failpoints.arm(crash)
        with pytest.raises(UnavailableError, match="CHS-708"):
            job.drain(spark)
        failpoints.assert_fired(crash.partition("=")[0])
        failpoints.disarm()
        doubtful = {p["table"] for p in job.status()["partitions"] if p["phase"] == "BEFORE"}
        refunds = settings["route"][0]["table_by"]["tables"]["refund"]
        assert doubtful == (set() if grows else {refunds})
        wanted = "CHS-309.*" + ("changed since: .*table_by" if doubtful else "not yet for")
        with pytest.raises(HaltError, match=wanted) as halted:
            job.drain(spark, {"route": swapped(settings)})
        says(halted.value, "undo the change", "run the job until", "then make the change again")
        if doubtful:
            with connected(job.config({"route": swapped(settings)})) as services_now:
                fingerprint = partial(present_fingerprint, services_now.clickhouse, stream=Untouched("read_committed"))
                with pytest.raises(
                    PreflightError, match="CHS-322.*table_by, or your program's transform, may have changed"
                ) as refused:
                    plan_resolve(
                        services_now.clickhouse,
                        services_now.store,
                        services_now.kafka,
                        job.name,
                        (),
                        "resend",
                        table=refunds,
                        pipeline=fingerprint,
                        senders_gone=True,
                    )
            says(refused.value, "otherwise undo the change, run the job until the range is settled")
        job.drain(spark)
        check(job, settings)
    check_columns(job, settings)
    raw = settings["route"][1]["table"]
    assert run(job, "reset", job.name, "--table", raw, "--yes").exit_code == 0
    command(job.shards[0], f"TRUNCATE TABLE {raw}")
    job.lose_checkpoint()
    job.drain(spark, {"kafka.max_offsets_per_trigger": 20})
    check(job, settings)
    report = read_report(job.config(), Selection())
    assert report.ok
    assert sum(p.rows for p in report.partitions) == 4 * (6 + 6 + 14)
    assert sum(p.records for p in report.partitions) == 4 * (7 + 7 + 14)
