"""Iceberg's own Kafka Connect sink, unmodified, in a standalone worker of Kafka Connect."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from chsink.embedded.base.ports import accepts
from chsink.embedded.base.service import Service
from chsink.jvm import jars
from chsink.jvm.java import SMALL_JVM, find_java
from tests.integration.mirror.bench import Bench
from tests.support.iceberg_rest import PINS

SESSION_MS = 6000


class RealConnector(Service):
    """A connector, named as the bench's topic, that fills the tables of a bench.  Kafka's place of each record goes into its columns."""

    def __init__(self, bench: Bench, folder: Path, control_topic: str) -> None:
        super().__init__("connect", folder, 0, detach=False, start_limit_s=120, stop_limit_s=60)
        self.bench, self.control_topic = bench, control_topic
        self._admin = AdminClient(dict(bench.names.options))
        with sqlite3.connect(bench.folder / "catalog.db") as catalog:  # readers do not keep a writer from writing
            catalog.execute("PRAGMA journal_mode=WAL")

    def _prepare(self) -> Sequence[str]:
        self.path.mkdir(exist_ok=True)
        worker = {
            "bootstrap.servers": self.bench.kafka.bootstrap,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": f"{self.path}/offsets",
            "offset.flush.interval.ms": "500",
            "listeners": f"http://{self.address}",
            "plugin.discovery": "service_load",
            "consumer.session.timeout.ms": str(SESSION_MS),
            "consumer.heartbeat.interval.ms": "1000",
        }
        (self.path / "worker.properties").write_text("".join(f"{k}={v}\n" for k, v in worker.items()), encoding="utf-8")
        sink = {"name": self.bench.topic, "config": self._sink()}
        (self.path / "sink.json").write_text(json.dumps(sink), encoding="utf-8")
        hadoop = sorted(jars.spark_jars_folder().glob("hadoop-client-*.jar"))
        path = ":".join(map(str, [*jars.ensure("iceberg-connect", file=PINS), *hadoop]))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        files = [str(self.path / name) for name in ("worker.properties", "sink.json")]
        return [str(find_java()), *SMALL_JVM, "-Xmx512m", "-cp", path, main, *files]

    def _sink(self) -> dict[str, str]:
        bench = self.bench
        return {
            "name": bench.topic,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": "2",
            "topics": bench.topic,
            "iceberg.tables": ",".join(f"shop.{name}" for name in bench.tables),
            "iceberg.control.topic": self.control_topic,
            "iceberg.control.commit.interval-ms": "2000",
            "iceberg.control.commit.timeout-ms": "2000",
            "iceberg.catalog": "lake",
            "iceberg.catalog.type": "jdbc",
            "iceberg.catalog.uri": f"jdbc:sqlite:{bench.folder}/catalog.db",
            "iceberg.catalog.warehouse": f"file://{bench.folder}/lake",
            "iceberg.catalog.jdbc.schema-version": "V1",
            "iceberg.kafka.session.timeout.ms": str(SESSION_MS),
            "iceberg.kafka.heartbeat.interval.ms": "1000",
            "transforms": "place",
            "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            "transforms.place.offset.field": "_kafka_offset",
            "transforms.place.partition.field": "_kafka_partition",
        }

    def _is_ready(self) -> bool:
        return accepts(self.port)

    # --- what a test looks at -----------------------------------------------------------------------------------------

    @property
    def group(self) -> str:
        return f"connect-{self.bench.topic}"

    def offsets(self, group: str) -> dict[int, int]:
        """The offsets of a group, by partition."""
        [found] = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        try:
            return {at.partition: at.offset for at in found.result().topic_partitions}
        except KafkaException:  # a new broker still loads its groups
            return {}

    @contextmanager
    def no_commits(self) -> Iterator[None]:
        """Nobody can commit to the catalog meanwhile."""
        catalog = sqlite3.connect(self.bench.folder / "catalog.db", isolation_level=None)
        catalog.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            catalog.execute("ROLLBACK")
            catalog.close()


def wait(until: Callable[[], bool], seconds: float = 120) -> None:
    give_up = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < give_up, "it did not come"
        time.sleep(0.5)
