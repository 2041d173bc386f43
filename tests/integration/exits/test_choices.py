"""``table_by`` changes in the middle of a batch: what the message says is done, word by word."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, SparkSession

from chsink.connect import connected
from chsink.errors import HaltError, UnavailableError
from chsink.failpoints import FailpointError
from chsink.recovery.change import claim
from chsink.statemachine.records import StateKey
from tests.integration.exits.commands import follow, settings_of
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.doubt import run
from tests.support.job import command, select
from tests.support.told import says, statements_of

pytestmark = pytest.mark.slow


@pytest.mark.soak
@pytest.mark.exit_of("CHOICE_CHANGED")
def test_the_change_is_undone_and_made_again(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ Each record is in the one table that it named when its batch landed."""
    job = make_job(partitions=1, table=False)
    names = job.create_for({"a": "id Int64", "b": "id Int64"})

    def by(tables: dict[str, str]) -> dict[str, object]:
        return {"route": [{"topic": job.name, "table_by": {"field": "$.t", "tables": tables}}]}

    changed = by({"a": names["b"], "b": names["a"]})
    job.settings = by(names)
    job.send_values(0, [{"id": n, "t": "ab"[n % 2]} for n in range(20)])
    failpoints.arm("driver.after_after=fail")
    with pytest.raises(UnavailableError, match="CHS-708"):
        job.drain(spark)
    failpoints.disarm()
    with pytest.raises(HaltError, match=r"CHS-309.*\[0, 20\) were announced for table") as halted:
        job.drain(spark, changed)
    steps = "undo the change, run the job until a batch has landed in all tables, then make the change again"
    says(halted.value, steps)

    job.drain(spark)
    job.send_values(0, [{"id": n, "t": "ab"[n % 2]} for n in range(20, 30)])
    job.drain(spark, changed)

    rows = {
        kind: select(job.shards[0], f"SELECT id FROM {names[kind]} ORDER BY id FORMAT TSV").split() for kind in "ab"
    }
    assert rows["a"] == [str(n) for n in range(30) if (n % 2 == 0) == (n < 20)]
    assert rows["b"] == [str(n) for n in range(30) if (n % 2 == 1) == (n < 20)]


@pytest.mark.soak
@pytest.mark.exit_of("CHOICE_CHANGED")
def test_an_interrupted_recover_and_a_rename_that_is_undone(make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ ``recover`` dies after its claim, which made a row of the renamed table: nothing was left to undo."""
    job = make_job(partitions=1, table=False)
    names = job.create_for({"a": "id Int64", "b": "id Int64"})
    for first, (a, b) in enumerate([("a", "b"), ("b", "a")]):
        by = {"field": "$.t", "tables": {"a": names[a], "b": names[b]}}
        job.settings = {"route": [{"topic": job.name, "table_by": by}]}
        job.send_values(0, [{"id": n, "t": "ab"[n % 2]} for n in range(10 * first, 10 * first + 10)])
        job.drain(spark)
    with connected(job.config()) as services:
        claim(services.clickhouse, services.store, "recover", [StateKey(job.name, job.name, 0, f"{names['a']}_2")])

    job.send_values(0, [{"id": n, "t": "ab"[n % 2]} for n in range(20, 30)])
    with pytest.raises(HaltError, match=r"CHS-309.*not yet for table .*_2") as caught:
        job.drain(spark)
    follow(job, caught.value, "reset")

    job.drain(spark)
    rows = {
        kind: select(job.shards[0], f"SELECT id FROM {names[kind]} ORDER BY id FORMAT TSV").split() for kind in "ab"
    }
    assert rows["a"] == [str(n) for n in range(30) if (n % 2 == 0) == (n < 10)]
    assert rows["b"] == [str(n) for n in range(30) if (n % 2 == 1) == (n < 10)]


@pytest.mark.soak
@pytest.mark.exit_of("RESEND_OTHER_RECORDS")
def test_a_program_that_transforms_sends_a_range_again(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ Found by a reader: the fix asked for a text of CHS-309, with which the job had not halted."""
    job = make_job(partitions=1, table=False)
    names = job.create_for({"a": "id Int64", "b": "id Int64"})
    job.settings = {"route": [{"topic": job.name, "table_by": {"field": "$.t", "tables": names}}]}
    job.send_values(0, [{"id": n, "t": "ab"[n % 2]} for n in range(20)])

    def transform(stream: DataFrame) -> DataFrame:
        return stream.where("value IS NOT NULL")

    failpoints.arm("driver.before_after=fail")
    with pytest.raises(FailpointError):
        job.drain_sink(spark, transform)
    failpoints.disarm()
    resend = ["resolve", job.topic, "0", "--resend", "--senders-gone", "--yes", *settings_of(job)]
    refused = run(job, *resend)
    assert refused.exit_code == 2
    says(refused, "if your program transforms the stream and nothing has changed", "chsink state show --json")
    shown = json.loads(run(job, "show", "--json", *settings_of(job)).stdout)["records"]
    [pipeline] = [one["pipeline"] for one in shown if one["phase"] == "BEFORE"]
    there = run(job, *resend, "--pipeline", pipeline)
    assert (there.exit_code, "10 rows of" in there.stderr) == (2, True), there.output
    for statement in statements_of(there, "DELETE FROM"):
        command(job.shards[0], f"{statement} SETTINGS lightweight_deletes_sync = 2")
    assert run(job, *resend, "--pipeline", pipeline).exit_code == 0
    job.drain_sink(spark, transform)
    rows = {
        kind: select(job.shards[0], f"SELECT id FROM {names[kind]} ORDER BY id FORMAT TSV").split() for kind in "ab"
    }
    assert rows == {kind: [str(n) for n in range(20) if "ab"[n % 2] == kind] for kind in "ab"}
