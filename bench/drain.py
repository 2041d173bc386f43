"""One variant in a process of its own: a warm Spark session that drains a topic on command.

Started by :class:`bench.measured.Measured` with its settings as JSON; then one JSON command a line on standard input,
one JSON answer a line on standard output.  It ends when its input ends.  Only ``c``, ``m`` and ``cm`` import chsink.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

Answer = dict[str, Any]
BASELINE_CONF = {"spark.sql.adaptive.enabled": "false", "spark.sql.streaming.metricsEnabled": "false"}
"""The settings that chsink uses too, so that no variant is faster because of them."""


def main() -> None:
    """Answer commands until the input ends."""
    answers = _private_output()
    commands = _commands()
    settings = json.loads(sys.argv[1])
    began = time.perf_counter()
    ways = {"c": _chsink, "m": _mirror, "cm": _both, "s": _iceberg}
    land = ways.get(settings["variant"], _baseline)(settings)
    _answer(answers, {"session_s": time.perf_counter() - began})
    for command in commands:
        began = time.perf_counter()
        details = land(command)
        _answer(answers, {"seconds": time.perf_counter() - began, **details})


def _chsink(settings: Answer) -> Callable[[Answer], Answer]:
    """As ``chsink run`` does it; the configuration says where things are, all else is the default."""
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
    somewhere = {"sink": "none", "checkpoint": "none", "topic": "none", "table": "none"}
    spark = session(config(somewhere), settings["jars"])

    def land(command: Answer) -> Answer:
        sink = Sink(config(command))
        try:
            stream = sink.stream(spark)
            query = sink.start(stream)
            query.awaitTermination()
            value, labels = sink.metrics.registry.get_sample_value, {"sink": command["sink"]}
            phases = {
                name: value("chsink_phase_seconds_sum", {**labels, "phase": name})
                for name in ("plan", "before", "insert", "after")
            }
            return {"phases": phases, "inserts": value("chsink_inserts_total", labels), "spark_ms": _durations(query)}
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
    from chsink.spark.stop import StopSignals

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
    columns = "id long, name string, ts timestamp, amount double, flag boolean, city string, note string"

    def land(command: Answer) -> Answer:
        table = f"lake.{command['table']}"
        spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg")
        began = time.perf_counter()
        stream = _stream(spark, settings["bootstrap"], command["topic"])
        parsed = stream.select(F.from_json(F.col("value").cast("string"), columns).alias("r")).select("r.*")
        writer = parsed.writeStream.format("iceberg").outputMode("append").trigger(availableNow=True)
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
        stream = _stream(spark, settings["bootstrap"], command["topic"])
        writer = stream.writeStream.option("checkpointLocation", command["checkpoint"]).trigger(availableNow=True)
        match settings["variant"]:
            case "a":
                query = writer.format("noop").start()
            case "p":
                query = writer.foreachBatch(baselines.parquet_job(command["table"])).start()
            case "b":
                query = writer.foreachBatch(baselines.arrow_job(settings["url"], command["table"])).start()
            case _:
                allowed = float("errors" in (command.get("keep") or {}))
                query = writer.foreachBatch(baselines.json_job(settings["url"], command["table"], allowed)).start()
        query.awaitTermination()
        assert not any(name.partition(".")[0] == "chsink" for name in sys.modules), "a baseline imports no chsink"
        return {"spark_ms": _durations(query)}

    return land


def _stream(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def _durations(query: Any) -> dict[str, int]:
    """Milliseconds of Spark's own steps, over the query's batches."""
    sums: dict[str, int] = {}
    for progress in query.recentProgress:
        for step, ms in progress.durationMs.items():
            sums[step] = sums.get(step, 0) + ms
    return sums


def _private_output() -> IO[str]:
    """Standard output for answers alone: what Spark or a worker prints goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _answer(answers: IO[str], answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _commands() -> Iterator[Answer]:
    """Commands as they come.  When the input ends, so does the process with its JVM, whatever it is doing."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(lines.get())


if __name__ == "__main__":
    main()
