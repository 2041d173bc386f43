"""Fixtures every test may ask for: real services on free local ports and one Spark session, for the whole run.

A service starts when the first test asks for it and ends with the run, also when tests fail.  What a test needs for
itself alone (a topic, a table, a broker to kill) it makes itself: these are shared.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from chsink.embedded.clickhouse import EmbeddedClickHouse
    from chsink.embedded.kafka import EmbeddedKafka
    from chsink.embedded.stack import Stack
    from chsink.embedded.zookeeper import EmbeddedZooKeeper

CHECKOUT = Path(__file__).resolve().parent.parent
MakeTopic = Callable[..., str]
LOGGERS = ("", "chsink", "chsink.librdkafka", "kazoo", "urllib3", "py4j")

# Few objects of a test are in reference cycles: the search for these after every 700 takes a twentieth of the time.
gc.set_threshold(20_000, 20, 20)

# How long an example takes depends on what else the machine does: it is no failure.
# The number of examples is a share of a hundred: see tests/support/examples.py.
for profile, share in (("chsink", 10), ("soak", 100)):
    slow = [HealthCheck.too_slow]
    settings.register_profile(profile, deadline=None, max_examples=share, suppress_health_check=slow)
settings.load_profile("chsink")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """The command line sets up logging for its whole process, on the standard error that it has there; and messages
    name its job file.
    """
    from chsink.as_typed import DEFAULT_CONFIG, remember_job

    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    yield
    structlog.reset_defaults()
    remember_job(DEFAULT_CONFIG)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture(scope="session")
def _services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The run's services, none of them started."""
    from chsink.embedded.stack import Stack

    services = Stack(tmp_path_factory.mktemp("services"), clickhouse=2)
    yield services
    for service in services.members:  # nobody needs what they would write at their end, which takes seconds
        service.kill()


@pytest.fixture(scope="session")
def kafka(_services: Stack) -> EmbeddedKafka:
    """A running broker."""
    return _services.kafka.start()


@pytest.fixture(scope="session")
def zookeeper(_services: Stack) -> EmbeddedZooKeeper:
    """A running ZooKeeper; use a path of your own below ``/``."""
    return _services.zookeeper.start()


@pytest.fixture(scope="session")
def clickhouse(_services: Stack, zookeeper: EmbeddedZooKeeper) -> list[EmbeddedClickHouse]:
    """Two running ClickHouse servers on the one ZooKeeper; use a database of your own."""
    return [server.start() for server in _services.clickhouse]


@pytest.fixture(scope="session")
def stack(_services: Stack) -> Stack:
    """All of them, started at the same time."""
    return _services.start()


@pytest.fixture
def topic(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> MakeTopic:
    """``topic(partitions=4, config={...}, name=...)`` makes a topic named after the test and returns its name."""

    def make(partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None) -> str:
        stem = re.sub(r"[^a-zA-Z0-9_-]", "_", request.node.name)[:60]
        name = name or f"{stem}-{uuid.uuid4().hex[:8]}"
        kafka.create_topic(name, partitions, config)
        return name

    return make


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session of two threads with the Kafka source; its JVM ends with the run."""
    from tests.support.spark import local_session, stop_with_jvm

    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    stop_with_jvm(session)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first, so that the workers of a parallel run end together."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Modules and collected tests are no garbage: the collector need not look through them again and again."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Let children (Spark's JVM, its Python workers, driver processes of tests) find Java, Python and the checkout."""
    import typer.testing

    from chsink.jvm.java import java_home
    from tests.support.classes import KAFKA, SHORT_LIVED, shared

    # Typer builds all commands again for each call of its test runner: 35 ms.
    vars(typer.testing)["_get_command"] = functools.cache(typer.main.get_command)

    os.environ["SPARK_SUBMIT_OPTS"] = SHORT_LIVED  # of jobs that are processes of their own, too
    os.environ["KAFKA_OPTS"] = shared(KAFKA)
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(CHECKOUT) not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), *filter(None, known)])
