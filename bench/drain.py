"""One variant in a process of its own: a warm Spark session that drains a topic on command.

Started by :class:`bench.measured.Measured` with its settings as JSON; then one JSON command a line on standard input,
one JSON answer a line on standard output.  It ends when its input ends.  Only ``c``, ``m`` and ``cm`` import chsink.

A command whose job has a ``trigger`` with an interval runs until the next command, which ends it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

Answer = dict[str, Any]
PHASES = ("plan", "before", "insert", "settle", "after")
END_POLL_S = 0.1
LINES: queue.Queue[str] = queue.Queue()
"""Of the standard input."""
SPARK_COLUMNS = "id long, name string, ts timestamp, amount double, flag boolean, city string, note string"
BASELINE_CONF = {"spark.sql.adaptive.enabled": "false", "spark.sql.streaming.metricsEnabled": "false"}
"""The settings that chsink uses too, so that no variant is faster because of them."""


def main() -> None:
    """Answer commands until the input ends."""
    answers = _private_output()
    threading.Thread(target=_read, daemon=True).start()
    settings = json.loads(sys.argv[1])
    began = time.perf_counter()
    ways = {"c": _chsink, "m": _mirror, "cm": _both, "s": _iceberg}
    land = ways.get(settings["variant"], _baseline)(settings)
    _answer(answers, {"session_s": time.perf_counter() - began})
    while command := _next():
        began = time.perf_counter()
        details = land(command)
        _answer(answers, {"seconds": time.perf_counter() - began, **details})


def _chsink(settings: Answer) -> Callable[[Answer], Answer]:
    """As ``chsink run`` does it; the configuration says where things are, all else is the default."""
    from bench.counted import Sent
    from chsink import Config, Sink
    from chsink.observe.logs import configure
    from chsink.spark.session import session

    def config(command: Answer) -> Config:
        kafka = {"bootstrap": settings["bootstrap"]}
        if command.get("max_offsets"):
            kafka["max_offsets_per_trigger"] = command["max_offsets"]
        return Config.from_mapping(
            {
                "sink": {"name": command["sink"], "checkpoint": command["checkpoint"]},
                "kafka": kafka,
                "route": [{"topic": command["topic"], "table": command["table"]}],
                "clickhouse": {"endpoints": [settings["url"]]},
                "trigger": {"mode": "available_now"},
                "observe": {"progress": "never"},
                "spark": {"master": settings["master"], "conf": settings["conf"]},
                **(command.get("keep") or {}),
            }
        )

    configure("console", "info")
    sent = Sent()
    somewhere = {"sink": "none", "checkpoint": "none", "topic": "none", "table": "none"}
    spark = session(config(somewhere), settings["jars"])

    def land(command: Answer) -> Answer:
        before = sent.count
        sink = Sink(config(command))
        try:
            stream = sink.stream(spark)
            query = sink.start(stream)
            _run_out(query, command)
            value, labels = sink.metrics.registry.get_sample_value, {"sink": command["sink"]}
            phases = {name: value("chsink_phase_seconds_sum", {**labels, "phase": name}) for name in PHASES}
            counts = {name: value(f"chsink_{name}_total", labels) for name in ("inserts", "batches")}
            counts["statements"] = sent.count - before
            return {"phases": phases, **counts, "spark_ms": _durations(query), "steps_ms": _steps(query)}
        finally:
            sink.close()

    return land


def _mirror(settings: Answer) -> Callable[[Answer], Answer]:
    """As ``chsink mirror run`` does it: until all that was handed over is committed."""
    from chsink.spark.mirror import run
    from chsink.spark.session import session

    spark = session(_mirrored(settings, SOMEWHERE), settings["jars"])

    def land(command: Answer) -> Answer:
        run(_mirrored(settings, {**command, "table": "unused", "mirrored": command["table"]}), spark)
        return {}

    return land


def _both(settings: Answer) -> Callable[[Answer], Answer]:
    """As ``chsink run`` does it with a mirror.  ``seconds`` are those of ClickHouse's side, ``both_s`` of both."""
    from chsink import Sink
    from chsink.observe.metrics import MirrorMetrics
    from chsink.spark.mirror_thread import MirrorBeside
    from chsink.spark.session import session
    from chsink.stop import StopSignals

    spark = session(_mirrored(settings, SOMEWHERE), settings["jars"])

    def land(command: Answer) -> Answer:
        config = _mirrored(settings, command)
        began = time.perf_counter()
        sink = Sink(config)
        try:
            query = sink.start(sink.stream(spark))
            metrics = MirrorMetrics(command["sink"], sink.metrics.registry)
            with StopSignals() as stop, MirrorBeside(config, spark, stop, sink.log, metrics) as beside:
                query.awaitTermination()
                seconds = time.perf_counter() - began
                beside.join(last=True)
            if beside.failure is not None:
                raise beside.failure
            return {"seconds": seconds, "both_s": time.perf_counter() - began}
        finally:
            sink.close()

    return land


SOMEWHERE = {
    "sink": "none",
    "checkpoint": "none",
    "topic": "none",
    "table": "none",
    "mirrored": "a.b",
    "lake": {"name": "none", "type": "sql", "uri": "sqlite://", "warehouse": "file:///none"},
}
"""What a session does not depend on."""


