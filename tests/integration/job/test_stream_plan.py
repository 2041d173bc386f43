"""What names a transform, and which streams are refused by their plan alone: Spark without Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from chsink.config import Config
from chsink.errors import PreflightError
from chsink.spark.runner import columns_of
from chsink.spark.sink import kafka_stream
from chsink.spark.stream_plan import of_frame

TIME_ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def stream(spark: SparkSession) -> Iterator[DataFrame]:
    """A Kafka source that is never read; the session's time zone is put back."""
    zone = spark.conf.get(TIME_ZONE)
    options = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
    yield spark.readStream.format("kafka").options(**options).load()
    spark.conf.set(TIME_ZONE, zone or "UTC")


def named(stream: DataFrame, condition: str) -> str:
    return of_frame(stream.where(condition)).transform


def test_one_transform_has_one_name(stream: DataFrame) -> None:
    assert of_frame(stream).transform == ""
    assert named(stream, "offset > 3") == named(stream, "offset > 3")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("offset > 3", "offset > 4"),
        ("topic = '#1'", "topic = '#2'"),
        ("topic = 'x@abc'", "topic = 'x@def'"),
        ("topic = '1'", "topic = 1"),
    ],
)
def test_literals_tell_transforms_apart(stream: DataFrame, one: str, other: str) -> None:
    assert named(stream, one) != named(stream, other)


@pytest.mark.parametrize("setting", [TIME_ZONE, "spark.sql.ansi.enabled"])
def test_settings_that_decide_a_value_tell_them_apart(stream: DataFrame, spark: SparkSession, setting: str) -> None:
    """The same text gives another shard key, or another value, in another time zone."""
    what = "substring(cast(timestamp as string), 1, 13) = '2026-11-21 10'"
    before, old = named(stream, what), spark.conf.get(setting)
    spark.conf.set(setting, "Asia/Tokyo" if setting == TIME_ZONE else str(old != "true").lower())
    try:
        assert named(stream, what) != before
    finally:
        spark.conf.set(setting, old or "")


@pytest.mark.parametrize("clock", ["cast('now' as timestamp)", "cast('Today' as date)", "now()", "current_date()"])
def test_the_clock_is_refused(stream: DataFrame, clock: str) -> None:
    with pytest.raises(PreflightError, match="CHS-604"):
        named(stream, f"timestamp < {clock}")


def test_a_column_of_that_name_is_no_clock(stream: DataFrame) -> None:
    of_frame(stream.withColumnRenamed("key", "now").where("cast(cast(now as string) as timestamp) is null"))


def test_records_without_headers_have_an_empty_list_of_them(spark: SparkSession) -> None:
    """⚑ Spark goes through all nulls of a list column after each row: with dead letters, a batch cost rows squared."""
    kind = "array<struct<key: string, value: binary>>"
    some, none = f"cast(array(struct('k', binary('v'))) as {kind})", f"cast(null as {kind})"
    frame = spark.range(2).selectExpr("id", f"if(id = 0, {none}, {some}) headers")
    columns = columns_of(["id", "headers"], frame)
    assert [(row.id, row.headers) for row in frame.select(*columns.values()).collect()] == [(0, []), (1, [("k", b"v")])]


@pytest.mark.parametrize(("configured", "waits"), [({}, "5"), ({"fetch.max.wait.ms": 500}, "500")])
def test_no_task_waits_at_the_end_of_its_log(spark: SparkSession, configured: dict[str, int], waits: str) -> None:
    """Kafka's own default is half a second, for each task of each batch."""
    config = Config.from_mapping(
        {
            "sink": {"name": "s"},
            "kafka": {"bootstrap": "localhost:1", "options": configured},
            "clickhouse": {"endpoints": ["http://localhost:1"]},
            "route": [{"topic": "t", "table": "db.t"}],
        }
    )
    options = of_frame(kafka_stream(spark, config, "earliest", headers=False)).options
    assert options["kafka.fetch.max.wait.ms"] == waits
