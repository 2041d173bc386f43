"""Prometheus metrics of one sink, in a registry of their own, so that several sinks in a process do not clash.

All names start with ``chsink_`` and carry the label ``sink``; ``docs/operations.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from chsink.batch.model import Ack, total
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey, StateRecord

PHASE_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)


class Metrics:
    """Counters and gauges of one sink.  Methods are cheap and do not fail."""

    def __init__(self, sink: str) -> None:
        self.registry = CollectorRegistry()
        self.sink = sink

        def counter(name: str, text: str, *labels: str) -> Counter:
            metric = Counter(f"chsink_{name}", text, ["sink", *labels], registry=self.registry)
            if not labels:
                metric.labels(sink)
            return metric

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"chsink_{name}", text, ["sink", *labels], registry=self.registry)

        self.records = counter("records", "Kafka records read and landed", "table")
        self.rows = counter("rows", "rows inserted and confirmed", "table")
        self.skipped = counter(
            "skipped_records", "records skipped because a value did not fit, or the record's value was null", "table"
        )
        self.dead_letters = counter("dead_letters", "records kept as dead letters", "table")
        self.unknown_fields = counter(
            "unknown_fields", "sampled records with a field that has no column", "topic", "field"
        )
        self.bytes = counter("bytes", "bytes of confirmed inserts, before compression")
        self.inserts = counter("inserts", "pieces inserted (chunk x shard)")
        self.retries = counter("insert_retries", "sends beyond the first")
        self.batches = counter("batches", "micro-batches finished")
        self.halts = counter("halts", "halts that needed manual action")
        self.in_doubt = gauge("in_doubt_partitions", "topic-partitions announced and not confirmed, for each table")
        self.in_doubt_age = gauge("in_doubt_oldest_seconds", "age of the oldest announced and unconfirmed range")
        self.lag = gauge(
            "lag_offsets", "offsets between the recorded end and Kafka's log end", "topic", "partition", "table"
        )
        self.phases = Histogram(
            "chsink_phase_seconds",
            "time of a batch's phases",
            ["sink", "phase"],
            buckets=PHASE_BUCKETS,
            registry=self.registry,
        )

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase, also when it fails."""
        began = perf_counter()
        try:
            yield
        finally:
            self.phases.labels(self.sink, name).observe(perf_counter() - began)

    def landed(self, table: str, acks: Sequence[Ack]) -> None:
        """Count the rows and records that confirmed acknowledgements report for a table."""
        sums = total(acks)
        for metric, amount in (
            (self.records, sums.records),
            (self.rows, sums.rows),
            (self.skipped, sums.skipped),
            (self.dead_letters, sums.dead_letters),
        ):
            metric.labels(self.sink, table).inc(amount)
        for metric, amount in (
            (self.bytes, sums.bytes),
            (self.inserts, sums.inserts),
            (self.retries, sums.retries),
        ):
            metric.labels(self.sink).inc(amount)

    def state(self, records: Mapping[StateKey, StateRecord], now_ms: int) -> None:
        """Show the ranges in doubt."""
        doubtful = [r.seen.before_at for r in records.values() if r.in_doubt]
        self.in_doubt.labels(self.sink).set(len(doubtful))
        self.in_doubt_age.labels(self.sink).set((now_ms - min(doubtful)) / 1000 if doubtful else 0)

    def behind(self, tp: TopicPartition, table: str, offsets: int) -> None:
        """Show how far the table is behind the topic-partition's log end."""
        self.lag.labels(self.sink, tp.topic, str(tp.partition), table).set(max(0, offsets))


class MirrorMetrics:
    """Gauges of one sink's mirror, in the sink's registry or one of their own."""

    def __init__(self, sink: str, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.sink = sink

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"chsink_mirror_{name}", text, ["sink", *labels], registry=self.registry)

        self.running = gauge("running", "1 while the mirror runs, 0 after it has stopped")
        self.epoch = gauge("epoch", "epoch of the driver that runs the mirror")
        self.lag = gauge("lag_offsets", "offsets that Kafka holds and the table does not", "table")
        self.lag_s = gauge("lag_seconds", "age of the oldest record that the table does not hold", "table")
        self.skipped = gauge(
            "skipped_records", "records skipped because a value did not fit, or the record's value was null", "table"
        )
        self.pending = gauge("pending_offsets", "offsets with files that wait for a commit", "table")
        self.units = gauge("pending_units", "reports of files that wait for a commit", "table")
        self.last_commit = gauge("last_commit_timestamp_seconds", "time of the newest snapshot of the mirror", "table")
        self.valid = gauge(
            "valid_through_timestamp_seconds",
            "the table holds all records up to this time, if no timestamps go back",
            "table",
        )
        self.snapshots = gauge("snapshots", "snapshots that the table keeps", "table")
        self.files = gauge("data_files", "data files in the mirror's branch of the table", "table")
        self.file_bytes = gauge("data_files_bytes", "size of these files", "table")

    def show(self, epoch: int | None, tables: Mapping[str, Mapping[str, float | None]]) -> None:
        """The mirror after a round: the epoch of its owner, and each table's gauges."""
        if epoch is not None:
            self.epoch.labels(self.sink).set(epoch)
        for table, values in tables.items():
            self.table(table, values)

    def table(self, table: str, values: Mapping[str, float | None]) -> None:
        """Set a table's gauges by name; a gauge whose value is unknown (None) keeps its last one."""
        for name, value in values.items():
            if value is not None:
                getattr(self, name).labels(self.sink, table).set(value)
