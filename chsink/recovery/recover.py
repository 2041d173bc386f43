"""``recover``: rebuild a lost state store from what a survey of the tables found (:mod:`chsink.recovery.survey`)."""

from __future__ import annotations

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import letters_topic, present_fingerprint
from chsink.errors import halts
from chsink.formats.pipeline import Untouched
from chsink.ports import StateStore
from chsink.recovery.change import check_unchanged, claim
from chsink.recovery.letters import record_delivered
from chsink.recovery.recovered import Recovered
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.records import Phase, StateKey, StateRecord


def write(clickhouse: Cluster, store: StateStore, found: list[Recovered]) -> dict[StateKey, StateRecord]:
    """Claim the sink and write the records, in one compare-and-set.  Raises the first refusal before that, CHS-323 when
    a record is not the one that was found.
    """
    for one in found:
        if one.refusal is not None:
            raise one.refusal
    taken = [one.key for one in found if one.replaced is None or not one.replaced.table_by.left]
    ledger = claim(clickhouse, store, "recover", taken)
    attempt, now = ledger.attempt(), clickhouse.clock.now_ms()
    changes: dict[StateKey, StateRecord] = {}
    for one in found:
        record = ledger.records[one.key]
        if one.replaced is None and record.phase is not Phase.EMPTY:
            raise halts.RECORDED_MEANWHILE(key=one.key)
        if one.replaced is not None:
            check_unchanged(one.key, one.replaced, record)
        if one.kept:
            changes[one.key] = writes.with_new_tokens(record, epoch=ledger.epoch, attempt=attempt)
            continue
        if one.replaced is not None:
            record = writes.reset(record, epoch=ledger.epoch, attempt=attempt)
        changes[one.key] = writes.recovered(
            record,
            one.landed,
            _said(clickhouse, one, now),
            incarnation=max(now // 1000, record.life.incarnation + 1),
            epoch=ledger.epoch,
            attempt=attempt,
            doubtful=None if one.doubt is None else one.doubt.range,
        )
    place = letters_topic(clickhouse.config)
    for one in found:  # first: a record without its group would deliver dead letters again
        if place is not None:
            record_delivered(place, one.key, changes[one.key], one.delivered)
    ledger.write(changes)
    return changes


def _said(clickhouse: Cluster, one: Recovered, now: int) -> writes.Announcement:
    """Rows do not tell which pipeline made them.  But tables that share a topic-partition are compared by it."""
    cluster, leads = clickhouse, one.key.topic_table
    route = cluster.routes[leads]
    shape = Untouched(clickhouse.config.kafka.isolation_level)
    pipeline = present_fingerprint(cluster, leads, shape) if route.choice is not None else ""
    chunk_offsets = clickhouse.config.clickhouse.chunk_offsets if one.doubt is None else one.doubt.chunk_offsets
    return writes.Announcement(
        one.topic_id, Sending(chunk_offsets, cluster.layout(route).fingerprint(), pipeline), Seen(now)
    )
