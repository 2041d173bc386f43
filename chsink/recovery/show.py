"""The state as it is stored, beside what the target tables remember."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.window import DedupWindow
from chsink.driver.ledger import read_sink
from chsink.errors import ChsinkError
from chsink.ports import StateStore
from chsink.refusals import asking_target
from chsink.statemachine.owner import Owner
from chsink.statemachine.records import StateKey, StateRecord


def state_document(clickhouse: Cluster, store: StateStore) -> dict[str, Any]:
    """Owner, layouts and records as one JSON object.

    ``window`` is what the table remembers, per shard, as (blocks, seconds or null); ``tokens`` says of a range in doubt
    whether that still holds its tokens, or why that is unknown.  Both are None where no route leads to the table.
    """
    sink = clickhouse.config.sink.name
    owner, records = read_sink(store, sink)
    memory = _Memory(clickhouse, owner)
    return {
        "sink": sink,
        "store": store.name,
        "owner": None
        if owner is None
        else {"driver": owner.driver, "epoch": owner.epoch, "since": moment(owner.claimed_at)},
        "layouts": {} if owner is None else dict(owner.layouts),
        "records": [_record(k, r, clickhouse.clock.now_ms(), memory) for k, r in sorted(records.items())],
    }


@dataclass(slots=True)
class _Memory:
    """What the target tables remember.  A query that failed once, for the tables or for a layout, is not repeated."""

    clickhouse: Cluster
    owner: Owner | None
    _window: DedupWindow | None = None
    _unknown: dict[str | None, str] = field(default_factory=dict)

    def blocks(self, key: StateKey) -> list[tuple[int, int | None]] | None:
        """(blocks, seconds) per shard of the current layout."""
        window = self._asked() if self.clickhouse.is_routed(key) else None
        if window is None:
            return None
        return [(s.table.window_blocks, s.table.window_s) for s in window.shards(key.table, None)]

    def tokens(self, key: StateKey, record: StateRecord) -> str | None:
        """Whether the tokens of a range in doubt are remembered."""
        if not record.in_doubt or not self.clickhouse.is_routed(key):
            return None
        window = self._asked()
        if window is not None and record.sent.layout not in self._unknown:
            try:
                with asking_target():
                    return window.doubtful_tokens(key, record) or "remembered"
            except ChsinkError as error:
                self._unknown[record.sent.layout] = f"unknown: {error.message}"
        return self._unknown.get(None) or self._unknown[record.sent.layout]

    def _asked(self) -> DedupWindow | None:
        if self._window is None and None not in self._unknown:
            try:
                self._window = self.clickhouse.window(self.owner.layout if self.owner else lambda _: None)
            except ChsinkError as error:
                self._unknown[None] = f"unknown: {error.message}"
        return self._window


def _record(key: StateKey, record: StateRecord, now_ms: int, memory: _Memory) -> dict[str, Any]:
    return {
        "topic": key.topic,
        "partition": key.partition,
        "table": key.table,
        "phase": str(record.phase),
        "first": record.life.first,
        "start": record.start,
        "end": record.end,
        "gaps": [[g.start, g.end] for g in record.gaps],
        "age_s": round((now_ms - record.seen.before_at) / 1000, 1) if record.seen.before_at else None,
        "tokens": memory.tokens(key, record),
        "window": memory.blocks(key),
        "before_at": moment(record.seen.before_at) if record.seen.before_at else None,
        "marks": [[m.blocks, m.since_s] for m in record.seen.marks],
        "topic_id": record.life.topic_id,
        "incarnation": record.life.incarnation,
        "chunk_offsets": record.sent.chunk_offsets,
        "layout": record.sent.layout,
        "pipeline": record.sent.pipeline,
        "epoch": record.epoch,
        "attempt": record.attempt,
    }


def moment(ms: int) -> str:
    """A driver's clock for people."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
