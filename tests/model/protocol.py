"""The production functions as the model calls them: records and tokens become numbers, answers are remembered.

``Rules`` holds what is called.  A control replaces one of its functions, or names a rule to be skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from chsink.clickhouse.dedup_mark import why_forgotten
from chsink.clickhouse.table import TargetTable
from chsink.statemachine import table as protocol
from chsink.statemachine import writes
from chsink.statemachine.chunks import chunk, chunk_count
from chsink.statemachine.parts import Mark, Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.table import Decision, Facts, Policy, Step, StepKind, Worklist
from chsink.statemachine.tokens import piece_token
from tests.model.space import Range, mask

KEY = StateKey("sink", "topic", 0, "db.t")
ATTEMPT = "written"
"""Attempts are kept beside the record: a record's body is the same whoever wrote it."""
BOOT_S = 100
"""Servers are not started twice within a second."""
UNKNOWN_ID = NOT_ASKED = -1
T = TypeVar("T")

TokenOf = Callable[[StateRecord, OffsetRange, int, int], str]
RowsOf = Callable[[StateRecord, int, int], int]


def recorded_token(record: StateRecord, planned: OffsetRange, index: int, shard: int) -> str:
    """The production token: of the recorded range, whatever the batch at hand."""
    return piece_token(KEY, record, index, shard)


def rows_by_offset(record: StateRecord, index: int, visible: int) -> int:
    """The production chunk: by offset, whatever is left of its records."""
    part = chunk(record.range, record.sent.chunk_offsets, index)
    return visible & mask(part.start, part.end)


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides.  ``skip`` names rules of the driver or its tasks that a control leaves out."""

    decide: Callable[[StateRecord | None, OffsetRange, Facts, Policy], Decision] = protocol.decide
    settle: Callable[[StateRecord, Facts], Decision] = protocol.settle
    before: Callable[..., StateRecord] = writes.before
    token: TokenOf = recorded_token
    rows: RowsOf = rows_by_offset
    skip: frozenset[str] = frozenset()


class Verdict(NamedTuple):
    """A decision, as the driver works it off."""

    because: str
    cropped: bool
    reinsert: bool
    gap: Range | None
    write: Range | None
    fresh: bool
    halt: str


@dataclass(slots=True)
class Protocol:
    """Numbers for records and tokens, and every answer kept."""

    rules: Rules
    chunk_offsets: int
    table: TargetTable
    on_gap: Literal["halt", "record"]
    on_rewind: Literal["halt", "skip"]
    records: list[StateRecord | None] = field(default_factory=lambda: [None])
    _numbers: dict[StateRecord, int] = field(default_factory=dict)
    _tokens: dict[str, int] = field(default_factory=dict)
    _answers: dict[Any, Any] = field(default_factory=dict)

    def record(self, number: int) -> StateRecord:
        """The record of this number."""
        found = self.records[number]
        assert found is not None
        return found

    def _number(self, record: StateRecord) -> int:
        if record not in self._numbers:
            self._numbers[record] = len(self.records)
            self.records.append(record)
        return self._numbers[record]

    def _remember(self, asked: Any, make: Callable[[], T]) -> T:
        answers = self._answers
        if asked not in answers:
            answers[asked] = make()
        found: T = answers[asked]
        return found

    # --- new records ----------------------------------------------------------------------------------------------

    def empty(self, epoch: int) -> int:
        """A row that announces nothing."""
        return self._remember(("empty", epoch), lambda: self._number(writes.empty(epoch, ATTEMPT)))

    def adopt(self, number: int, epoch: int) -> int:
        """The record under a new owner."""
        make = partial(writes.adopt, epoch=epoch, attempt=ATTEMPT)
        return self._remember(("adopt", number, epoch), lambda: self._number(make(self.record(number))))

    def after(self, number: int, epoch: int) -> int:
        """All landed."""
        make = partial(writes.after, epoch=epoch, attempt=ATTEMPT)
        return self._remember(("after", number, epoch), lambda: self._number(make(self.record(number))))

    def before(
        self, number: int, asked: Range, serial: int, layout: int, pipeline: int, now: int, marks: tuple[Range, ...],
        epoch: int, *, fresh: bool, gap: Range | None, writer: int,
    ) -> int:  # fmt: skip
        """BEFORE of ``asked``; ``marks`` are (blocks, starts of the server) by shard.  ``writer`` is the driver: it begins
        no two incarnations of one topic.
        """

        def make() -> int:
            said = writes.Announcement(
                topic_id(serial), Sending(self.chunk_offsets, str(layout), f"p{pipeline}"), Seen(now, _marks(marks))
            )
            old = self.record(number)
            new = self.rules.before(
                old,
                OffsetRange(*asked),
                said,
                epoch=epoch,
                attempt=f"{writer} {topic_id(serial)}",
                fresh=fresh,
                gap=None if gap is None else OffsetRange(*gap),
            )
            return self._number(replace(new, attempt=ATTEMPT))

        told = ("before", number, asked, serial, layout, pipeline, now, marks, epoch, fresh, gap, writer)
        return self._remember(told, make)

    def renew(self, number: int, now: int, marks: tuple[Range, ...], epoch: int) -> int:
        """The in-doubt range announced again, to be probed; ``marks``: what the target holds now."""

        def make() -> int:
            old = self.record(number)
            return self._number(writes.renew(old, Seen(now, _marks(marks)), epoch=epoch, attempt=ATTEMPT))

        return self._remember(("renew", number, now, marks, epoch), make)

    # --- decisions ------------------------------------------------------------------------------------------------

    def decide(
        self, number: int, planned: Range, facts: tuple[int, int, int], pipeline: int, *, history: bool
    ) -> Verdict:
        """See :func:`chsink.statemachine.table.decide`."""

        def make() -> Verdict:
            record, asked = self.records[number], OffsetRange(*planned)
            policy = Policy(self.on_gap, self.on_rewind)
            return _verdict(asked, self.rules.decide(record, asked, _facts(facts, pipeline, history=history), policy))

        return self._remember(("decide", number, planned, facts, pipeline, history), make)

    def settle(self, number: int, facts: tuple[int, int, int], pipeline: int) -> tuple[str, str]:
        """Which cell decided, and why the range in doubt cannot be settled by an exact read, "" when it can."""

        def make() -> tuple[str, str]:
            decided = self.rules.settle(self.record(number), _facts(facts, pipeline, history=False))
            return decided.because, "" if decided.halt is None else decided.halt.value

        return self._remember(("settle", number, facts, pipeline), make)

    # --- pieces ---------------------------------------------------------------------------------------------------

    def chunk_count(self, number: int) -> int:
        """How many chunks the record's range has."""
        record = self.record(number)
        return chunk_count(record.range, record.sent.chunk_offsets)

    def token(self, number: int, planned: Range, index: int, shard: int) -> int:
        """The number of the piece's token."""

        def make() -> int:
            text = self.rules.token(self.record(number), OffsetRange(*planned), index, shard)
            return self._tokens.setdefault(text, len(self._tokens))

        return self._remember(("token", number, planned, index, shard), make)

    def rows(self, number: int, index: int, visible: int) -> int:
        """What a reader that gets ``visible`` puts into the chunk."""
        return self._remember(
            ("rows", number, index, visible), lambda: self.rules.rows(self.record(number), index, visible)
        )

    def forgotten(self, number: int, now: tuple[Range, ...]) -> bool:
        """Whether any shard may have forgotten tokens of the range, by count or by a restart: production's answer."""
        if len(self.record(number).seen.marks) != len(now):
            return True
        return any(self.forgotten_on(number, shard, seen) for shard, seen in enumerate(now))

    def forgotten_on(self, number: int, shard: int, now: Range) -> bool:
        """The same for one shard, as a task asks before it sends."""

        def make() -> bool:
            then = self.record(number).seen.marks[shard]
            return why_forgotten(self.table, then, _marks((now,))[0]) is not None

        return self._remember(("forgotten", number, shard, now), make)


