"""Wrong variants of the protocol: the model must find each by a named invariant, or it proves nothing.

These are defects of the protocol as the model runs it; ``tests/mutations`` has defects of production code.
"""

from __future__ import annotations

from dataclasses import replace

from chsink.statemachine import table, writes
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateRecord
from chsink.statemachine.table import Decision, Facts, Policy
from chsink.statemachine.tokens import piece_token
from tests.model.explored import Control
from tests.model.protocol import KEY, Rules
from tests.model.space import mask, offsets


def _planned_token(record: StateRecord, planned: OffsetRange, index: int, shard: int) -> str:
    """Of the batch at hand."""
    return piece_token(
        KEY, replace(record, start=planned.start, end=planned.end, life=replace(record.life, first=0)), index, shard
    )


def _lifeless_token(record: StateRecord, planned: OffsetRange, index: int, shard: int) -> str:
    """The same for every incarnation."""
    return piece_token(KEY, replace(record, life=replace(record.life, nonce="")), index, shard)


def _shardless_token(record: StateRecord, planned: OffsetRange, index: int, shard: int) -> str:
    """The same on every chunk."""
    return piece_token(KEY, record, 0, shard)


def _rows_by_count(record: StateRecord, index: int, visible: int) -> int:
    """So many records a chunk, wherever their offsets lie."""
    left = offsets(visible & mask(record.start, record.end))
    mine = left[index * record.sent.chunk_offsets : (index + 1) * record.sent.chunk_offsets]
    return sum(1 << o for o in mine)


def _ask_by_name(record: StateRecord | None, planned: OffsetRange, facts: Facts, policy: Policy) -> Decision:
    known = facts if record is None or record.phase is Phase.EMPTY else replace(facts, topic_id=record.life.topic_id)
    return table.decide(record, planned, known, policy)


def _before_anything(record: StateRecord, asked: OffsetRange, said: writes.Announcement, **how: object) -> StateRecord:
    """BEFORE over whatever is recorded."""
    done = replace(record, phase=Phase.AFTER, doubt=replace(record.doubt, probe=False)) if record.in_doubt else record
    return writes.before(done, asked, said, **how)  # type: ignore[arg-type]


def _skipping(*rules: str) -> Rules:
    return Rules(skip=frozenset(rules))


CONTROLS = (
    Control("no token", _skipping("tokens"), "tasks", "at_most_once"),
    Control("token of the planned range", Rules(token=_planned_token), "checkpoint", "at_most_once"),
    Control("token without the nonce", Rules(token=_lifeless_token), "topic recreated", "token_is_content"),
    Control(
        "token without the nonce, started again",
        Rules(token=_lifeless_token),
        "started again from nothing",
        "after_means_landed",
    ),
    Control("token without the chunk", Rules(token=_shardless_token), "compaction and retention", "token_is_content"),
    Control("chunks by row count", Rules(rows=_rows_by_count), "compaction and retention", "token_is_content"),
    Control("BEFORE is not stored", _skipping("BEFORE"), "two drivers", "announced_first"),
    Control("AFTER before the inserts", _skipping("AFTER comes last"), "two drivers", "after_means_landed"),
    Control("no fencing", _skipping("fencing"), "two drivers", "state_forward"),
    Control(
        "an unknown write is taken for applied", _skipping("unknown is read back"), "two drivers", "announced_first"
    ),
    Control(
        "a second claim reuses its attempt", _skipping("new attempt for another row"), "three claims", "state_forward"
    ),
    Control(
        "rows of a newer owner are taken for ours", _skipping("newer rows are foreign"), "two drivers", "no_defect"
    ),
    Control(
        "in doubt is forgotten",
        replace(_skipping("settle first"), before=_before_anything),
        "topic recreated",
        "complete_at_rest",
    ),
    Control(
        "compared by the topic's name",
        replace(_skipping("id asked again"), decide=_ask_by_name),
        "topic recreated",
        "after_means_landed",
    ),
    Control("an older owner fences", _skipping("an older read is asked again"), "reads lag", "halt_justified"),
    Control("id not asked again", _skipping("id asked again"), "topic recreated", "after_means_landed"),
    Control(
        "log start not asked again",
        _skipping("log start asked again"),
        "compaction and retention",
        "after_means_landed",
    ),
    Control("present layout on a re-insert", _skipping("recorded layout"), "shards changed", "at_most_once"),
    Control("no deadline", _skipping("deadline"), "window by time", "at_most_once"),
    Control(
        "tokens are trusted for ever",
        _skipping("tokens are doubted", "looks before it sends"),
        "window by count",
        "at_most_once",
    ),
    Control("no look before a send", _skipping("looks before it sends"), "window by count", "at_most_once"),
    Control(
        "rows of an earlier life of the topic are taken for this one's",
        _skipping("lives are told apart"),
        "recreated, tokens forgotten",
        "after_means_landed",
    ),
)
