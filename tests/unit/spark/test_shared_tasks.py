"""Several ranges in one task: each is landed by itself, and none is taken for ended before it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from chsink.batch.model import Ack
from chsink.errors import UnavailableError
from chsink.spark import executor
from chsink.spark.executor import PART, ExactTask, ExecutorTask, by_part
from chsink.spark.runner import _answers, _most_tasks, _of_ranges
from chsink.statemachine.ranges import OffsetRange


def batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    """Rows of (part, offset)."""
    columns = {"offset": [o for _, o in rows], PART: [p for p, _ in rows]}
    return pa.RecordBatch.from_pydict(columns, schema=pa.schema({"offset": pa.int64(), PART: pa.int32()}))


def offsets(part: Iterator[pa.RecordBatch]) -> list[int]:
    found = []
    for one in part:
        assert one.schema.names == ["offset"]
        found += one.column("offset").to_pylist()
    return found


def test_parts_end_where_the_next_one_begins_whatever_the_batches() -> None:
    batches = [batch((0, 5), (0, 6), (3, 1)), batch(), batch((3, 2)), batch((7, 0)), batch((7, 1), (8, 9))]

    assert [offsets(part) for part in by_part(batches)] == [[5, 6], [1, 2], [0, 1], [9]]
    assert not list(by_part([batch(), batch()]))


def test_what_a_part_leaves_unread_is_not_the_next_ones() -> None:
    """A range that halts stops reading; those after it go on."""
    batches = [batch((0, 1), (0, 2)), batch((0, 3), (1, 1))]

    firsts = [next(part).column("offset").to_pylist() for part in by_part(batches)]

    assert firsts == [[1, 2], [1]]


@pytest.mark.parametrize(
    ("attempt", "speculation"), [(0, "false"), (0, "true"), (0, "True"), (1, "false"), (3, "true")]
)
def test_a_task_is_told_that_there_may_be_other_attempts(
    attempt: int, speculation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ The first attempt does not learn what a speculative copy beside it has sent: a token without its rows, say."""
    context = SimpleNamespace(partitionId=lambda: 7, attemptNumber=lambda: attempt)
    monkeypatch.setattr("chsink.spark.executor.TaskContext.get", lambda: context)
    monkeypatch.setattr(executor, "worker_input", lambda: None)
    monkeypatch.setattr(executor, "to_the_end", lambda batches, _: batches)
    told = []

    def body(task: int, batches: Iterable[pa.RecordBatch], *, again: bool = False) -> Ack:
        told.append((task, len(list(batches)), again))
        return Ack(task, None, None)

    for task in (ExecutorTask(body), ExactTask(body)):
        for batches in ([batch((0, 1))], []):
            _answers(frame_of(batches, {"spark.speculation": speculation}), task)

    again = attempt > 0 or speculation != "false"
    assert told == [(7, 1, again), (7, 0, again)] * 2


def frame_of(batches: Iterable[pa.RecordBatch], settings: Mapping[str, str]) -> Any:
    """What a task is run over."""

    def run(task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], _schema: object) -> Any:
        rows = [SimpleNamespace(**row) for answer in task(iter(batches)) for row in answer.to_pylist()]
        return SimpleNamespace(collect=lambda: rows)

    return SimpleNamespace(sparkSession=SimpleNamespace(conf=settings), mapInArrow=run)


def test_an_input_that_was_cut_off_ends_no_part() -> None:
    """⚑ the last chunk of a range is sent only after its end was seen."""

    def cut() -> Iterator[pa.RecordBatch]:
        yield batch((0, 1), (1, 1))
        raise OSError("cut off")

    parts = by_part(cut())
    assert offsets(next(parts)) == [1]
    with pytest.raises(OSError, match="cut off"):
        offsets(next(parts))


def test_ranges_without_a_record_are_answered_for_by_tasks_that_ended() -> None:
    acks = [Ack(0, "t", 0), Ack(0, "t", 3), Ack(1)]

    answered = _of_ranges(acks, 2, 5)

    assert [a.topic_partition is None for a in answered] == [False, False, True, True, True]


def test_a_task_without_an_answer_is_an_error() -> None:
    with pytest.raises(UnavailableError, match="CHS-706.*1 of 2"):
        _of_ranges([Ack(0, "t", 0), Ack(0, "t", 3)], 2, 5)


@pytest.mark.parametrize(
    ("lengths", "tasks"),
    [
        ([1] * 300, 4),
        ([1] * 300 + [0] * 300, 4),
        ([65_000] + [1] * 300, 4),
        ([65_536, 1, 1, 1, 1], 5),
        ([8_192] * 300, 37),
        ([8_193] * 300, 300),
        ([], 4),
    ],
)
def test_small_ranges_share_tasks_and_large_ones_do_not(lengths: list[int], tasks: int) -> None:
    """A task costs as much as thousands of records, so hundreds of small topics are few tasks."""
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    frame: Any = SimpleNamespace(sparkSession=session)
    assert _most_tasks(frame, [OffsetRange(7, 7 + length) for length in lengths]) == tasks
