"""``table_by`` changes in the middle of a batch: what the message says is done, word by word."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.errors import HaltError, UnavailableError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints
from tests.support.job import DATABASE, METADATA, WINDOW, select

pytestmark = pytest.mark.slow


@pytest.mark.soak
@pytest.mark.exit_of("CHOICE_CHANGED")
def test_the_change_is_undone_and_made_again(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ Each record is in the one table that it named when its batch landed."""
    job = make_job(partitions=1, table=False)
    names = {kind: f"{DATABASE}.{kind}_{job.name.replace('-', '_')}" for kind in ("a", "b")}
    for table in names.values():
        how = f"ENGINE = MergeTree ORDER BY tuple() SETTINGS {WINDOW}"
        job.create(f"CREATE TABLE {table} (id Int64, {METADATA}) {how}")
    job.tables[job.name] = names["a"]

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
    assert steps in halted.value.hint

    job.drain(spark)
    job.send_values(0, [{"id": n, "t": "ab"[n % 2]} for n in range(20, 30)])
    job.drain(spark, changed)

    rows = {
        kind: select(job.shards[0], f"SELECT id FROM {names[kind]} ORDER BY id FORMAT TSV").split() for kind in "ab"
    }
    assert rows["a"] == [str(n) for n in range(30) if (n % 2 == 0) == (n < 20)]
    assert rows["b"] == [str(n) for n in range(30) if (n % 2 == 1) == (n < 20)]
