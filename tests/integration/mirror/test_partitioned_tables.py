"""Partitioned tables: a spec that changes while files wait, a schema that changes while a job runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import LongType, StringType

from chsink.mirror.opening import open_mirror
from chsink.mirror.task import Share
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.test_coordination import config_of
from tests.support.kafka import produce

Equal: Any = EqualTo


def table(bench: Bench) -> Table:
    return bench.catalog().load_table("shop.orders")


def files_by_spec(bench: Bench) -> Counter[int]:
    return Counter(row["spec_id"] for row in table(bench).inspect.files().to_pylist())


def found_by_id(bench: Bench, ids: range) -> dict[int, int]:
    """How many rows a filter on each id finds."""
    now = table(bench)
    return {n: now.scan(row_filter=Equal("id", n)).to_arrow().num_rows for n in ids}


@pytest.mark.soak
def test_files_of_several_specs_are_in_one_commit(make_bench: MakeBench) -> None:
    """\u2691 K-7: each file is in a manifest of its own spec.  In one of the default spec, a filter would not find it."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce(range(20)))
    with table(bench).update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "by_id")
    bench.hand_over(*bench.produce(range(20, 40)))
    with table(bench).update_spec() as spec:
        spec.remove_field("by_id").add_field("name", TruncateTransform(7), "by_name")
    bench.hand_over(*bench.produce(range(40, 60)))
    bench.round(coordinator)
    assert bench.snapshots() == 1 and bench.landed() == bench.sent()
    assert set(files_by_spec(bench)) == {0, 1, 2} and files_by_spec(bench)[1] == 4
    assert set(found_by_id(bench, range(60)).values()) == {1}
    for n in (5, 25, 45):
        assert table(bench).scan(row_filter=Equal("name", f"order {n}")).to_arrow().num_rows == 1
    bench.round(bench.coordinator())
    assert bench.landed() == bench.sent()


@pytest.mark.soak
def test_manifests_are_merged_and_keep_their_rows(make_bench: MakeBench) -> None:
    """O-2: the number of manifests stays below the table's limit."""
    bench = make_bench()
    with table(bench).transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "4"})
    with table(bench).update_spec() as spec:
        spec.add_field("id", IdentityTransform(), "by_id")
    coordinator = bench.coordinator()
    for n in range(12):
        bench.hand_over(*bench.produce([n]))
        bench.round(coordinator)
        snapshot: Any = table(bench).current_snapshot()
        assert len(snapshot.manifests(table(bench).io)) <= 4
    assert bench.snapshots() == 12 and bench.landed() == bench.sent()
    assert set(found_by_id(bench, range(12)).values()) == {1}


def test_a_changed_table_counts_from_the_next_range_on(make_bench: MakeBench) -> None:
    """A column that is added, one that is widened and a new spec: later records are complete."""
    bench = make_bench()
    mirror = open_mirror(config_of(bench), bench.admin)
    feeds = mirror.feeds()
    coordinator = bench.coordinator()
    with table(bench).update_schema() as schema:
        schema.add_column("extra", StringType())
        schema.update_column("_kafka_partition", field_type=LongType())
    assert mirror.renewed(feeds, mirror.targets) == feeds, "a column of Kafka's has one type"
    with table(bench).update_schema() as schema:
        schema.delete_column("_kafka_partition")
    with table(bench).update_spec() as spec:
        spec.add_field("extra", IdentityTransform(), "by_extra")
    feeds = mirror.renewed(feeds, mirror.targets)
    records = [{"id": n, "name": "x", "extra": f"e{n % 2}"} for n in range(10)]
    start, end = produce(bench.kafka.bootstrap, bench.topic, 0, records)
    feeds.hand_over(Share(bench.tp(), OffsetRange(start, end)), bench.records()(OffsetRange(start, end)))
    bench.round(coordinator)
    rows = table(bench).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["extra"]) for row in rows) == [(n, f"e{n % 2}") for n in range(10)]
    assert files_by_spec(bench) == {1: 2}


def test_a_table_that_is_another_one_or_cannot_be_written_is_left_to_the_next_start(make_bench: MakeBench) -> None:
    """Its records are written as before; coordinator and start refuse them."""
    bench = make_bench()
    mirror = open_mirror(config_of(bench), bench.admin)
    feeds = mirror.feeds()
    with table(bench).update_schema() as schema:
        schema.add_column("tags", StringType(), default_value="none")
    assert mirror.renewed(feeds, mirror.targets).tables == feeds.tables
    bench.catalog().drop_table("shop.orders")
    assert mirror.renewed(feeds, mirror.targets).tables == feeds.tables
    bench.catalog().create_table("shop.orders", SCHEMA)
    assert mirror.renewed(feeds, mirror.targets).tables == feeds.tables
