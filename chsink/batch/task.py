"""One task on an executor: its input cut into chunks, each chunk landed, one acknowledgement.

Rules:
- Reading (and Kafka, and the JVM behind it) goes on while one chunk is being landed, never more: memory is two chunks,
  whatever the batch.
- Errors that chsink knows are reported in the acknowledgement, not raised: Spark would only repeat a hopeless task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Protocol

import pyarrow as pa

from chsink import failpoints
from chsink.batch.model import Ack, ChunkAck
from chsink.batch.reader import Chunk, ReadPlan, TaskReader
from chsink.errors import ChsinkError


class LandChunks(Protocol):
    """Lands complete chunks, empty ones too, one after the other."""

    def __call__(self, chunk: Chunk) -> ChunkAck:
        """Land this one."""

    def finish(self) -> None:
        """All chunks of the task were landed.  What can be asked of all of them at once is asked now."""


def one_thread() -> Executor:
    """What lands chunks in production: one thread next to the one that reads."""
    return ThreadPoolExecutor(1, thread_name_prefix="chsink-land")


def run_task(
    task: int,
    batches: Iterable[pa.RecordBatch],
    plan: ReadPlan,
    land: LandChunks,
    executor: Callable[[], Executor] = one_thread,
) -> Ack:
    """Hand the chunks of the one topic-partition that ``batches`` hold to ``land``, if a span of it is assigned.

    ``executor`` lands one chunk while the next is read: one thing at a time.
    """
    reader = TaskReader(plan)
    acks: list[ChunkAck] = []
    error: ChsinkError | None = None
    try:
        for ack in _overlapped(reader.chunks(batches), land, executor):
            acks.append(ack)  # noqa: PERF402 - the acks of chunks before an error are kept
        land.finish()
    except ChsinkError as known:
        error = known
    failpoints.reach("task.after_chunks")
    tp = reader.topic_partition
    return Ack(
        task,
        None if tp is None else tp.topic,
        None if tp is None else tp.partition,
        tuple(acks),
        None if error is None else (error.name, error.params),
    )


def _overlapped(chunks: Iterator[Chunk], land: LandChunks, executor: Callable[[], Executor]) -> Iterator[ChunkAck]:
    """Land each chunk on one worker while the next one is read; acks in order.

    The read-ahead error of chunk k+1 is raised only after the ack of chunk k.
    """
    with executor() as pool:
        under_way: Future[ChunkAck] | None = None
        try:
            for item in chunks:
                if under_way is not None:
                    yield under_way.result()
                under_way = pool.submit(land, item)
        finally:
            if under_way is not None:
                yield under_way.result()
