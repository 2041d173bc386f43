"""What ``chsink mirror status`` finds is what the gauges show."""

from __future__ import annotations

from chsink.mirror.status import TableStatus
from chsink.observe.metrics import MirrorMetrics

FOUND = TableStatus(
    table="shop.orders",
    problem="",
    fix="",
    snapshot=7,
    last_commit="1970-01-01T00:01:40+00:00",
    valid_through=None,
    pending=3,
    pending_units=2,
    lag=5,
    lag_s=1.5,
    skipped=6,
    snapshots=4,
    files=12,
    bytes=3000,
    partitions=(),
)


def test_the_gauges_of_a_table() -> None:
    metrics = MirrorMetrics("s")
    metrics.table(FOUND.table, FOUND.measures())
    shown = {sample.name: sample.value for metric in metrics.registry.collect() for sample in metric.samples}

    assert shown == {
        "chsink_mirror_lag_offsets": 5,
        "chsink_mirror_lag_seconds": 1.5,
        "chsink_mirror_skipped_records": 6,
        "chsink_mirror_pending_offsets": 3,
        "chsink_mirror_pending_units": 2,
        "chsink_mirror_last_commit_timestamp_seconds": 100,
        "chsink_mirror_snapshots": 4,
        "chsink_mirror_data_files": 12,
        "chsink_mirror_data_files_bytes": 3000,
    }
