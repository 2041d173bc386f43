"""A Kafka broker with its own controller (KRaft): one node, 127.0.0.1 only, transactions included.

Its defaults suit a small machine and fast tests: one replica of everything, small buffers, no automatic topics, and
retention and compaction checks every second.  ``properties`` overrides any of them.  The environment's
``KAFKA_OPTS`` adds options for its JVM, as with Kafka's own scripts.
"""

from __future__ import annotations

import base64
import os
import shlex
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from chsink.embedded import topics
from chsink.embedded.base.ports import accepts, free_port
from chsink.embedded.base.service import Service, local
from chsink.errors import local as errors
from chsink.jvm import jars
from chsink.jvm.java import CONSOLE_LOGGING, SMALL_JVM, find_java

_FORMAT_LIMIT_S: Final = 180
# At INFO a broker writes ten lines for each partition; these say how far a start has come.
_LOGGING: Final = (
    CONSOLE_LOGGING.replace("rootLogger.level = info", "rootLogger.level = warn")
    + """\
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = info
logger.lifecycle.name = kafka.server.BrokerLifecycleManager
logger.lifecycle.level = info
"""
)
_DEFAULTS: Final = {
    "auto.create.topics.enable": "false",
    "background.threads": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    # One node need not tell the others twice a second that it is there.
    "metadata.max.idle.interval.ms": "0",
    "min.insync.replicas": "1",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    # After SIGKILL the old registration holds until its session ends; a busy machine must not end a live one.
    "broker.heartbeat.interval.ms": "1500",
    "broker.session.timeout.ms": "6000",
    # A node that was its quorum's leader waits this long for another before it leads again.
    "controller.quorum.election.timeout.ms": "200",
}


class EmbeddedKafka(Service):
    """``with EmbeddedKafka(path) as k: k.create_topic("t", 4)``; clients connect to ``k.bootstrap``.

    ``port=0`` takes a free one; it is kept over restarts, as is the data.  ``properties`` are the broker's own and
    are read at each start.
    """

    def __init__(
        self, path: Path | str, port: int = 0, properties: Mapping[str, str] | None = None, *, detach: bool = False
    ) -> None:
        super().__init__("kafka", path, port, detach=detach, start_limit_s=240, stop_limit_s=15)
        self.properties = dict(properties or {})
        self._controller_port = free_port()

    @property
    def bootstrap(self) -> str:
        """``host:port`` for ``bootstrap.servers``."""
        return local(self.port)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until every partition is served; raises CHS-905 when the broker refuses."""
        topics.create_topic(self.bootstrap, name, partitions, config)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until clients no longer see it."""
        topics.delete_topic(self.bootstrap, name)

    def _prepare(self) -> Sequence[str]:
        properties = self.path / "server.properties"
        logging = self.path / "log4j2.properties"
        settings = {**_DEFAULTS, **self._addresses(), **self.properties}
        properties.write_text("".join(f"{key}={value}\n" for key, value in sorted(settings.items())), encoding="utf-8")
        logging.write_text(_LOGGING, encoding="utf-8")
        java = [
            str(find_java()),
            *SMALL_JVM,
            "-Xmx512m",
            *shlex.split(os.environ.get("KAFKA_OPTS", "")),
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            ":".join(map(str, jars.ensure("kafka-broker"))),
        ]
        if not (self._data / "meta.properties").is_file():
            self._format(java, properties)
        return [*java, "kafka.Kafka", str(properties)]

    def _is_ready(self) -> bool:
        """Whether the broker answers a client; asked only once its port is open."""
        return accepts(self.port) and topics.answers(self.bootstrap)

    @property
    def _data(self) -> Path:
        return self.path / "data"

    def _addresses(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{local(self._controller_port)}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{local(self._controller_port)}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._data),
        }

    def _format(self, java: Sequence[str], properties: Path) -> None:
        """Give the data folder its cluster id, once."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        argv = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--config", str(properties)]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_FORMAT_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            output = f"it took longer than {_FORMAT_LIMIT_S} s"
            raise errors.KAFKA_NOT_FORMATTED(output=output, properties=properties) from None
        if done.returncode:
            raise errors.KAFKA_NOT_FORMATTED(output=(done.stdout + done.stderr)[-2000:], properties=properties)
