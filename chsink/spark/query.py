"""The running query behind a ``foreachBatch`` call: its checkpoint and its plan, and how it ends between two batches.

Spark passes the function only the batch id.  The query's id is in the thread's local properties, and the query itself
is in the session that started it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chsink.errors import stream
from chsink.observe.observer import SparksCommit
from chsink.spark.java import JavaObject
from chsink.spark.stream_plan import StreamPlan, inspect
from chsink.stop import POLL_S, StopSignal


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A streaming query seen from inside one of its batches."""

    query_id: str
    run_id: str
    checkpoint: str
    execution: JavaObject

    def stream(self, spark: SparkSession) -> StreamPlan:
        """The checked plan of the query's stream."""
        return inspect(spark, self.execution.analyzedPlan())

    def commit_of(self, batch_id: int) -> SparksCommit | None:
        """From the newest progress of the query that Spark keeps."""
        for progress in reversed(self.execution.recentProgress()):
            if progress.batchId() == batch_id and (took_ms := progress.durationMs().get("commitOffsets")) is not None:
                began = datetime.fromisoformat(progress.timestamp())
                ended_ms = int(began.timestamp() * 1000) + progress.durationMs().get("triggerExecution")
                return SparksCommit(ended_ms, took_ms)
        return None


def check_whole(frame: DataFrame) -> None:
    """ConfigError CHS-613 if the batch was transformed on its way here: an exact read would not repeat that."""
    if frame._jdf.queryExecution().analyzed().children().size():
        raise stream.BATCH_TRANSFORMED()


def current_query(frame: DataFrame) -> RunningQuery:
    """The query that runs this batch.  ConfigError CHS-608 if there is none, because its ranges are then unknown."""
    query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
    spark = SparkSession.getActiveSession()
    for session in (spark, frame.sparkSession):
        query = session.streams.get(query_id) if query_id and session else None
        if query is not None:
            execution: JavaObject = query._jsq.streamingQuery()
            return RunningQuery(query_id, str(execution.runId()), str(execution.resolvedCheckpointRoot()), execution)
    raise stream.RANGES_UNKNOWN()


def end_between_batches(
    query: StreamingQuery,
    end_after_batch: Callable[[float], bool],
    stop: StopSignal,
    log: structlog.typing.FilteringBoundLogger,
) -> None:
    """Stop a query after its current batch.  A further signal interrupts the batch, which the next start takes up."""
    asked = stop.times
    while not end_after_batch(POLL_S):
        if stop.times > asked:
            log.warning("stopping at once: the next start settles the current batch")
            break
    query.stop()
