"""Did a task's input really end, or was it cut?

When the Java side of a task fails or is cancelled, it closes the socket to the Python worker.  If that happens between
two Arrow batches, pyspark's reader takes it for the end: the task would send the half of a chunk that it has under the
whole chunk's token, and the other half would be taken for a duplicate ever after.  Only after a real end does Spark
write one more word, ``END_OF_STREAM``: so the input is whole if something follows it.

This leans on pyspark's worker (``pyspark.worker.main`` reads from ``infile``), see docs/adr/0003-spark-internals.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa


class Peekable(Protocol):
    """A buffered stream."""

    def peek(self, size: int = 0, /) -> bytes:
        """What comes next, without taking it; waits for at least one byte, b"" at the end."""


class InputCutError(Exception):
    """The Java side of this task failed or was cancelled.  Nobody waits for an answer."""


def to_the_end(batches: Iterator[pa.RecordBatch], stream: Peekable) -> Iterator[pa.RecordBatch]:
    """The batches, and InputCutError instead of a false end."""
    yield from batches
    if not stream.peek(1):
        raise InputCutError("Spark ended this task's input before its end")


def worker_input() -> Peekable:
    """The stream from which this Python worker gets its input.  Called in the task's own thread."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            stream: Peekable = frame.f_locals["infile"]
            return stream
        frame = frame.f_back
    raise RuntimeError("this is no worker of the pyspark that chsink was made for")
