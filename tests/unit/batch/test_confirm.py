"""Acknowledgements prove that every announced range landed, or the batch is refused."""

from __future__ import annotations

import re

import pytest

from chsink.batch.confirm import confirm
from chsink.batch.model import Ack, ChunkAck
from chsink.driver.roles import Assignment
from chsink.errors import (
    AlteredError,
    ChsinkError,
    HaltError,
    PreflightError,
    fencing,
    halts,
    preflight,
    services,
    stream,
    values,
)
from chsink.statemachine.parts import Sending, TopicLife
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord


def assigned(partition: int = 0, start: int = 10, end: int = 20) -> Assignment:
    record = StateRecord(Phase.BEFORE, 1, "a", start, end, life=TopicLife("id"), sent=Sending(4))
    return Assignment(StateKey("s", "t", partition, "db.t"), record, "", deadline_ms=0)


def ack(*chunks: tuple[int, int], partition: int | None = 0, task: int = 0) -> Ack:
    covered = tuple(ChunkAck(a, b) for a, b in chunks)
    return Ack(task, None if partition is None else "t", partition, covered)


def test_views_that_may_lack_rows_halt_once_all_else_landed() -> None:
    acks = [Ack(0, "t", 0, (ChunkAck(10, 14, unproven=("db.v",)), ChunkAck(14, 20))), ack((0, 4), partition=1)]
    halted = confirm(acks, [assigned(), assigned(1, 0, 4)])
    assert list(halted) == [T0]
    assert re.search(r"CHS-317.* t-0 \[10, 20\), but .*: db\.v", str(halted[T0]))
    acks[1] = ack((0, 2), partition=1)
    with pytest.raises(ChsinkError, match="do not cover"):
        confirm(acks, [assigned(), assigned(1, 0, 4)])


def test_what_all_tasks_say_of_altered_tables_is_kept() -> None:
    errors = [preflight.COLUMNS_MISSING(tp=f"t-{n}", table="db.t", columns="{}") for n in range(2)]
    acks = [Ack(n, "t", n, error=(e.name, e.params)) for n, e in enumerate(errors)]
    with pytest.raises(AlteredError) as raised:
        confirm(acks, [assigned(), assigned(1, 0, 4)])
    assert [part.params["tp"] for part in raised.value.parts] == ["t-0", "t-1"]


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WHOLE = [(10, 14), (14, 18), (18, 20)]
ACCEPTED: dict[str, tuple[list[Ack], list[Assignment]]] = {
    "one task, all chunks": ([ack(*WHOLE)], [assigned()]),
    "chunks in any order": ([ack(*reversed(WHOLE))], [assigned()]),
    "other partitions read along": ([ack(partition=3), ack(*WHOLE)], [assigned()]),
    "an empty range and a task that saw nothing": ([ack(partition=None)], [assigned()]),
    "nothing assigned": ([ack(partition=0), ack(partition=None)], []),
    "two ranges, two tasks": ([ack(*WHOLE), ack((0, 4), partition=1)], [assigned(), assigned(1, 0, 4)]),
}
REFUSED: dict[str, tuple[list[Ack], list[Assignment], str]] = {
    "a hole": ([ack((10, 14), (18, 20))], [assigned()], "do not cover"),
    "a missing end": ([ack((10, 14), (14, 18))], [assigned()], "do not cover"),
    "a missing start": ([ack((14, 18), (18, 20))], [assigned()], "do not cover"),
    "a chunk twice": ([ack(*WHOLE, (14, 18))], [assigned()], "do not cover"),
    "more than was announced": ([ack(*WHOLE, (20, 24))], [assigned()], "do not cover"),
    "records seen, nothing covered": ([ack()], [assigned()], "do not cover"),
    "two tasks for one partition": ([ack((10, 14)), ack((14, 20))], [assigned()], "two tasks hold records"),
    "no task at all": ([], [assigned()], "no task answered for t-0"),
    "fewer silent tasks than silent ranges": ([ack(partition=None)], [assigned(), assigned(1)], "no task answered"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    assert confirm(*ACCEPTED[name]) == {}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    acks, assignments, sentence = REFUSED[name]
    with pytest.raises(PreflightError, match=sentence) as caught:
        confirm(acks, assignments)
    assert caught.value.id == "CHS-602"


ERRORS = (
    values.BAD_VALUE(tp="t-0", first="topic 't' partition 0 offset 3: column 'n': text is not UInt8"),
    halts.PIECE_INCOMPLETE(tp="t-0", offsets="[0, 4)", shard=0, table="d.t", there=1, rows=2),
    stream.OFFSET_MISSING(tp="t-0"),
    services.KAFKA_UNAVAILABLE(bootstrap="here", reason="no answer"),
    fencing.STATE_CHANGED(key="s/t/0/d.t"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.name)
def test_the_error_of_a_task_becomes_the_drivers(error: ChsinkError) -> None:
    """Also when every chunk was acknowledged before it.  A halt keeps only its own topic-partition from AFTER, if that
    is known.
    """
    known, unknown = (
        Ack.from_json(Ack(1, topic, partition, (), (error.name, error.params)).to_json())
        for topic, partition in (("t", 1), (None, None))
    )
    with pytest.raises(type(error)) as caught:
        confirm([ack(*WHOLE), unknown], [assigned(), assigned(1)])
    assert (type(caught.value), str(caught.value)) == (type(error), str(error))
    if isinstance(error, HaltError):
        halted = confirm([ack(*WHOLE), known], [assigned(), assigned(1)])
        assert {tp: str(e) for tp, e in halted.items()} == {T1: str(error)}
    else:
        with pytest.raises(type(error)):
            confirm([ack(*WHOLE), known], [assigned(), assigned(1)])


def test_a_halt_of_a_range_that_was_not_assigned_is_raised() -> None:
    halt = Ack(0, "t", 1, (), (ERRORS[1].name, ERRORS[1].params))
    with pytest.raises(HaltError, match="CHS-314"):
        confirm([ack(*WHOLE, task=1), halt], [assigned()])


def test_a_halt_beside_another_error_is_the_one_that_is_raised() -> None:
    """Another start alone would meet it again."""
    halt, other = ERRORS[1], ERRORS[3]
    acks = [Ack(n, "t", n, (), (e.name, e.params)) for n, e in enumerate((other, halt))]
    with pytest.raises(HaltError, match="CHS-314"):
        confirm(acks, [assigned(), assigned(1)])
