"""Before a table is compared as a whole, a replica that lags is waited for; a bounded time, and then its word counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chsink.verify.by_content import await_replicas
from chsink.verify.by_offset import LAG_S, PAUSE_S
from tests.unit.clickhouse.server import StoppedClock


@pytest.mark.parametrize(
    ("engine", "behind", "waited_s"),
    [("MergeTree", [], 0), ("ReplicatedMergeTree", [2, 1, 0], 2 * PAUSE_S), ("ReplicatedMergeTree", [1] * 99, LAG_S)],
)
def test_a_replica_that_lags_is_waited_for(engine: str, behind: list[int], waited_s: float) -> None:
    answers = iter(behind)
    table = SimpleNamespace(engine=engine, database="d", name="t")
    shard: Any = SimpleNamespace(table=table, client=SimpleNamespace(query=lambda *_: [(next(answers),)]))
    clock = StoppedClock()
    target: Any = SimpleNamespace(shards=[shard])
    await_replicas(target, clock)
    assert sum(clock.slept) == waited_s
