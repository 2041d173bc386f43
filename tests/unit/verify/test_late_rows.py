"""Before a table is compared as a whole, a replica that lags is waited for; a bounded time, and then its word counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chsink.verify.by_content import await_replicas
from chsink.verify.by_offset import LAG_S, PAUSE_S


class Clock:
    """Time that passes only in sleep."""

    ms = 0

    def now_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


@pytest.mark.parametrize(
    ("engine", "behind", "waited_s"),
    [("MergeTree", [], 0), ("ReplicatedMergeTree", [2, 1, 0], 2 * PAUSE_S), ("ReplicatedMergeTree", [1] * 99, LAG_S)],
)
def test_a_replica_that_lags_is_waited_for(engine: str, behind: list[int], waited_s: float) -> None:
    answers = iter(behind)
    table = SimpleNamespace(engine=engine, database="d", name="t")
    shard: Any = SimpleNamespace(table=table, client=SimpleNamespace(query=lambda *_: [(next(answers),)]))
    clock = Clock()
    target: Any = SimpleNamespace(shards=[shard])
    await_replicas(target, clock)
    assert clock.ms == waited_s * 1000
