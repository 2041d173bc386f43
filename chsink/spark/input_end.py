"""Did a task's input really end, or was it cut off?

When the Java side of a task fails or is cancelled, it closes the socket to the Python worker.  If that happens between
two Arrow batches, pyspark's reader takes that for the end.  The task would then send the half chunk that it has under
the whole chunk's token, and ClickHouse would drop the other half as a duplicate from then on.  Only after a real end
does Spark write one more word, ``END_OF_STREAM``.  So the input is complete if something follows it.

This depends on pyspark's worker (``pyspark.worker.main`` reads from ``infile``), see docs/adr/0003-spark-internals.md.
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
    """The Java side of this task failed or was cancelled.  No process waits for this task's result."""


def to_the_end(batches: Iterator[pa.RecordBatch], stream: Peekable) -> Iterator[pa.RecordBatch]:
    """The batches; raises InputCutError if the input was cut off."""
    yield from batches
    if not stream.peek(1):
        raise InputCutError("Spark closed this task's input before its end")


def worker_input() -> Peekable:
    """The stream from which this Python worker gets its input.  Called in the task's own thread."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            stream: Peekable = frame.f_locals["infile"]
            return stream
        frame = frame.f_back
    raise RuntimeError("not a Python worker of the pyspark version that chsink supports")
