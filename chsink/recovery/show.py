"""The state as it is stored, beside what the target tables remember."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from chsink.clickhouse.window import DedupWindow
from chsink.delivery.halts import asking_target
from chsink.delivery.ledger import read_owner, read_records
from chsink.recovery.change import target_of
from statemachine.records import StateKey, StateRecord

if TYPE_CHECKING:
    from chsink.wiring import Wiring


def state_document(wiring: Wiring) -> dict[str, Any]:
    """Owner, layouts and records as one JSON object.

    ``window`` is what the table remembers, per shard, as (blocks, seconds or null); ``tokens`` says of a range in doubt
    whether that still holds its tokens.  Both are None where no route leads to the table, or it cannot be asked.
    """
    sink = wiring.config.sink.name
    owner, records = read_owner(wiring.store, sink), read_records(wiring.store, sink)
    window = wiring.window(owner.layout if owner else lambda _: None)
    return {
        "sink": sink,
        "store": wiring.store.name,
        "owner": None
        if owner is None
        else {"driver": owner.driver, "epoch": owner.epoch, "since": moment(owner.claimed_at)},
        "layouts": {} if owner is None else dict(owner.layouts),
        "records": [
            _record(k, r, wiring.clock.now_ms(), None if target_of(wiring, k) is None else window)
            for k, r in sorted(records.items())
        ],
    }


def _record(key: StateKey, record: StateRecord, now_ms: int, window: DedupWindow | None) -> dict[str, Any]:
    remembers = (
        None if window is None else [(m.table.window_blocks, m.table.window_s) for m in window.members(key.table, None)]
    )
    tokens = None
    if window is not None and record.in_doubt:
        with asking_target():
            tokens = window.doubtful_tokens(key, record) or "remembered"
    return {
        "topic": key.topic,
        "partition": key.partition,
        "table": key.table,
        "phase": str(record.phase),
        "first": record.first,
        "start": record.start,
        "end": record.end,
        "gaps": [[g.start, g.end] for g in record.gaps],
        "age_s": round((now_ms - record.before_at) / 1000, 1) if record.before_at else None,
        "tokens": tokens,
        "window": remembers,
        "before_at": moment(record.before_at) if record.before_at else None,
        "marks": [[m.blocks, m.started_s] for m in record.marks],
        "topic_id": record.topic_id,
        "incarnation": record.incarnation,
        "chunk_offsets": record.chunk_offsets,
        "layout": record.layout,
        "pipeline": record.pipeline,
        "epoch": record.epoch,
        "attempt": record.attempt,
    }


def moment(ms: int) -> str:
    """A driver's clock for people."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
