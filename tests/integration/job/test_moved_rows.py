"""What decides the table partition of a row changes while a range is in doubt: the token is known in the old one only."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.errors import HaltError
from tests.integration.job.conftest import MakeJob
from tests.integration.job.faults import Failpoints, crash_before_after
from tests.support.job import METADATA, WINDOW, Job, command, select

pytestmark = [pytest.mark.slow, pytest.mark.soak]
ENGINE = f"ENGINE = MergeTree PARTITION BY day ORDER BY tuple() SETTINGS {WINDOW}"
PLAIN = f"ENGINE = MergeTree ORDER BY tuple() SETTINGS {WINDOW}"
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


FILLED = {
    "own default": ("id, ts", "", "ts DateTime, day Date DEFAULT toDate(ts)", "day Date DEFAULT toDate(ts) + 1"),
    "own metadata": (
        "id, ts",
        "",
        "ts DateTime, _kafka_timestamp DateTime DEFAULT ts, day Date DEFAULT toDate(_kafka_timestamp)",
        "_kafka_timestamp DateTime DEFAULT ts + 86400",
    ),
    "column of the table": ("id, day", ", day Date MATERIALIZED toDate(ts)", "day Date", NEXT_DAY),
    "alias of the table": ("id, day", ", day Date ALIAS toDate(ts)", "day Date", "day Date ALIAS toDate(ts) + 1"),
}
"""What the view selects, a further column of the table, those of the filled one, and the column as it is altered: the
table's further one, or else one of the filled table.
"""


@pytest.mark.parametrize("case", FILLED)
def test_it_is_that_of_a_table_which_a_view_fills(
    make_job: MakeJob, spark: SparkSession, failpoints: Failpoints, case: str
) -> None:
    """⚑ The table dropped the piece as a duplicate, and the other one stored it again."""
    selected, further, columns, altered = FILLED[case]
    job = make_job(partitions=1, metadata="", columns=f"id UInt64, ts DateTime{further}")
    table = job.tables[job.topic]
    filled = fill(job, table, selected, columns, ENGINE)
    doubtful_after(job, spark, failpoints, f"ALTER TABLE {table if further else filled} MODIFY COLUMN {altered}")
    assert select(job.shards[0], f"SELECT count(), uniqExact(id) FROM {filled} FORMAT TSV").split() == ["10", "10"]


def test_a_table_between_them_computes_it(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ Found by an adversary: only the columns of the table with the key were compared."""
    job = make_job(partitions=1, metadata="", columns="id UInt64, ts DateTime")
    between = fill(job, job.tables[job.topic], "id, ts", "ts DateTime, day Date DEFAULT toDate(ts)", PLAIN)
    last = fill(job, between, "id, day", "day Date", ENGINE)
    doubtful_after(job, spark, failpoints, f"ALTER TABLE {between} MODIFY COLUMN day Date DEFAULT toDate(ts) + 1")
    assert select(job.shards[0], f"SELECT count(), uniqExact(id) FROM {last} FORMAT TSV").split() == ["10", "10"]


def test_its_name_has_a_backtick(make_job: MakeJob, spark: SparkSession, failpoints: Failpoints) -> None:
    """⚑ Found by an adversary: ClickHouse writes it with a backslash, so it was not found in the key."""
    named = "`d\\`y` Date MATERIALIZED toDate(ts)"
    engine = ENGINE.replace("day", "`d\\`y`")
    job = make_job(partitions=1, metadata="", columns=f"id UInt64, ts DateTime, {named}", engine=engine)
    table = job.tables[job.topic]
    doubtful_after(job, spark, failpoints, f"ALTER TABLE {table} MODIFY COLUMN {named} + 1")
    assert select(job.shards[0], f"SELECT count(), uniqExact(id) FROM {table} FORMAT TSV").split() == ["10", "10"]


@pytest.mark.parametrize("selected", ["id, day", "*"])
def test_a_column_is_added_that_no_view_names(make_job: MakeJob, spark: SparkSession, selected: str) -> None:
    """Found by a reviewer: chsink added it, and halted because of its default."""
    settings = {"schema.evolution": "add_columns"}
    job = make_job(partitions=2, metadata="", columns="id UInt64, day Date", settings=settings)
    filled = fill(job, job.tables[job.topic], selected, "day Date", ENGINE)
    for partition, more in enumerate(({}, {"more": [1, 2]})):
        job.send_values(partition, ({"id": 10 * partition + n, "day": "2026-01-02", **more} for n in range(10)))
    job.drain(spark)
    assert select(job.shards[0], f"SELECT count(), uniqExact(id) FROM {filled} FORMAT TSV").split() == ["20", "20"]


def fill(job: Job, table: str, selected: str, columns: str, engine: str) -> str:
    """The name of a table that a view of the other one fills."""
    filled = f"{table}_filled"
    job.create(f"CREATE TABLE {filled} (id UInt64, {columns}) {engine}")
    job.create(f"CREATE MATERIALIZED VIEW {filled}_view TO {filled} AS SELECT {selected} FROM {table}")
    return filled


def doubtful_after(job: Job, spark: SparkSession, failpoints: Failpoints, statement: str) -> None:
    """The rows cannot be looked for, and the statement may have moved them to another table partition."""
    job.send_values(0, ({"id": n, "ts": "2026-01-02 01:00:00"} for n in range(10)))
    crash_before_after(job, spark, failpoints)
    command(job.shards[0], statement)
    with pytest.raises(HaltError, match="CHS-317"):
        job.drain(spark)
