"""Acknowledgements prove that every announced range landed, or the batch is refused."""

from __future__ import annotations

import pytest

from chsink.batch.confirm import confirm
from chsink.batch.model import Ack, Assignment, ChunkAck
from chsink.errors import BadValueError, ChsinkError, FencedError, HaltError, PreflightError, UnavailableError
from statemachine.records import Phase, StateKey, StateRecord


def assigned(partition: int = 0, start: int = 10, end: int = 20) -> Assignment:
    record = StateRecord(Phase.BEFORE, 1, "a", "id", start=start, end=end, chunk_offsets=4)
    return Assignment(StateKey("s", "t", partition, "db.t"), record, "", deadline_ms=0)


def ack(*chunks: tuple[int, int], partition: int | None = 0, task: int = 0) -> Ack:
    covered = tuple(ChunkAck(a, b) for a, b in chunks)
    return Ack(task, None if partition is None else "t", partition, covered)


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
    "a hole": ([ack((10, 14), (18, 20))], [assigned()], "do not tile"),
    "a missing end": ([ack((10, 14), (14, 18))], [assigned()], "do not tile"),
    "a missing start": ([ack((14, 18), (18, 20))], [assigned()], "do not tile"),
    "a chunk twice": ([ack(*WHOLE, (14, 18))], [assigned()], "do not tile"),
    "more than was announced": ([ack(*WHOLE, (20, 24))], [assigned()], "do not tile"),
    "records seen, nothing covered": ([ack()], [assigned()], "do not tile"),
    "two tasks for one partition": ([ack((10, 14)), ack((14, 20))], [assigned()], "two tasks hold records"),
    "no task at all": ([], [assigned()], "no task answered for t-0"),
    "fewer silent tasks than silent ranges": ([ack(partition=None)], [assigned(), assigned(1)], "no task answered"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    confirm(*ACCEPTED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    acks, assignments, sentence = REFUSED[name]
    with pytest.raises(PreflightError, match=sentence) as caught:
        confirm(acks, assignments)
    assert caught.value.id == "CHS-602"


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (("CHS-501", "m", "h", 3), BadValueError),
        (("CHS-314", "m", "h", 3), HaltError),
        (("CHS-602", "m", "h", 2), PreflightError),
        (("CHS-702", "m", "h", 5), UnavailableError),
        (("CHS-401", "m", "h", 4), FencedError),
        (("CHS-999", "m", "h", 9), ChsinkError),
    ],
)
def test_the_error_of_a_task_becomes_the_drivers(error: tuple[str, str, str, int], family: type[ChsinkError]) -> None:
    """Also when every chunk was acknowledged before it."""
    with pytest.raises(family) as caught:
        confirm([ack(*WHOLE), Ack(1, "t", 1, (), error)], [assigned()])
    assert (type(caught.value), caught.value.id, caught.value.hint) == (family, error[0], "h")