def topic_id(serial: int) -> str | None:
    """The id of that life of the topic, None where brokers tell none."""
    return None if serial == UNKNOWN_ID else f"id{serial}"


def serial_of(topic: str | None) -> int:
    """The inverse of :func:`topic_id`."""
    return UNKNOWN_ID if topic is None else int(topic.removeprefix("id"))


def _marks(marks: tuple[Range, ...]) -> tuple[Mark, ...]:
    return tuple(Mark(blocks, started * BOOT_S) for blocks, started in marks)


def _facts(facts: tuple[int, int, int], pipeline: int, *, history: bool) -> Facts:
    serial, start, end = facts
    first, last = (None if asked == NOT_ASKED else asked for asked in (start, end))
    return Facts(topic_id(serial), first, last, history, f"p{pipeline}")


def _verdict(planned: OffsetRange, decision: Decision) -> Verdict:
    """The steps, taken in the driver's order; all of them, unless the model is wrong about that order."""
    tp = KEY.topic_partition
    todo = Worklist({tp: decision})

    def take(kind: StepKind) -> Step | None:
        return todo.take(kind).get(tp)

    below, settling, reinsert = take(StepKind.SKIP), take(StepKind.SETTLE), take(StepKind.REINSERT)
    assert settling is None or reinsert is None, decision
    take(StepKind.SKIP)
    gap, writing = take(StepKind.RECORD_GAP), take(StepKind.WRITE)
    todo.check_done()
    return Verdict(
        decision.because,
        below is not None and below.range.end < planned.end and len(decision.steps) > 1,
        reinsert is not None,
        None if gap is None else (gap.range.start, gap.range.end),
        None if writing is None else (writing.range.start, writing.range.end),
        writing is not None and writing.fresh,
        "" if decision.halt is None else decision.halt.value,
    )
