"""One batch, one topic-partition: the stored record, the planned range and the facts → the steps to take.

``decide`` is total: every input gives steps or a halt with its reason.  The caller does the steps in order and
writes BEFORE and AFTER around each; nothing here knows how.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from statemachine.ranges import OffsetRange, relate
from statemachine.records import Phase, StateRecord
from statemachine.transitions import NO_RECORD, TABLE, Action, Halt


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about one topic-partition when its batch is decided.

    ``topic_id`` is None where the broker gives none.  ``log_start`` and ``log_end`` are Kafka's, None when not asked.
    ``has_history`` says that the checkpoint holds finished batches with records of this partition.  ``pipeline`` is
    the fingerprint that an insert made now would carry.
    """

    topic_id: str | None
    log_start: int | None = None
    log_end: int | None = None
    has_history: bool = False
    pipeline: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user chose where more than one answer keeps the promise."""

    on_gap: Literal["halt", "record"] = "halt"
    on_rewind: Literal["halt", "skip"] = "halt"


class StepKind(StrEnum):
    """What is done with a step's range."""

    WRITE = "write"
    REINSERT = "re-insert"
    SETTLE = "settle"
    RECORD_GAP = "record gap"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a decision.  ``fresh`` on a write starts a new incarnation of the topic-partition."""

    kind: StepKind
    range: OffsetRange
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Steps in order, then, when ``halt`` is set, stop: ``because`` names the guard or cell that decided."""

    because: str
    steps: tuple[Step, ...] = ()
    halt: Halt | None = None
    detail: str = field(default="", compare=False)


def decide(record: StateRecord | None, planned: OffsetRange, facts: Facts, policy: Policy) -> Decision:
    """Compare the planned range with the record.  Pure and total; the guards are asked in the table's order."""
    if record is not None and record.phase is Phase.EMPTY:
        record = NO_RECORD
    for guard in (_topic_recreated, _topic_id_known_unknown, _log_shrank, _empty, _state_lost):
        decision = guard(record, planned, facts)
        if decision is not None:
            return decision
    if record is None:
        return Decision("NEW/NO_RECORD", (Step(StepKind.WRITE, planned, fresh=True),))
    return _beside_record(record, planned, facts, policy)


def settle(record: StateRecord, facts: Facts) -> Decision:
    """How an in-doubt range is settled when no batch is at hand: by an exact read, or not at all."""
    assert record.in_doubt, record
    if record.topic_id != facts.topic_id:
        known = record.topic_id is not None and facts.topic_id is not None
        halt = Halt.IN_DOUBT_LOST if known else Halt.TOPIC_ID_KNOWN_UNKNOWN
        return Decision("SETTLE", halt=halt, detail=f"the range {record.range} belongs to topic id {record.topic_id}")
    blocked = _log_shrank(record, record.range, facts) or _cannot_reproduce(record, facts) or _kafka_lost(record, facts)
    return blocked or Decision("SETTLE", (Step(StepKind.SETTLE, record.range),))


def _topic_recreated(record: StateRecord | None, planned: OffsetRange, facts: Facts) -> Decision | None:
    if record is None or record.topic_id is None or facts.topic_id in (None, record.topic_id):
        return None
    name = "TOPIC_RECREATED"
    if record.in_doubt:
        detail = f"the in-doubt range {record.range} belongs to the deleted topic id {record.topic_id}"
        return Decision(name, halt=Halt.IN_DOUBT_LOST, detail=detail)
    if planned.is_empty:
        return Decision(name)
    if planned.start == 0 and (facts.log_end is None or planned.end <= facts.log_end):
        return Decision(name, (Step(StepKind.WRITE, planned, fresh=True),))
    detail = f"recorded topic id {record.topic_id}, now {facts.topic_id} up to {facts.log_end}, planned {planned}"
    return Decision(name, halt=Halt.TOPIC_RECREATED, detail=detail)


def _topic_id_known_unknown(record: StateRecord | None, planned: OffsetRange, facts: Facts) -> Decision | None:
    if record is None or (record.topic_id is None) == (facts.topic_id is None):
        return None
    detail = f"recorded topic id {record.topic_id}, now {facts.topic_id}"
    return Decision("TOPIC_ID_KNOWN_UNKNOWN", halt=Halt.TOPIC_ID_KNOWN_UNKNOWN, detail=detail)


def _log_shrank(record: StateRecord | None, planned: OffsetRange, facts: Facts) -> Decision | None:
    if record is None or facts.log_end is None or facts.log_end >= record.end:
        return None
    detail = f"Kafka's log ends at {facts.log_end}, the recorded range is {record.range}"
    return Decision("LOG_SHRANK", halt=Halt.LOG_SHRANK, detail=detail)


def _empty(record: StateRecord | None, planned: OffsetRange, facts: Facts) -> Decision | None:
    if not planned.is_empty:
        return None
    if record is not None and record.in_doubt:
        return replace(settle(record, facts), because="EMPTY")
    return Decision("EMPTY")


