"""A broker of Kafka 2.4 on 127.0.0.1, with a ZooKeeper of its own: what the mirror refuses, as it really answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from chsink.embedded import topics
from chsink.embedded.base.ports import HOST, accepts
from chsink.embedded.base.service import Service, local
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.jvm import jars
from chsink.jvm.java import SMALL_JVM, find_java

PINS: Final = Path(__file__).with_name("old_kafka_jars.toml")
_LOGGING: Final = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


class OldKafka(Service):
    """``with OldKafka(path) as kafka: ... kafka.bootstrap``."""

    def __init__(self, path: Path) -> None:
        super().__init__("kafka-2.4", path, 0, detach=False, start_limit_s=240, stop_limit_s=15)
        self._zookeeper = EmbeddedZooKeeper(path / "zookeeper")

    @property
    def bootstrap(self) -> str:
        """``host:port`` for ``bootstrap.servers``."""
        return local(self.port)

    def start(self) -> OldKafka:
        """ZooKeeper first."""
        self._zookeeper.start()
        return super().start()

    def stop(self) -> None:
        """The broker first."""
        super().stop()
        self._zookeeper.stop()

    def _prepare(self) -> Sequence[str]:
        settings = {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": self.path / "data",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "zookeeper.connect": self._zookeeper.hosts,
        }
        properties, logging = self.path / "server.properties", self.path / "log4j.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        logging.write_text(_LOGGING, encoding="utf-8")
        classes = ":".join(map(str, jars.ensure("kafka-2-4", file=PINS)))
        run = [str(find_java()), *SMALL_JVM, "-Xmx512m", f"-Dlog4j.configuration=file:{logging}", "-cp", classes]
        return [*run, "kafka.Kafka", str(properties)]

    def _is_ready(self) -> bool:
        """Whether the broker answers a client."""
        return accepts(self.port) and topics.answers(self.bootstrap)
