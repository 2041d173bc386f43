"""``make bench``: chsink beside today's jobs, in one run, alternated; medians of warm runs, as ratios.

(a) Spark reading to a noop sink · (b) the at-least-once job with ``from_json`` and ``insert_arrow`` · (b2) the same
with raw values as JSONEachRow · (c) chsink with shipped defaults.  Each run drains the same topic into an emptied
table; the rows are checked after each.  Figures of a shared machine: read the ratios.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clickhouse_connect
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from bench import baselines, state
from bench.processes import Usage, Watch

COLUMNS = (
    "id UInt64, name String, ts DateTime('UTC'), amount Float64, flag Bool, city LowCardinality(String), note String"
)
VARIANTS = ("a", "b", "b2", "c")


def say(text: str = "") -> None:
    print(text, flush=True)


def record(index: int) -> bytes:
    """One JSON record of about 110 bytes."""
    minute, second = index // 60 % 60, index % 60
    return (
        b'{"id":%d,"name":"user%d","ts":"2026-01-01 00:%02d:%02d","amount":%d.25,'
        b'"flag":true,"city":"c%d","note":"abcdefgh"}' % (index, index, minute, second, index % 1000, index % 50)
    )


def produce(bootstrap: str, topic: str, records: int, partitions: int) -> None:
    """Fill the topic evenly."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.num.messages": 20_000,
                         "queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 1_000_000})  # fmt: skip
    for index in range(records):
        while True:
            try:
                producer.produce(topic, value=record(index), partition=index % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if index % 500_000 == 0:
            producer.poll(0)
            say(f"produced {index:,}")
    producer.flush(120)


class Bench:
    """The variants over one topic, in one warm Spark session."""

    def __init__(self, stack: Any, spark: SparkSession, root: Path, topic: str, records: int) -> None:
        self.stack, self.spark, self.root = stack, spark, root
        self.topic, self.records = topic, records
        self.url: str = stack.clickhouse[0].url
        self.client = clickhouse_connect.get_client(dsn=self.url, autogenerate_session_id=False)
        for table, window in (("plain", 0), ("sink", 10_000)):
            self.client.command(
                f"CREATE TABLE {table} ({COLUMNS}) ENGINE = MergeTree ORDER BY id "
                f"SETTINGS non_replicated_deduplication_window = {window}"
            )

    def stream(self) -> DataFrame:
        return (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.stack.kafka.bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .load()
        )

    def run(self, variant: str) -> tuple[float, Usage]:
        """Seconds from start to drained, and what it used."""
        table = "sink" if variant == "c" else "plain"
        self.client.command(f"TRUNCATE TABLE {table} SYNC")
        checkpoint = tempfile.mkdtemp(dir=self.root)
        self.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
        named = {
            "clickhouse": self.stack.clickhouse[0].pid,
            "kafka": self.stack.kafka.pid,
            "zookeeper": self.stack.zookeeper.pid,
        }
        start = self._chsink(checkpoint) if variant == "c" else self._baseline(variant, checkpoint)
        with Watch(named) as watch:
            began = time.perf_counter()
            start().awaitTermination()
            seconds = time.perf_counter() - began
        if variant != "a":
            self._check(table)
        shutil.rmtree(checkpoint)
        return seconds, watch.usage

    def _baseline(self, variant: str, checkpoint: str) -> Callable[[], Any]:
        writer = self.stream().writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        if variant == "a":
            return lambda: writer.format("noop").start()
        job = baselines.arrow_job if variant == "b" else baselines.json_job
        return lambda: writer.foreachBatch(job(self.url, "plain")).start()

    def _chsink(self, checkpoint: str) -> Callable[[], Any]:
        from chsink import Config, Sink
        from chsink.observe.logs import configure

        configure("console", "error")
        config = Config.from_mapping(
            {
                "sink": {"name": f"bench-{Path(checkpoint).name}", "checkpoint": checkpoint},
                "kafka": {"bootstrap": self.stack.kafka.bootstrap},
                "route": [{"topic": self.topic, "table": "sink"}],
                "clickhouse": {"endpoints": [self.url]},
                "trigger": {"mode": "available_now"},
                "observe": {"progress": "never"},
            }
        )
        return lambda: Sink(config).start(self.stream())

    def _check(self, table: str) -> None:
        found = self.client.query(f"SELECT count(), uniqExact(id), sum(id) FROM {table}").result_rows[0]
        expected = (self.records, self.records, self.records * (self.records - 1) // 2)
        if tuple(found) != expected:
            raise SystemExit(f"{table} holds {found}, expected {expected}")


def compare(bench: Bench, runs: int) -> None:
    """One warm-up of each variant, then alternated runs."""
    times: dict[str, list[float]] = {v: [] for v in VARIANTS}
    usages: dict[str, Usage] = {}
    for number in range(runs + 1):
        for variant in VARIANTS:
            seconds, usage = bench.run(variant)
            label = f"run {number}" if number else "warm-up"
            say(f"{label} ({variant}): {seconds:.2f} s, {bench.records / seconds:,.0f} rows/s")
            if number:
                times[variant].append(seconds)
                usages[variant] = usage
    rates = {v: bench.records / statistics.median(t) for v, t in times.items()}
    say(f"\n{'variant':<8} {'rows/s':>10} {'min..max':>21} {'x (b)':>7} {'x (b2)':>7}   CPU s · peak MiB, by process")
    for variant in VARIANTS:
        low, high = bench.records / max(times[variant]), bench.records / min(times[variant])
        usage = usages[variant]
        kinds = sorted(usage.peak_mib)
        processes = " ".join(f"{k} {usage.cpu_s.get(k, 0):.1f}·{usage.peak_mib[k]:.0f}" for k in kinds)
        say(f"{variant:<8} {rates[variant]:>10,.0f} {low:>10,.0f}..{high:>9,.0f} {rates[variant] / rates['b']:>7.2f} "
            f"{rates[variant] / rates['b2']:>7.2f}   {processes}")  # fmt: skip


def memory(bench: Bench, stack: Any, large: int) -> None:
    """Peak memory of the Python workers: a batch of 1M records against one of ``large``."""
    for count in (1_000_000, large):
        topic = f"memory-{count}"
        stack.kafka.create_topic(topic, 4)
        produce(stack.kafka.bootstrap, topic, count, 4)
        bench.topic, bench.records = topic, count
        seconds, usage = bench.run("c")
        workers, jvm = usage.peak_mib["python workers"], usage.peak_mib["jvm"]
        say(f"one batch of {count:,} records: {seconds:.1f} s, peak of a worker {workers:.0f} MiB, JVM {jvm:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=("speed", "state", "memory"))
    parser.add_argument("--large", type=int, default=10_000_000, help="records of the large batch of the memory part")
    arguments = parser.parse_args()
    from chsink.embedded import jars
    from chsink.embedded.stack import Stack

    os.environ["PYSPARK_PYTHON"] = sys.executable
    root = Path(tempfile.mkdtemp(prefix="chsink-bench-"))
    try:
        with Stack(root / "services", clickhouse=1) as stack:
            if arguments.only in (None, "state"):
                say("\n".join(state.report(stack.clickhouse[0].url, stack.zookeeper.hosts)))
            if arguments.only == "state":
                return
            files = ",".join(str(p) for p in jars.ensure("spark-kafka"))
            spark = (
                SparkSession.builder.master("local[2]").config("spark.jars", files).config("spark.ui.enabled", "false")
                .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.memory", "4g").getOrCreate()
            )  # fmt: skip
            spark.sparkContext.setLogLevel("ERROR")
            bench = Bench(stack, spark, root, "bench", arguments.records)
            if arguments.only in (None, "speed"):
                stack.kafka.create_topic("bench", 4)
                produce(stack.kafka.bootstrap, "bench", arguments.records, 4)
                compare(bench, arguments.runs)
            if arguments.only in (None, "memory"):
                memory(bench, stack, arguments.large)
            spark.stop()
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
