"""Statuses as a reader would have found them, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from chsink.status.model import PartitionStatus, SinkStatus


def partition(**given: Any) -> PartitionStatus:
    """A partition that is up to date, but for what is ``given``."""
    usual: dict[str, Any] = {
        "topic": "t",
        "partition": 0,
        "table": "d.a",
        "phase": "AFTER",
        "start": 0,
        "end": 10,
        "age_s": 1.0,
        "lag": 0,
        "lag_s": 0.0,
        "skipped": 0,
        "dead_letters": 0,
        "epoch": 1,
        "incarnation": 0,
        "unknown_fields": {},
    }
    return PartitionStatus(**{**usual, **given})


def status(*partitions: PartitionStatus, **given: Any) -> SinkStatus:
    """The status with these partitions."""
    usual: dict[str, Any] = {
        "sink": "shop",
        "owner": {"driver": "host:42", "epoch": 3, "since": "2026-11-23T09:00:00+00:00"},
        "partitions": partitions,
        "in_doubt": sum(p.in_doubt for p in partitions),
        "lag": sum(p.lag or 0 for p in partitions),
        "lag_unknown": None,
        "skipped": sum(p.skipped for p in partitions),
        "dead_letters": sum(p.dead_letters for p in partitions),
        "halts": (),
    }
    return SinkStatus(**{**usual, **given})
