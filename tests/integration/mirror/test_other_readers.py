"""Spark with Iceberg's own runtime finds by filters what pyiceberg finds: no key is lost between the two.

The first run makes an environment with Spark, of 500 MB (:mod:`bench.peer`).  DuckDB is not among the readers: its Iceberg reader is an extension that is downloaded when it is first used.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import NestedField, TimestamptzType

from bench.peer import Peer, ensure
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.conftest import MakeBench
from tests.support.kafka import produce

pytestmark = pytest.mark.slow

ROWS: Final = 60
FILTERS: Final = (
    *(f"id = {number}" for number in range(0, ROWS, 7)),
    "id in (3, 50)",
    "id > 40 and name is not null",
    "name = 'order 5'",
    "name like 'order 1%'",
    "name is null",
    "_kafka_offset < 0",
    "_kafka_offset >= 21",
    "_kafka_timestamp >= '2026-01-01T00:00:00+00:00'",
    "_kafka_timestamp < '2026-01-01T00:00:00+00:00'",
)
"""In the words of both."""
READER: Final = """
import json, sys
from pyspark.sql import SparkSession
jars, table, *filters = sys.argv[1:]
catalog = "spark.sql.catalog.default_iceberg"
settings = {"spark.jars": jars, catalog: "org.apache.iceberg.spark.SparkCatalog", f"{catalog}.type": "hadoop",
            f"{catalog}.warehouse": table, "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
rows = spark.read.format("iceberg").load(table)
print(json.dumps([sorted(row.id for row in rows.where(said).select("id").collect()) for said in filters]))
"""


@pytest.mark.soak
def test_spark_finds_what_pyiceberg_finds(make_bench: MakeBench) -> None:
    """K-7, W-3: every transform of the day, with nulls, and files of five specs in one table."""
    schema = Schema(*SCHEMA.fields, NestedField(5, "_kafka_timestamp", TimestamptzType()))
    bench = make_bench(schemas={"orders": schema})
    coordinator = bench.coordinator()
    for number in range(5):
        hand_over(bench, range(number * 12, number * 12 + 12))
        with table(bench).update_spec() as spec:
            match number:
                case 0:
                    spec.add_field("id", BucketTransform(4), "by_id")
                case 1:
                    spec.remove_field("by_id").add_field("name", TruncateTransform(7), "by_start")
                case 2:
                    spec.remove_field("by_start").add_field("name", IdentityTransform(), "by_name")
                case 3:
                    spec.remove_field("by_name").add_field("_kafka_timestamp", DayTransform(), "by_day")
    bench.round(coordinator)
    assert bench.landed() == bench.sent()
    found = {said: of_pyiceberg(table(bench), said) for said in FILTERS}
    assert found["id = 49"] == [49] and found["name is null"] == [*range(0, ROWS, 10)]
    assert dict(zip(FILTERS, of_spark(table(bench), ensure(print)), strict=True)) == found


def hand_over(bench: Bench, ids: range) -> None:
    """Records with these ids; each tenth has no name."""
    values = [{"id": n, "name": f"order {n}" if n % 10 else None} for n in ids]
    bench.hand_over(*produce(bench.kafka.bootstrap, bench.topic, 0, values))


def table(bench: Bench) -> Table:
    return bench.catalog().load_table("shop.orders")


def of_pyiceberg(now: Table, said: str) -> list[int]:
    return sorted(now.scan(row_filter=said, selected_fields=("id",)).to_arrow().column("id").to_pylist())


def of_spark(now: Table, peer: Peer) -> list[list[int]]:
    """The ids that each filter finds.  The newest metadata are copied to where a table without a catalog has them."""
    folder = Path(now.location().removeprefix("file://"))
    shutil.copy(now.metadata_location.removeprefix("file://"), folder / "metadata" / "v1.metadata.json")
    (folder / "metadata" / "version-hint.text").write_text("1")
    done = subprocess.run(
        [peer.python, "-c", READER, peer.jars, str(folder), *FILTERS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[list[int]] = json.loads(done.stdout.splitlines()[-1])
    return found
