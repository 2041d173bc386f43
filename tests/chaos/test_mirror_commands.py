"""``chsink mirror takeover``, ``recover`` and ``publish``: killed after the first of two tables' commits, and run again.

The mirror runs in this process, without Spark.  Each test ends with Kafka's records against the rows of both tables.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.world import World
from tests.integration.mirror.bench import Bench
from tests.integration.mirror.connect_sink import ConnectSink
from tests.integration.mirror.test_recover import lose

STEP = "table.after_commit"
TABLES = ("orders", "archive")


@pytest.fixture
def bench(world: World, tmp_path: Path) -> Iterator[Bench]:
    """Two tables of one topic, with two partitions."""
    (home := tmp_path / "lake").mkdir()
    made = Bench(world.kafka, home, partitions=2, tables=TABLES)
    yield made
    made.close()


def command(bench: Bench, *words: str, traps: str = "") -> subprocess.CompletedProcess[str]:
    """``chsink mirror …`` in a process of its own."""
    argv = [sys.executable, "-m", "chsink.cli.main", "mirror", *words, "-c", str(bench.job_file())]
    environment = {**os.environ, "CHSINK_FAILPOINTS": traps}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def versions(bench: Bench) -> list[str]:
    """The metadata files of both tables."""
    return [bench.catalog().load_table(f"shop.{name}").metadata_location for name in bench.tables]


def die_and_run_again(world: World, bench: Bench, *words: str) -> None:
    """One table has its commit when the command dies; run again, it does the rest; once more, it finds nothing to do."""
    before = versions(bench)
    died = command(bench, *words, traps=f"{STEP}=kill@1")
    assert died.returncode == -signal.SIGKILL, died.stdout + died.stderr
    assert [old != new for old, new in zip(before, versions(bench), strict=True)].count(True) == 1
    world.tally.killed(f"chsink mirror {words[0]}: between two tables")
    for _ in range(2):
        done = versions(bench)
        again = command(bench, *words)
        assert again.returncode == 0, again.stdout + again.stderr
    assert versions(bench) == done


def land(bench: Bench, *ids: int) -> None:
    """The mirror starts, and lands these records."""
    coordinator = bench.coordinator()
    for partition in range(bench.partitions):
        bench.hand_over(*bench.produce(ids, partition), partition)
    bench.rounds(coordinator, 3)


def judge(world: World, bench: Bench) -> None:
    """Readers of both tables find every record once."""
    for name in bench.tables:
        kafka, rows = bench.sent(), bench.landed(name)
        lost, surplus = kafka - rows, rows - kafka
        counts = kafka.total(), lost.total(), surplus.total(), bench.snapshots(name)
        world.tally.mirrored(f"{bench.topic} {name}", *counts)
        assert kafka and not lost and not surplus, f"{name}: lost {lost}, surplus {surplus}"


def test_takeover_is_killed(world: World, bench: Bench) -> None:
    """Files of the connector wait for both tables."""
    sink = ConnectSink(bench)
    for partition in range(bench.partitions):
        sink.write(*bench.produce([1, 2, 3], partition), partition)
    sink.commit()
    sink.write(*bench.produce([4, 5]))
    die_and_run_again(world, bench, "takeover", "--yes")
    sink.commit()  # a coordinator that was only suspended
    land(bench, 6, 7)
    judge(world, bench)


def test_recover_is_killed(world: World, bench: Bench) -> None:
    """Chains, groups and control topic are lost; some records were handed over and not committed."""
    land(bench, 1, 2, 3)
    bench.hand_over(*bench.produce([4, 5]))
    lose(bench)
    die_and_run_again(world, bench, "recover", "--yes")
    coordinator = bench.coordinator()
    bench.hand_over(3, 5)
    bench.rounds(coordinator, 2)
    land(bench, 6)
    judge(world, bench)


def test_publish_is_killed(world: World, bench: Bench) -> None:
    """The mirror commits to a branch, and goes on between two publications."""
    bench.branch = "audit"
    land(bench, 1, 2, 3)
    die_and_run_again(world, bench, "publish")
    judge(world, bench)
    land(bench, 4)
    assert command(bench, "publish").returncode == 0
    judge(world, bench)
