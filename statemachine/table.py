"""The decision table: this file alone decides what is done with the planned offsets of a topic-partition.

For each topic-partition of a batch, the planned range ``[a, b)`` meets the stored record: its last range ``[s, e)`` and
its phase, AFTER (all of it landed) or BEFORE (announced, may or may not have landed: *in doubt*).  ``decide`` asks the
rows of ``TABLE`` from top to bottom.  The first row whose condition holds, and which has a cell for the phase, decides:
its cell lists the moves, the steps to take in order.  A row without a cell for a phase is not asked in that phase.

Three ideas carry it:

- A range in doubt is settled by sending *exactly that range* again: same offsets, same chunks, same tokens.
  ClickHouse keeps one copy, whether the first try landed, partly landed or never left.
- One record has one slot, so settling is finished (AFTER) before BEFORE of newer data is written.
- A fact may forbid a move (Kafka no longer holds the range, the pipeline changed).  Then the steps before it are taken,
  and the partition halts: a person decides.

A *re-insert* takes its rows from the batch at hand, which covers ``[s, e)`` from its start; a *settle* reads exactly
``[s, e)`` from Kafka, because the batch does not hold all of it.  Nothing here knows how either is done.  ``Worklist``
hands out the steps of a batch; its caller can neither skip a step nor take one early.

Other files never decide on a step.  They only stop one, because of something that this file is not told:

- ``driver/recheck.py``: at the start and before and after a range is read, whether Kafka's topic is the same one, and
  still holds the records;
- ``driver/driver.py``: the table of a range in doubt has no route any more, or its shard layout is not stored;
- ``driver/take_up.py``: sent again, a range would lose or gain dead letters or columns;
- ``batch/confirm.py``: the acknowledgements do not cover a range, or views may not hold it;
- ``clickhouse/window.py``, ``clickhouse/kept.py``: a table may have forgotten the tokens, so rows are looked for before
  they are sent again and after; whether somebody deleted, moved or added some;
- ``driver/lanes.py``: two tables of one topic, each decided here by itself, would both take a record, or neither would.

``choices.py`` says where a table that ``table_by`` names for the first time begins.

The mirror has decision tables of its own, in ``commit/``.  The table in ``docs/how-a-batch-survives.md`` is
generated from this file by :mod:`render`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from .ranges import OffsetRange, TopicPartition
from .records import Phase, StateRecord

# --- what goes in ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about one topic-partition when its batch is decided.

    ``topic_id`` is None where the broker gives none.  ``log_start`` and ``log_end`` are Kafka's, None when not asked.
    ``has_history`` says that the checkpoint holds finished batches with records of this partition.  ``pipeline`` is
    the fingerprint that an insert made now would carry.  ``others`` are the records of the topic's other tables here,
    None where there is none.
    """

    topic_id: str | None
    log_start: int | None = None
    log_end: int | None = None
    has_history: bool = False
    pipeline: str = ""
    others: tuple[StateRecord | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user chose where more than one answer keeps the promise."""

    on_gap: Literal["halt", "record"] = "halt"
    on_rewind: Literal["halt", "skip"] = "halt"
    in_doubt: Literal["halt", "dead_letter"] = "halt"


@dataclass(frozen=True, slots=True)
class Situation:
    """One topic-partition as a row sees it.  Rows with a cell under *no record* may not ask for ``r``."""

    record: StateRecord | None
    planned: OffsetRange
    facts: Facts
    policy: Policy

    @property
    def phase(self) -> Phase | None:
        """The column of the table."""
        return NO_RECORD if self.record is None else self.record.phase

    @property
    def r(self) -> StateRecord:
        """The record, where there is one."""
        assert self.record is not None
        return self.record

    @property
    def s(self) -> int:
        return self.r.start

    @property
    def e(self) -> int:
        return self.r.end

    @property
    def a(self) -> int:
        return self.planned.start

    @property
    def b(self) -> int:
        return self.planned.end

    @property
    def below(self) -> OffsetRange:
        """What of the plan lies below the recorded range."""
        return OffsetRange(self.a, min(self.b, self.s))

    @property
    def read_for(self) -> list[StateRecord | None]:
        """Other tables that may still need this plan: they have nothing beyond it.  None is one that has nothing."""
        here = (None if o is None or o.is_of_another(self.facts.topic_id) else o for o in self.facts.others)
        return [o for o in here if o is None or o.phase is Phase.EMPTY or o.end <= self.b]

    @property
    def passed_over(self) -> list[OffsetRange]:
        """What of ``below`` this table lacks, and no other one has or takes from the plan."""
        log_start = self.facts.log_start or 0
        lacking = self.r.lacks(self.below, log_start)
        for other in self.read_for:
            lacking = [] if other is None else [part for r in lacking for part in other.lacks(r, log_start)]
        return lacking

    @property
    def gap(self) -> OffsetRange:
        """What the plan passes over."""
        return OffsetRange(self.e, self.a)

    @property
    def missed(self) -> OffsetRange:
        """What of the gap Kafka still holds."""
        return OffsetRange(max(self.e, self.facts.log_start or 0), self.a)

    @property
    def id_differs(self) -> bool:
        """Two ids that are known, and not the same."""
        return self.r.is_of_another(self.facts.topic_id)

    @property
    def up_to(self) -> str:
        return "" if self.facts.log_end is None else f" up to {self.facts.log_end}"

    @property
    def changed(self) -> str:
        """The parts in which the present pipeline differs from the recorded one, if it must not."""
        return ", ".join(forbidden_changes(self.r.sent.pipeline, self.facts.pipeline))


DEAD_LETTERS = "dead_letters"
"""The part of a fingerprint that says where dead letters go; it has none where there are none."""
TABLE_BY = "table_by"
"""The part that says which records of a topic are the table's; there is none where all are."""
FATES = ("on_bad_value", "on_tombstone")
"""The parts beside it: what becomes of a record without a row."""


def choice_of(pipeline: str) -> str:
    """By what the table takes its records, "" where it takes all."""
    return parts_of(pipeline).get(TABLE_BY, "")


ADDED = "added_columns"
"""The part that lists, by digests, the columns that chunks of a range may fill beyond those it was announced with."""


def gains_columns(recorded: str, now: str) -> bool:
    """Whether chunks of the range may fill columns only now.  See ``forbidden_changes``."""
    return ADDED in changed_parts(recorded, now)


def fates_change(recorded: str, now: str) -> bool:
    """Whether records without a row now have other fates, with dead letters among them.  See ``forbidden_changes``."""
    return has_dead_letters(now) and not {DEAD_LETTERS, *FATES}.isdisjoint(changed_parts(recorded, now))


def has_dead_letters(pipeline: str) -> bool:
    """Whether records become dead letters under this fingerprint."""
    return DEAD_LETTERS in parts_of(pipeline)


def forbidden_changes(recorded: str, now: str) -> list[str]:
    """The parts that differ and must not, while a range is in doubt.

    A range that a person had sent again, or that was rebuilt from its rows, names no pipeline where its table takes all
    records: nothing of it is there, or its pieces are looked for, whatever makes them.  But it has to be sent whole:
    under a choice that came since, the other tables begin behind the range, and would lack its records.

    Where there were no dead letters, no sender of the range delivered any.  Where a kind of record halted, no chunk
    that holds one was sent.  A chunk that fills a column was not sent before the range was announced with it.
    """
    if not recorded:
        return [TABLE_BY] if choice_of(now) else []
    were, are = parts_of(recorded), parts_of(now)
    free = {ADDED} if _listed(were) <= _listed(are) else set()
    if has_dead_letters(recorded) and has_dead_letters(now):
        free |= {name for name in FATES if were.get(name) == "halt"}
    elif has_dead_letters(now):
        free |= {DEAD_LETTERS, *FATES}
    return [name for name in changed_parts(recorded, now) if name not in free]


def changed_parts(recorded: str, now: str) -> list[str]:
    """The names of the ``name=digest`` parts in which two fingerprints differ."""
    then_by, now_by = parts_of(recorded), parts_of(now)
    return [name for name in {**then_by, **now_by} if then_by.get(name) != now_by.get(name)]


def _listed(parts: Mapping[str, str]) -> set[str]:
    return set(filter(None, parts.get(ADDED, "").split(":")))


def parts_of(pipeline: str) -> dict[str, str]:
    """A fingerprint's parts: name → digest."""
    return dict(part.partition("=")[::2] for part in pipeline.split(","))


# --- what comes out --------------------------------------------------------------------------------------------------


class Halt(StrEnum):
    """Why a person has to decide.  The error catalogue has an entry of the same name; the value is its id."""

    LOG_SHRANK = "CHS-301"
    STATE_LOST = "CHS-302"
    TOPIC_RECREATED = "CHS-303"
    TOPIC_ID_KNOWN_UNKNOWN = "CHS-304"
    OUTSIDE_PROCESSED = "CHS-305"
    REWOUND = "CHS-306"
    GAP = "CHS-307"
    IN_DOUBT_LOST = "CHS-308"
    PIPELINE_CHANGED = "CHS-309"


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
    """Steps in order, then, when ``halt`` is set, stop.  ``because`` names the cell that decided: ``ROW/PHASE``."""

    because: str
    steps: tuple[Step, ...] = ()
    halt: Halt | None = None
    detail: str = field(default="", compare=False)


# --- moves: what a cell is made of -----------------------------------------------------------------------------------

_Condition = Callable[[Situation], bool]


@dataclass(frozen=True, slots=True)
class Stop:
    """A halt.  ``detail`` is a template over the situation ``x``: offsets and ids that explain it."""

    halt: Halt
    detail: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A fact that turns a move into a halt; ``when`` says ``holds`` in words."""

    when: str
    holds: _Condition
    stop: Stop


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do with a range; ``words`` are how the docs say it."""

    words: str
    kind: StepKind
    range_of: Callable[[Situation], OffsetRange]
    refusals: tuple[Refusal, ...] = ()
    fresh: bool = False


_CHANGED = Refusal(
    "the pipeline is not the recorded one",
    lambda x: bool(x.changed),  # only the same insert is deduplicated
    Stop(
        Halt.PIPELINE_CHANGED,
        "the range {x.r.range} is in doubt, and changed since: {x.changed}; now {x.facts.pipeline}",
    ),
)
_EXPIRED = Refusal(
    'Kafka\'s log start > s, nobody gave up what expired, and `in_doubt = "halt"`',
    lambda x: (
        x.facts.log_start is not None
        and x.facts.log_start > x.s
        and not x.r.doubt.expired
        and x.policy.in_doubt == "halt"
    ),
    Stop(Halt.IN_DOUBT_LOST, "Kafka's log starts at {x.facts.log_start}, the range in doubt is {x.r.range}"),
)
_STILL_HELD = Refusal(
    "Kafka's log start < a",
    lambda x: x.facts.log_start is not None and x.facts.log_start < x.a,
    Stop(Halt.GAP, "{x.missed} was never landed, and Kafka still holds it: read it"),
)
_NOT_ACCEPTED = Refusal(
    '`on_gap = "halt"`',
    lambda x: x.policy.on_gap == "halt",
    Stop(Halt.GAP, "Kafka no longer holds {x.gap}, which was never landed"),
)

WRITE = Action("write [a,b)", StepKind.WRITE, lambda x: x.planned)
WRITE_FIRST = Action("write [a,b) as the first range", StepKind.WRITE, lambda x: x.planned, fresh=True)
WRITE_TAIL = Action("write [e,b)", StepKind.WRITE, lambda x: OffsetRange(x.e, x.b))
SKIP = Action("skip [a,b)", StepKind.SKIP, lambda x: x.planned)
SKIP_HEAD = Action("skip [a,e)", StepKind.SKIP, lambda x: OffsetRange(x.a, x.e))
SKIP_BELOW = Action("skip [a,s)", StepKind.SKIP, lambda x: x.below)
REINSERT = Action("re-insert [s,e) from the batch", StepKind.REINSERT, lambda x: x.r.range, (_CHANGED, _EXPIRED))
SETTLE = Action("settle [s,e) by exact read", StepKind.SETTLE, lambda x: x.r.range, (_CHANGED, _EXPIRED))
RECORD_GAP = Action("record the gap [e,a)", StepKind.RECORD_GAP, lambda x: x.gap, (_STILL_HELD, _NOT_ACCEPTED))

ACTIONS = (WRITE, WRITE_FIRST, WRITE_TAIL, SKIP, SKIP_HEAD, SKIP_BELOW, REINSERT, SETTLE, RECORD_GAP)

_OTHER_LIFE = Stop(
    Halt.IN_DOUBT_LOST, "the range in doubt {x.r.range} belongs to the deleted topic id {x.r.life.topic_id}"
)
_RECREATED = Stop(
    Halt.TOPIC_RECREATED,
    "recorded topic id {x.r.life.topic_id}, now {x.facts.topic_id}{x.up_to}, planned {x.planned}",
)
_ID_UNKNOWN = Stop(Halt.TOPIC_ID_KNOWN_UNKNOWN, "recorded topic id {x.r.life.topic_id}, now {x.facts.topic_id}")
_SHRANK = Stop(Halt.LOG_SHRANK, "Kafka's log ends at {x.facts.log_end}, the recorded range is {x.r.range}")
_STATELESS = Stop(Halt.STATE_LOST, "the next batch is planned from {x.a}")
_OUTSIDE = Stop(
    Halt.OUTSIDE_PROCESSED, "part of {x.below} is outside the processed region [{x.r.life.first}, {x.s}) or in a gap"
)
_BACK = Stop(Halt.REWOUND, "the plan {x.planned} lies wholly before the recorded range {x.r.range}")

# --- the table -------------------------------------------------------------------------------------------------------

NO_RECORD: None = None
"""The column where nothing is recorded, or an EMPTY row, which is inert."""
AFTER, BEFORE = Phase.AFTER, Phase.BEFORE

Move = Action | Stop
Cell = tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """``when`` says ``holds`` in words.  After the cell of a row that ``crops``, the rows below it see ``[s, b)``."""

    name: str
    when: str
    holds: _Condition
    cells: Mapping[Phase | None, Cell]
    crops: bool = False


TABLE: tuple[Row, ...] = (
    # The id tells a recreated topic from a log that shrank, so ids are compared first.
    Row(
        "TOPIC_RECREATED_IDLE",
        "topic id differs, `a = b`",
        lambda x: x.id_differs and x.planned.is_empty,
        {AFTER: (), BEFORE: (_OTHER_LIFE,)},
    ),
    Row(
        "TOPIC_RECREATED_FROM_ZERO",
        "topic id differs, `a = 0`, `b <=` Kafka's log end",
        lambda x: x.id_differs and x.a == 0 and (x.facts.log_end is None or x.b <= x.facts.log_end),
        {AFTER: (WRITE_FIRST,), BEFORE: (_OTHER_LIFE,)},
    ),
    Row(
        "TOPIC_RECREATED",
        "topic id differs, otherwise",
        lambda x: x.id_differs,
        {AFTER: (_RECREATED,), BEFORE: (_OTHER_LIFE,)},
    ),
    Row(
        "TOPIC_ID_LOST",
        "topic id recorded, and unknown now",
        lambda x: x.r.life.topic_id is not None and x.facts.topic_id is None,
        {AFTER: (_ID_UNKNOWN,), BEFORE: (_ID_UNKNOWN,)},
    ),
    # Brokers that gained topic ids: with nothing in doubt the next BEFORE records the id.
    Row(
        "TOPIC_ID_GAINED",
        "topic id known now, and not recorded",
        lambda x: x.r.life.topic_id is None and x.facts.topic_id is not None,
        {BEFORE: (_ID_UNKNOWN,)},
    ),
    Row(
        "LOG_SHRANK",
        "Kafka's log end `< e`",
        lambda x: x.facts.log_end is not None and x.facts.log_end < x.e,
        {AFTER: (_SHRANK,), BEFORE: (_SHRANK,)},
    ),
    Row("EMPTY", "`a = b`", lambda x: x.planned.is_empty, {NO_RECORD: (), AFTER: (), BEFORE: (SETTLE,)}),
    Row(
        "STATE_LOST",
        "the checkpoint has history here",
        lambda x: x.facts.has_history,
        {NO_RECORD: (_STATELESS,)},
    ),
    Row(
        "OUTSIDE_PROCESSED",
        "`a < s`, the plan reaches back to offsets that this table never processed (before `first`, or in a gap that "
        "Kafka still holds), and no other table for which it is read has them or takes them",
        lambda x: x.a < x.s and bool(x.passed_over),
        {AFTER: (_OUTSIDE,), BEFORE: (_OUTSIDE,)},
    ),
    Row(
        "REWOUND_TOLERATED",
        '`b <= s`, `on_rewind = "skip"` or read for another table',
        lambda x: x.b <= x.s and (x.policy.on_rewind == "skip" or bool(x.read_for)),
        {AFTER: (SKIP,), BEFORE: (SETTLE, SKIP)},
    ),
    Row("REWOUND", "`b <= s`", lambda x: x.b <= x.s, {AFTER: (_BACK,), BEFORE: (SETTLE, _BACK)}),
    Row(
        "CROP",
        "`a < s`; rows below see `a = s`",
        lambda x: x.a < x.s,
        {AFTER: (SKIP_BELOW,), BEFORE: (SKIP_BELOW,)},
        crops=True,
    ),
    # From here on s <= a < b: exactly one of these holds.
    Row(
        "NEW",
        "`a = e`, or no record",
        lambda x: x.record is None or x.a == x.e,
        {NO_RECORD: (WRITE_FIRST,), AFTER: (WRITE,), BEFORE: (SETTLE, WRITE)},
    ),
    Row("GAP", "`a > e`", lambda x: x.a > x.e, {AFTER: (RECORD_GAP, WRITE), BEFORE: (SETTLE, RECORD_GAP, WRITE)}),
    Row("SAME", "`a = s, b = e`", lambda x: x.planned == x.r.range, {AFTER: (SKIP,), BEFORE: (REINSERT,)}),
    Row(
        "OVERLAPPING_FROM_START",
        "`a = s, e < b`",
        lambda x: x.a == x.s and x.e < x.b,
        {AFTER: (SKIP_HEAD, WRITE_TAIL), BEFORE: (REINSERT, WRITE_TAIL)},
    ),
    Row(
        "OVERLAPPING_FROM_INSIDE",
        "`s < a < e < b`",
        lambda x: x.s < x.a < x.e < x.b,
        {AFTER: (SKIP_HEAD, WRITE_TAIL), BEFORE: (SETTLE, SKIP_HEAD, WRITE_TAIL)},
    ),
    Row(
        "CONTAINS",
        "`s <= a, b <= e`, not SAME",
        lambda x: x.r.range.covers(x.planned) and x.planned != x.r.range,
        {AFTER: (SKIP,), BEFORE: (SETTLE, SKIP)},
    ),
)


def cell_name(row: Row, phase: Phase | None) -> str:
    """How a decision names the cell that made it."""
    return f"{row.name}/{phase or 'NO_RECORD'}"


CELLS: tuple[str, ...] = tuple(cell_name(row, phase) for row in TABLE for phase in row.cells if not row.crops)
"""Every cell that can decide."""

# --- what interprets it ----------------------------------------------------------------------------------------------


def decide(record: StateRecord | None, planned: OffsetRange, facts: Facts, policy: Policy) -> Decision:
    """What to do with ``planned``.  Pure and total: every input gives steps, or a halt with its reason."""
    x = Situation(None if record is None or record.phase is Phase.EMPTY else record, planned, facts, policy)
    steps: list[Step] = []
    for row in TABLE:
        cell = row.cells.get(x.phase)
        if cell is None or not row.holds(x):
            continue
        for move in cell:
            stop = move if isinstance(move, Stop) else _refused(move, x)
            if stop is not None:
                return Decision(cell_name(row, x.phase), tuple(steps), stop.halt, stop.detail.format(x=x))
            assert isinstance(move, Action)
            steps.append(Step(move.kind, move.range_of(x), move.fresh))
        if not row.crops:
            return Decision(cell_name(row, x.phase), tuple(steps))
        x = replace(x, planned=OffsetRange(x.s, x.b))
    raise AssertionError(x)


def settle(record: StateRecord, facts: Facts, policy: Policy = Policy()) -> Decision:
    """What to do with a range in doubt when no batch is at hand: as if nothing was planned behind it."""
    assert record.in_doubt, record
    return decide(record, OffsetRange(record.end, record.end), facts, policy)


def _refused(action: Action, x: Situation) -> Stop | None:
    return next((refusal.stop for refusal in action.refusals if refusal.holds(x)), None)


class Worklist:
    """The steps of one batch, to be taken kind by kind.  Each is handed out once, and never before an earlier one."""

    def __init__(self, decisions: Mapping[TopicPartition, Decision]) -> None:
        self._left = {tp: list(decision.steps) for tp, decision in decisions.items()}

    def take(self, kind: StepKind) -> dict[TopicPartition, Step]:
        """The next step of every topic-partition whose next step is of this kind."""
        return {tp: left.pop(0) for tp, left in self._left.items() if left and left[0].kind is kind}

    def check_done(self) -> None:
        """AssertionError when a step was left out."""
        left = {str(tp): steps for tp, steps in self._left.items() if steps}
        assert not left, left
