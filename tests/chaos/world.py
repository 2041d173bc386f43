"""The services under attack, the proxies before them, and sinks that reach them only through the proxies.

Rules:
- A sink's job reaches ClickHouse through an HTTP proxy, and the KeeperMap of the first server reaches ZooKeeper through
  a TCP proxy; the judge goes round all of them.
- A fault that did not fire fails its test (``Tally.fired``).
- A test ends with :meth:`World.judge`: Kafka's records against the rows, by partition, offset and content.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.chaos.tally import Tally
from tests.support.gate import Gate
from tests.support.job import DATABASE, Job, command, select
from tests.support.proxies import HttpFault, TcpProxy

INSERT = "FORMAT ArrowStream"
"""Part of every insert of records."""
ZOOKEEPER_XML = (
    "<zookeeper><session_timeout_ms>3000</session_timeout_ms>"
    "<operation_timeout_ms>1500</operation_timeout_ms></zookeeper>"
)
TINY_WINDOW = "ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 8"


@dataclass(slots=True)
class World:
    """Kafka, ZooKeeper and two ClickHouse servers with what stands before them."""

    kafka: EmbeddedKafka
    zookeeper: EmbeddedZooKeeper
    servers: Sequence[EmbeddedClickHouse]
    gates: Sequence[Gate]
    keeper: TcpProxy
    tally: Tally

    def job(
        self,
        folder: Path,
        *,
        partitions: int = 2,
        shards: int = 1,
        shard: int = 0,
        settings: Mapping[str, Any] | None = None,
        topic_config: Mapping[str, str] | None = None,
        **table: Any,
    ) -> Job:
        """A sink with a topic and a table of its own on ``shards`` servers from ``shard`` on, behind the proxies."""
        name = re.sub(r"\W+", "-", folder.name)[:36].strip("-") + "-" + uuid.uuid4().hex[:6]
        (home := folder / name).mkdir()
        chosen = slice(shard, shard + shards)
        urls = [server.url for server in self.servers[chosen]]
        gates = ", ".join(f'{{ url = "{gate.url}" }}' for gate in self.gates[chosen])
        through = {"clickhouse.endpoints": f"[{gates}]", **(settings or {})}
        key = ["id"] if shards > 1 else []
        job = Job(name, home, self.kafka.bootstrap, urls, [1] * shards, shard_key=key, settings=through)
        self.kafka.create_topic(name, partitions, topic_config)
        job.make_table(name, **table)
        return job

    def judge(self, job: Job) -> None:
        """Exactly once, and nothing in doubt."""
        verdict = job.verdict()
        self.tally.judged(job.name, verdict.sent, verdict.lost.total(), verdict.surplus.total())
        assert verdict.exactly_once, str(verdict)
        assert not job.in_doubt()

    def judge_not_wrong(self, job: Job) -> None:
        """A job that had to stop: rows may be missing, none may be doubled or wrong."""
        verdict = job.verdict()
        assert not verdict.surplus, str(verdict)

    def rows(self, job: Job) -> int:
        """How many rows the sink's table holds over its shards."""
        return sum(int(select(url, f"SELECT count() FROM {job.tables[job.topic]}")) for url in job.shards)

    def fault(
        self, fault: HttpFault, match: str, *, gate: int = 0, times: int = 1, delay_s: float = 0
    ) -> Callable[[], int]:
        """Let a fault befall coming requests; the answer tells how often it has fired since."""
        before = self.gates[gate].fired[fault]
        self.gates[gate].inject(fault, match=match, times=times, delay_s=delay_s)
        return lambda: self.gates[gate].fired[fault] - before

    def heal(self) -> None:
        """No fault is under way any more."""
        for gate in self.gates:
            gate.heal()
        self.keeper.heal()

    def errors(self, name: str, server: int = 0) -> int:
        """How often a ClickHouse server has raised an error of that name."""
        text = select(self.servers[server].url, f"SELECT sum(value) FROM system.errors WHERE name = '{name}'")
        return int(text.strip() or 0)


def overflow(world: World, job: Job) -> None:
    """Another writer's inserts push the job's tokens out of the table's window."""
    for number in range(10):
        command(job.shards[0], f"INSERT INTO {job.tables[job.topic]} (id, text) VALUES ({number}, 'of another writer')")
    world.tally.fired("deduplication window overflowed by count")


@contextmanager
def open_world(root: Path) -> Iterator[World]:
    """Start everything; end everything."""
    with ExitStack() as stack:
        kafka = stack.enter_context(EmbeddedKafka(root / "kafka", properties={"log.cleaner.backoff.ms": "200"}))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(root / "zookeeper"))
        keeper = stack.enter_context(TcpProxy(zookeeper.hosts))
        servers = [
            stack.enter_context(
                EmbeddedClickHouse(root / f"clickhouse-{number}", zookeeper=hosts, extra_xml=ZOOKEEPER_XML)
            )
            for number, hosts in enumerate((keeper.hosts, zookeeper.hosts))
        ]
        gates = [stack.enter_context(Gate(server.url)) for server in servers]
        for server in servers:
            command(server.url, f"CREATE DATABASE {DATABASE}")
        yield World(kafka, zookeeper, servers, gates, keeper, Tally())
