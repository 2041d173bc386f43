"""Spark hands over as many records at a time as earlier ones were large; larger ones land all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chsink.spark import arrow_batches
from chsink.spark.arrow_batches import EXPECTED_BYTES, MANY
from tests.integration.job.conftest import MakeJob

pytestmark = pytest.mark.slow

CHUNK = {"clickhouse.chunk_offsets": 2 * MANY}


@pytest.mark.soak
def test_large_records_follow_small_ones(make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job(partitions=1)

    def known() -> list[int]:
        return [size for (topic, _), size in arrow_batches._known.items() if topic == job.topic]

    def large(first: int) -> Iterator[dict[str, Any]]:
        return ({"id": at, "text": f"{at} " * 2_000} for at in range(first, first + MANY))

    job.send(0, MANY)
    job.drain(spark, CHUNK)
    [small] = known()
    assert small < 200
    job.send_values(0, large(MANY))
    job.drain(spark, CHUNK)
    [size] = known()
    assert size > 10_000
    assert size * MANY > EXPECTED_BYTES, "the next chunk comes in several batches"
    job.send_values(0, large(2 * MANY))
    job.drain(spark, CHUNK)

    job.check()
