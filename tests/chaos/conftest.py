"""Chaos: real processes of the job, killed, stopped and cut off, while a checker that knows the truth watches.

Collected only when asked for by path (``make chaos``): it takes minutes.  ``MINUTES=n`` adds a soak of random faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.tally import Tally
from tests.chaos.world import World, open_world
from tests.integration.job.faults import Failpoints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TALLY = pytest.StashKey[Tally]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave this folder out of a run of everything."""
    asked = any("chaos" in str(argument) for argument in config.invocation_params.args)
    return None if asked or collection_path.suffix != ".py" else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder are fault runs."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.soak)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of a parallel run hands over what it counted."""
    output = getattr(session.config, "workeroutput", None)
    tally = session.config.stash.get(TALLY, None)
    if output is not None and tally is not None:
        output["tally"] = tally.as_plain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The run's counts are those of all its workers."""
    plain = getattr(node, "workeroutput", {}).get("tally")
    if plain is not None:
        node.config.stash.setdefault(TALLY, Tally()).add(plain)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The closing note."""
    tally = config.stash.get(TALLY, None)
    if tally is not None:
        terminalreporter.section("chaos")
        for line in tally.lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def _world(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("world")) as world:
        pytestconfig.stash[TALLY] = world.tally
        yield world


@pytest.fixture
def world(_world: World) -> Iterator[World]:
    """The services, all faults over before and after."""
    _world.heal()
    yield _world
    _world.heal()


@pytest.fixture
def failpoints(spark: SparkSession, tmp_path: Path) -> Iterator[Failpoints]:
    """Failpoints of jobs that run in this process, off before and after."""
    points = Failpoints(spark, tmp_path)
    points.disarm()
    yield points
    points.disarm()
