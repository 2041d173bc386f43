"""The services under attack, the proxies before them, and sinks that reach them only through the proxies.

Rules:
- A sink's job reaches ClickHouse through an HTTP proxy, and the KeeperMap of the first server reaches ZooKeeper through
  a TCP proxy; the judge goes round all of them.
- A fault that did not fire fails its test (``Tally.fired``).
- A test ends with :meth:`World.judge`: Kafka's records against the rows, by partition, offset and content.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from chsink.dlq.letters import create_table
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.chaos.letters import Letters, fits
from tests.chaos.tally import Tally
from tests.support.gate import Gate
from tests.support.job import DATABASE, Job, command, select
from tests.support.proxies import HttpFault, TcpProxy
from tests.support.replicas.service import replicas, running

INSERT = "FORMAT ArrowStream"
"""Part of every insert of records."""
ZOOKEEPER_XML = (
    "<zookeeper><session_timeout_ms>3000</session_timeout_ms>"
    "<operation_timeout_ms>1500</operation_timeout_ms></zookeeper>"
)
TINY_WINDOW = "ENGINE = MergeTree ORDER BY tuple() SETTINGS non_replicated_deduplication_window = 8"


@dataclass(slots=True)
class World:
    """Kafka, ZooKeeper and ClickHouse servers with what stands before them.

    Two servers, each a shard; or, ``replicated``, replicas of one shard.
    """

    kafka: EmbeddedKafka
    zookeeper: EmbeddedZooKeeper
    servers: Sequence[EmbeddedClickHouse]
    gates: Sequence[Gate]
    keeper: TcpProxy
    tally: Tally
    letters: dict[str, Letters] = field(default_factory=dict)
    """By the name of the sink."""
    replicated: bool = False

    def job(
        self,
        folder: Path,
        *,
        partitions: int = 2,
        shards: int = 1,
        shard: int = 0,
        letters: Literal["", "table", "topic"] = "",
        settings: Mapping[str, Any] | None = None,
        topic_config: Mapping[str, str] | None = None,
        **table: Any,
    ) -> Job:
        """A sink with a topic and a table of its own on ``shards`` servers from ``shard`` on, behind the proxies, and with
        a place of its own for dead ``letters``.
        """
        name = re.sub(r"\W+", "-", folder.name)[:36].strip("-") + "-" + uuid.uuid4().hex[:6]
        (home := folder / name).mkdir()
        chosen = slice(shard, shard + shards)
        urls = [server.url for server in self.servers[chosen]]
        others = [server.url for server in self.servers[1:]] if self.replicated else []
        more = f", replicas = {json.dumps([gate.url for gate in self.gates[1:]])}" if self.replicated else ""
        gates = ", ".join(f'{{ url = "{gate.url}"{more} }}' for gate in self.gates[chosen])
        through = {"clickhouse.endpoints": f"[{gates}]", **(settings or {})}
        key = ["id"] if shards > 1 else []
        job = Job(name, home, self.kafka.bootstrap, urls, [1] * shards, key, settings=through, replicas=others)
        self.kafka.create_topic(name, partitions, topic_config)
        job.make_table(name, **table)
        if letters:
            self.letters[name] = place = self._place(letters, job)
            job.settings = {**through, **place.settings}
        return job

    def _place(self, letters: str, job: Job) -> Letters:
        if letters == "topic":
            place = Letters(topic=f"{job.name}-dead")
            self.kafka.create_topic(place.topic, 1)
        else:
            place = Letters(table=f"{job.tables[job.topic]}_dead")
            command(job.shards[0], create_table(place.table))
        return place

    def judge(self, job: Job) -> None:
        """Exactly once on all replicas, and nothing in doubt; every record has one fate, if bad ones become dead letters."""
        for servers in job.copies(job.topic):
            verdict = job.verdict(rows_of=fits, servers=servers)
            self.tally.judged(job.name, verdict.sent, verdict.lost.total(), verdict.surplus.total())
            assert verdict.exactly_once, f"{servers}: {verdict}"
        assert not job.in_doubt()
        if place := self.letters.get(job.name):
            sent, held = place.expected(job), place.held(job)
            self.tally.kept(job.name, sent.total(), (sent - held).total(), (held - sent).total())
            assert sent == held, f"dead letters: lost {sent - held}, too many {held - sent}"
            assert sent, "no record was bad"

    def judge_not_wrong(self, job: Job) -> None:
        """A job that had to stop: rows may be missing, none may be doubled or wrong."""
        verdict = job.verdict(rows_of=fits)
        assert not verdict.surplus, str(verdict)
        if place := self.letters.get(job.name):
            too_many = place.held(job) - place.expected(job)
            assert not too_many, f"dead letters: too many {too_many}"

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


@contextmanager
def open_replicas(root: Path, world: World, count: int = 3) -> Iterator[World]:
    """Replicas of one shard over a ZooKeeper of their own, with the Kafka and the tally of another world."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(EmbeddedZooKeeper(root / "zookeeper"))
        keeper = stack.enter_context(TcpProxy(zookeeper.hosts))
        members = replicas(root, zookeeper.hosts, count, extra_xml=ZOOKEEPER_XML)
        servers = stack.enter_context(running(members))
        gates = [stack.enter_context(Gate(server.url)) for server in servers]
        for server in servers:
            command(server.url, f"CREATE DATABASE {DATABASE}")
        yield World(world.kafka, zookeeper, servers, gates, keeper, world.tally, replicated=True)
