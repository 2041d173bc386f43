"""A task whose Java side fails gets an input that ends early, between two Arrow batches, as if that were all."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.integration.job.conftest import MakeJob
from tests.support.job import Row
from tests.support.kafka import Record

ANSI = "spark.sql.ansi.enabled"
LONG = "x" * 20_000
"""Spark hands batches to Python when it has some 64 KiB of them."""


def numbers(stream: DataFrame) -> DataFrame:
    """Every third record is left out, so Arrow batches of ten rows end in the midst of chunks of ten offsets.  In ANSI
    mode a text that is no number fails the task.
    """
    read = stream.select(
        "topic", "partition", "offset", f.from_json(stream.value.cast("string"), "id long, text string").alias("r")
    )
    number = f.coalesce(f.col("r.text").cast("int").cast("string"), f.lit("none"))
    text = f.concat(number, f.lit(LONG)).alias("text")
    return read.where("r.id % 3 > 0").select("topic", "partition", "offset", "r.id", text)


def rows_of(record: Record) -> Iterable[Row]:
    """What ``numbers`` makes of a record without ANSI mode."""
    value = json.loads(record.value or b"")
    number = value["text"] if value["text"].isdigit() else "none"
    return [(value["id"], number + LONG)] if value["id"] % 3 else []


def test_half_a_chunk_is_never_sent_under_its_token(
    make_job: MakeJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mode is how the first run is made to fail; else the second one would rightly be taken for another transform.
    monkeypatch.setattr("chsink.spark.stream_plan.CONFIGURED", ())
    job = make_job(partitions=1)
    job.send_values(0, ({"id": n, "text": "boom" if n == 22 else str(n)} for n in range(40)))
    ansi = spark.conf.get(ANSI)
    try:
        spark.conf.set(ANSI, "true")
        with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
            job.drain_sink(spark, numbers)
        assert job.in_doubt() == {0}
        assert {row[1] for row in job.landed()} <= set(range(10)), "of the second chunk only a part was at hand"
        spark.conf.set(ANSI, "false")
        job.drain_sink(spark, numbers)
    finally:
        spark.conf.set(ANSI, ansi or "true")
    job.check(rows_of=rows_of)