def _mirrored(settings: Answer, command: Answer) -> Any:
    """The configuration of a sink with a mirror; all that it does not say is the default."""
    from chsink import Config

    return Config.from_mapping(
        {
            "sink": {"name": command["sink"], "checkpoint": command["checkpoint"]},
            "kafka": {"bootstrap": settings["bootstrap"]},
            "route": [{"topic": command["topic"], "table": command["table"]}],
            "clickhouse": {"endpoints": [settings["url"]]},
            "trigger": {"mode": "available_now"},
            "observe": {"progress": "never"},
            "spark": {"master": settings["master"], "conf": settings["conf"]},
            "mirror": {
                "enabled": True,
                "catalog": command["lake"],
                "control_topic": f"control-{command['sink']}",
                "route": [{"topic": command["topic"], "table": command["mirrored"]}],
            },
        }
    )


def _iceberg(settings: Answer) -> Callable[[Answer], Answer]:
    """Spark's own Iceberg sink behind ``from_json``, in the peer's environment; the table is made before its time."""
    builder = SparkSession.builder.master(settings["master"]).config("spark.jars", settings["jars"])
    for name, value in {**BASELINE_CONF, **settings["conf"]}.items():
        builder = builder.config(name, value)
    catalog = "spark.sql.catalog.lake"
    builder = builder.config(catalog, "org.apache.iceberg.spark.SparkCatalog").config(f"{catalog}.type", "hadoop")
    spark = builder.config(f"{catalog}.warehouse", f"file://{settings['lake']}").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def land(command: Answer) -> Answer:
        table, shape = f"lake.{command['table']}", command.get("shape") or {}
        columns, by = shape.get("columns") or SPARK_COLUMNS, shape.get("partitioned")
        partitioned = f" PARTITIONED BY ({by}) TBLPROPERTIES ('write.distribution-mode'='none')" if by else ""
        spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg{partitioned}")
        began = time.perf_counter()
        stream = _stream(spark, settings["bootstrap"], command["topic"])
        parsed = stream.select(F.from_json(F.col("value").cast("string"), columns).alias("r")).select("r.*")
        writer = parsed.writeStream.format("iceberg").outputMode("append").trigger(availableNow=True)
        writer = writer.option("fanout-enabled", str(bool(by)).lower())
        writer.option("checkpointLocation", command["checkpoint"]).toTable(table).awaitTermination()
        return {"seconds": time.perf_counter() - began}

    return land


def _baseline(settings: Answer) -> Callable[[Answer], Answer]:
    from bench import baselines

    builder = SparkSession.builder.master(settings["master"]).config("spark.jars", settings["jars"])
    for name, value in {**BASELINE_CONF, **settings["conf"]}.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", settings["block_rows"])
    spark = builder.config("spark.sql.execution.arrow.maxBytesPerBatch", settings["block_bytes"]).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def land(command: Answer) -> Answer:
        tuned = settings["variant"] == "bt"
        wait_ms, most = 5 if tuned else 500, command["max_offsets"]
        stream = _stream(spark, settings["bootstrap"], command["topic"], fetch_wait_ms=wait_ms, max_offsets=most)
        writer = stream.writeStream.option("checkpointLocation", command["checkpoint"])
        interval = _interval(command)
        writer = writer.trigger(processingTime=interval) if interval else writer.trigger(availableNow=True)
        match settings["variant"]:
            case "a":
                query = writer.format("noop").start()
            case "p":
                query = writer.foreachBatch(baselines.parquet_job(command["table"])).start()
            case "b" | "bt":
                job = baselines.arrow_job(settings["url"], command["table"], 4 if tuned else 0)
                query = writer.foreachBatch(job).start()
            case _:
                allowed = float("errors" in (command.get("keep") or {}))
                query = writer.foreachBatch(baselines.json_job(settings["url"], command["table"], allowed)).start()
        _run_out(query, command)
        assert not any(name.partition(".")[0] == "chsink" for name in sys.modules), "a baseline imports no chsink"
        return {"spark_ms": _durations(query), "steps_ms": _steps(query)}

    return land


def _stream(
    spark: SparkSession, bootstrap: str, topic: str, *, fetch_wait_ms: int = 500, max_offsets: int | None = None
) -> DataFrame:
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", "2000")
        .option("kafka.fetch.max.wait.ms", str(fetch_wait_ms))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    return (reader.option("maxOffsetsPerTrigger", max_offsets) if max_offsets else reader).load()


def _durations(query: Any) -> dict[str, int]:
    """Milliseconds of Spark's own steps, over the query's batches."""
    sums: dict[str, int] = {}
    for progress in query.recentProgress:
        for step, ms in progress.durationMs.items():
            sums[step] = sums.get(step, 0) + ms
    return sums


def _steps(query: Any) -> list[dict[str, int]]:
    """The same for each of the newest batches that had records."""
    return [dict(progress.durationMs) for progress in query.recentProgress if progress.numInputRows]


def _private_output() -> IO[str]:
    """Standard output for answers alone: what Spark or a worker prints goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _answer(answers: IO[str], answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _interval(command: Answer) -> str:
    """Of the trigger; "" where the job ends with what the topic holds."""
    return str((command.get("keep") or {}).get("trigger", {}).get("interval", ""))


def _run_out(query: Any, command: Answer) -> None:
    """Wait for the query's end; one with an interval is ended by the next command."""
    if not _interval(command):
        query.awaitTermination()
        return
    while LINES.empty():
        query.awaitTermination(END_POLL_S)  # raises what the query failed with
    _next()
    query.stop()


def _read() -> None:
    """Take commands as they come.  When the input ends, so does the process with its JVM, whatever it is doing."""
    for line in sys.stdin:
        LINES.put(line)
    os.killpg(0, signal.SIGKILL)


def _next() -> Answer:
    """The next command."""
    command: Answer = json.loads(LINES.get())
    return command


if __name__ == "__main__":
    main()
