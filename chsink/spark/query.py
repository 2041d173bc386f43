"""The running query behind a ``foreachBatch`` call: its checkpoint and its plan.

Spark tells the function only the batch's id.  The query's id is in the thread's local properties, and the query itself
in the session that started it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from chsink.errors import ConfigError
from chsink.spark.stream_plan import StreamPlan, inspect


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A streaming query seen from inside one of its batches."""

    query_id: str
    run_id: str
    checkpoint: str
    execution: Any

    def stream(self, spark: SparkSession) -> StreamPlan:
        """The checked plan of the query's stream."""
        return inspect(spark, self.execution.analyzedPlan())


def check_whole(frame: DataFrame) -> None:
    """ConfigError CHS-613 when something was done to the batch on its way here: an exact read would not do it again."""
    if frame._jdf.queryExecution().analyzed().children().size():
        raise ConfigError(
            "CHS-613",
            "the DataFrame is not the batch as Spark gave it: it was transformed inside the function of foreachBatch",
            "transform the stream, before writeStream: foreachBatch(sink) takes the batch as it is",
        )


def current_query(frame: DataFrame) -> RunningQuery:
    """The query that is running this batch.  ConfigError CHS-608 when there is none: the ranges are unknown then."""
    query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
    spark = SparkSession.getActiveSession()
    for session in (spark, frame.sparkSession):
        query = session.streams.get(query_id) if query_id and session else None
        if query is not None:
            execution: Any = query._jsq.streamingQuery()
            return RunningQuery(query_id, str(execution.runId()), str(execution.resolvedCheckpointRoot()), execution)
    raise ConfigError(
        "CHS-608",
        "the planned offset ranges of this DataFrame are not known: it is not a batch of a running streaming query",
        "use Sink.start(stream), or stream.writeStream.foreachBatch(sink), or pass ranges= to Sink.process",
    )