def _state_lost(record: StateRecord | None, planned: OffsetRange, facts: Facts) -> Decision | None:
    if record is not None or not facts.has_history:
        return None
    detail = f"the checkpoint has finished batches before {planned}, but no state is recorded"
    return Decision("STATE_LOST", halt=Halt.STATE_LOST, detail=detail)


def _beside_record(record: StateRecord, planned: OffsetRange, facts: Facts, policy: Policy) -> Decision:
    """Crop, rewound, then the table's cell."""
    steps: list[Step] = []
    if planned.start < record.start:
        cropped = OffsetRange(planned.start, min(planned.end, record.start))
        rewound = planned.end <= record.start
        if not record.processed(cropped):
            detail = f"{cropped} is not all in the processed region [{record.first}, {record.start}) without gaps"
            return Decision("CROP", halt=Halt.OUTSIDE_PROCESSED, detail=detail)
        steps.append(Step(StepKind.SKIP, cropped))
        if rewound:
            return _rewound(record, planned, facts, policy)
        planned = OffsetRange(record.start, planned.end)
    relation = relate(record.range, planned)
    because = f"{relation.name}/{record.phase}"
    for action in TABLE[relation][record.phase]:
        blocked = _blocked(action, record, planned, facts, policy)
        if blocked is not None:
            return Decision(because, tuple(steps), blocked.halt, blocked.detail)
        steps.append(_step(action, record, planned))
    return Decision(because, tuple(steps))


def _rewound(record: StateRecord, planned: OffsetRange, facts: Facts, policy: Policy) -> Decision:
    settled = settle(record, facts) if record.in_doubt else Decision("")
    if settled.halt is not None:
        return replace(settled, because="REWOUND")
    if policy.on_rewind == "skip":
        return Decision("REWOUND", (*settled.steps, Step(StepKind.SKIP, planned)))
    detail = f"the plan {planned} lies wholly before the recorded range {record.range}"
    return Decision("REWOUND", settled.steps, Halt.REWOUND, detail)


def _blocked(
    action: Action, record: StateRecord, planned: OffsetRange, facts: Facts, policy: Policy
) -> Decision | None:
    """Why an action of the table cannot be taken, if so."""
    if action is Action.REINSERT:
        return _cannot_reproduce(record, facts)
    if action is Action.SETTLE:
        return _cannot_reproduce(record, facts) or _kafka_lost(record, facts)
    if action is Action.GAP and facts.log_start is not None and facts.log_start < planned.start:
        missed = OffsetRange(max(record.end, facts.log_start), planned.start)
        return Decision("", halt=Halt.GAP, detail=f"{missed} was never landed, and Kafka still holds it: read it")
    if action is Action.GAP and policy.on_gap == "halt":
        gap = OffsetRange(record.end, planned.start)
        return Decision("", halt=Halt.GAP, detail=f"Kafka no longer holds {gap}, which was never landed")
    return None


def _cannot_reproduce(record: StateRecord, facts: Facts) -> Decision | None:
    """A re-insert is deduplicated only if it is the same insert: the pipeline must be the recorded one."""
    if record.pipeline == facts.pipeline:
        return None
    changed = ", ".join(changed_parts(record.pipeline, facts.pipeline))
    detail = f"the range {record.range} is in doubt, and changed since: {changed}; now {facts.pipeline}"
    return Decision("SETTLE", halt=Halt.PIPELINE_CHANGED, detail=detail)


def changed_parts(recorded: str, now: str) -> list[str]:
    """The names of the ``name=digest`` parts in which two fingerprints differ."""
    then_by, now_by = (dict(part.partition("=")[::2] for part in text.split(",")) for text in (recorded, now))
    return [name for name in {**then_by, **now_by} if then_by.get(name) != now_by.get(name)]


def _kafka_lost(record: StateRecord, facts: Facts) -> Decision | None:
    if facts.log_start is None or facts.log_start <= record.start:
        return None
    detail = f"Kafka's log starts at {facts.log_start}, the in-doubt range is {record.range}"
    return Decision("SETTLE", halt=Halt.IN_DOUBT_LOST, detail=detail)


def _step(action: Action, record: StateRecord, planned: OffsetRange) -> Step:
    match action:
        case Action.WRITE:
            return Step(StepKind.WRITE, planned)
        case Action.WRITE_TAIL:
            return Step(StepKind.WRITE, OffsetRange(record.end, planned.end))
        case Action.SKIP:
            return Step(StepKind.SKIP, planned)
        case Action.SKIP_HEAD:
            return Step(StepKind.SKIP, OffsetRange(planned.start, record.end))
        case Action.REINSERT:
            return Step(StepKind.REINSERT, record.range)
        case Action.SETTLE:
            return Step(StepKind.SETTLE, record.range)
        case Action.GAP:
            return Step(StepKind.RECORD_GAP, OffsetRange(record.end, planned.start))
