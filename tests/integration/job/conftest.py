"""What the tests of the real job share: a database on both servers, a maker of sinks, and failpoints."""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chsink.embedded.clickhouse import EmbeddedClickHouse
from tests.integration.job.faults import Failpoints
from tests.support.job import DATABASE, Job, command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chsink.embedded.stack import Stack

MakeJob = Callable[..., Job]


@pytest.fixture(scope="session")
def services(stack: Stack) -> Stack:
    """All services, with the tests' database on every ClickHouse server."""
    for server in stack.clickhouse:
        command(server.url, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    return stack


@pytest.fixture(scope="session")
def third(services: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    """One more ClickHouse server, for jobs with ``shards=3``."""
    with EmbeddedClickHouse(tmp_path_factory.mktemp("third"), zookeeper=services.zookeeper.hosts) as server:
        command(server.url, f"CREATE DATABASE {DATABASE}")
        yield server


@pytest.fixture
def make_job(services: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> MakeJob:
    """``make_job(partitions=2, shards=1, …)``: a sink with a topic and a table of its own."""

    def target(shards: int) -> dict[str, Any]:
        servers = list(services.clickhouse)
        if shards > len(servers):
            servers.append(request.getfixturevalue("third"))
        return {"shards": [server.url for server in servers[:shards]]}

    return maker(services, tmp_path, request, target)


def maker(
    services: Stack, tmp_path: Path, request: pytest.FixtureRequest, target: Callable[[int], dict[str, Any]]
) -> MakeJob:
    """What ``make_job`` is: ``target`` gives the fields of a job with so many shards that name its servers."""

    def make(
        partitions: int = 2,
        shards: int = 1,
        weights: Sequence[int] = (),
        topic_config: Mapping[str, str] | None = None,
        table: bool = True,
        columns: str = "",
        engine: str = "",
        metadata: str | None = None,
        settings: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Job:
        name = re.sub(r"\W+", "-", request.node.name)[:40].strip("-") + "-" + uuid.uuid4().hex[:6]
        folder = tmp_path / name
        folder.mkdir()
        fields = {**target(shards), "weights": weights or [1] * shards, "settings": settings or {}, **fields}
        job = Job(name, folder, services.kafka.bootstrap, **fields)
        request.addfinalizer(functools.partial(forget, target(1)["shards"][0]))
        services.kafka.create_topic(name, partitions, topic_config)
        if table:
            more = {} if metadata is None else {"metadata": metadata}
            job.make_table(name, columns=columns, engine=engine, **more)
        return job

    return make


def forget(url: str) -> None:
    """Empty the state table, which all jobs share: each of them reads all of its keys, one by one from ZooKeeper."""
    command(url, f"TRUNCATE TABLE IF EXISTS {DATABASE}.chsink_state")


@pytest.fixture
def failpoints(spark: SparkSession, tmp_path: Path) -> Iterator[Failpoints]:
    """Failpoints, off before and after."""
    points = Failpoints(spark, tmp_path)
    points.disarm()
    yield points
    points.disarm()
