"""Kafka, ZooKeeper and several ClickHouse servers as one thing: started together, ended together.  A Schema Registry
may be one of them.

They start at the same time; ClickHouse needs only ZooKeeper's address to start, and its answers to be used.  They end
in the order that leaves none waiting for another: ClickHouse, then ZooKeeper and Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from chsink.embedded.base.service import Service
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.registry import EmbeddedRegistry
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.jvm.java import java_home


class Stack:
    """``with Stack(folder) as s:`` then ``s.kafka.bootstrap``, ``s.zookeeper.hosts``, ``s.clickhouse[0].url``.

    Ports are known before the start: the given ones (by folder: ``kafka``, ``zookeeper``, ``clickhouse-0`` …), else
    free ones.  ``clickhouse`` is the number of servers, all on the one ZooKeeper.
    """

    def __init__(
        self,
        root: Path | str,
        clickhouse: int = 2,
        *,
        registry: bool = False,
        ports: Mapping[str, int] | None = None,
        detach: bool = False,
    ) -> None:
        assert clickhouse >= 0, clickhouse
        given = ports or {}
        self.root = Path(root).resolve()
        self.kafka = EmbeddedKafka(self.root / "kafka", given.get("kafka", 0), detach=detach)
        self.zookeeper = EmbeddedZooKeeper(self.root / "zookeeper", given.get("zookeeper", 0), detach=detach)
        self.clickhouse = [
            EmbeddedClickHouse(self.root / name, zookeeper=self.zookeeper.hosts, port=given.get(name, 0), detach=detach)
            for name in (f"clickhouse-{number}" for number in range(clickhouse))
        ]
        self.registry = (
            EmbeddedRegistry(self.root / "registry", given.get("registry", 0), detach=detach) if registry else None
        )

    @property
    def members(self) -> Sequence[Service]:
        """All services, in the order they are named to people."""
        return [self.kafka, self.zookeeper, *self.clickhouse, *self._registry]

    @property
    def _registry(self) -> Sequence[Service]:
        return [] if self.registry is None else [self.registry]

    def start(self) -> Self:
        """Start what does not run, all at once, and wait; when one fails, end the others and raise its error."""
        java_home()  # without Java, nothing starts that would have to be ended
        try:
            with ThreadPoolExecutor(len(self.members)) as pool:
                starts = [pool.submit(member.start) for member in self.members]
            for start in starts:
                start.result()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all of them in order; one that fails to end does not keep the others."""
        errors: list[Exception] = []
        waves: Sequence[Sequence[Service]] = (self.clickhouse, [self.zookeeper, self.kafka, *self._registry])
        for wave in waves:
            if not wave:
                continue
            with ThreadPoolExecutor(len(wave)) as pool:
                stops = [pool.submit(member.stop) for member in wave]
            errors += [error for stop in stops if isinstance(error := stop.exception(), Exception)]
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
