"""What decides the table partition of a row changes while a range is in doubt: the token is known in the old one only."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.errors import HaltError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.job import DATABASE, METADATA, WINDOW, command, select

pytestmark = [pytest.mark.slow, pytest.mark.soak]
ENGINE = f"ENGINE = MergeTree PARTITION BY day ORDER BY tuple() SETTINGS {WINDOW}"
NEXT_DAY = "day Date MATERIALIZED toDate(ts) + 1"


@pytest.mark.parametrize("metadata", [METADATA, ""])
def test_a_default_in_the_partition_key_is_altered(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, metadata: str
) -> None:
    """⚑ Found by an adversary: each record of the range was there twice if its rows could not be looked for."""
    columns = "id UInt64, ts DateTime, day Date MATERIALIZED toDate(ts)"
    job = make_job(partitions=1, metadata=metadata, columns=columns, engine=ENGINE)
    table = job.tables[job.topic]
    job.send_values(0, ({"id": n, "ts": "2026-01-02 01:00:00"} for n in range(10)))
    crash_before_after(job, spark, failpoints)
    command(job.shards[0], f"ALTER TABLE {table} MODIFY COLUMN {NEXT_DAY}")
    if metadata:
        job.drain(spark)
    else:
        with pytest.raises(HaltError, match="CHS-317"):
            job.drain(spark)
    assert select(job.shards[0], f"SELECT count(), uniqExact(id) FROM {table} FORMAT TSV").split() == ["10", "10"]


def test_it_is_that_of_a_table_which_a_view_fills(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints
) -> None:
    """⚑ The table dropped the piece as a duplicate, and the other one stored it again."""
    job = make_job(partitions=1, columns="id UInt64, ts DateTime")
    table, filled = job.tables[job.topic], f"{DATABASE}.moved"
    job.create(f"CREATE TABLE {filled} (id UInt64, ts DateTime, day Date DEFAULT toDate(ts)) {ENGINE}")
    job.create(f"CREATE MATERIALIZED VIEW {filled}_view TO {filled} AS SELECT id, ts FROM {table}")
    job.send_values(0, ({"id": n, "ts": "2026-01-02 01:00:00"} for n in range(10)))
    crash_before_after(job, spark, failpoints)
    command(job.shards[0], f"ALTER TABLE {filled} MODIFY COLUMN day Date DEFAULT toDate(ts) + 1")
    with pytest.raises(HaltError, match="CHS-317"):
        job.drain(spark)
    assert select(job.shards[0], f"SELECT count(), uniqExact(id) FROM {filled} FORMAT TSV").split() == ["10", "10"]
