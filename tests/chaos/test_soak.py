"""``MINUTES=n make chaos``: the real job under random faults for that long; one seed makes one sequence of faults.

Records come all the time.  Runs of the job follow each other; each dies at a random step, by a random blow, or drains;
faults befall its requests meanwhile.  At the end a run without faults drains what is left, and the checker looks.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.letters import send_bad
from tests.chaos.world import INSERT, World
from tests.support.child import Child
from tests.support.job import Job
from tests.support.proxies import HttpFault

MINUTES = float(os.environ.get("MINUTES", "0"))
SEED = int(os.environ.get("SEED", str(time.time_ns() % 1_000_000)))
KILLS = (
    "driver.before_before=kill",
    "driver.after_before=kill",
    "driver.after_settle_inserts=kill",
    "driver.before_after=kill",
    "driver.after_after=kill",
    "task.before_insert=kill@2",
    "task.after_insert=kill@2",
    "task.after_chunks=kill",
    "task.in_dead_letters=kill",
    "task.after_dead_letters=kill@2",
)
EXITS = (0, 5, -signal.SIGKILL)
SETTINGS = {
    "clickhouse.insert_timeout_s": 4,
    "clickhouse.connect_timeout_s": 3,
    "state.timeout_s": 20,
    "kafka.max_offsets_per_trigger": 400,
}


@pytest.mark.timeout(0)
@pytest.mark.skipif(not MINUTES, reason="MINUTES is not set")
def test_soak(world: World, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    job = world.job(tmp_path, partitions=3, shards=2, letters="topic", settings=SETTINGS)
    until = time.monotonic() + MINUTES * 60
    while time.monotonic() < until:
        for partition in range(3):
            job.send(partition, chance.randrange(1, 200))
            send_bad(job, partition)
        chance.choice((_dies_at_a_step, _dies_by_a_blow, _lives))(world, job, chance)
        world.heal()
        verdict = job.verdict()
        assert not verdict.surplus, f"SEED={SEED}: {verdict}"
    with Child(job) as child:
        assert child.end() == 0, f"SEED={SEED}: {child.said[-3000:]}"
    world.judge(job)


def _dies_at_a_step(world: World, job: Job, chance: random.Random) -> None:
    trap = chance.choice(KILLS)
    with Child(job, traps=trap) as child:
        _harass(world, chance, lambda: child.running)
        assert child.end() in EXITS, f"SEED={SEED} {trap}: {child.said[-3000:]}"
        for name, _, _ in child.fired:
            world.tally.killed(name)


def _dies_by_a_blow(world: World, job: Job, chance: random.Random) -> None:
    with Child(job) as child:
        end = time.monotonic() + chance.uniform(3, 15)
        _harass(world, chance, lambda: child.running and time.monotonic() < end)
        if child.running:
            child.kill()
            world.tally.killed("all processes")


def _lives(world: World, job: Job, chance: random.Random) -> None:
    with Child(job) as child:
        _harass(world, chance, lambda: child.running)
        assert child.end() in EXITS, f"SEED={SEED}: {child.said[-3000:]}"


def _harass(world: World, chance: random.Random, while_so: Callable[[], bool]) -> None:
    """Faults on inserts and state writes, cuts of the Keeper's connections, pauses of a server."""
    while while_so():
        match chance.randrange(4):
            case 0 | 1:
                fault, what = chance.choice(list(HttpFault)), chance.choice((INSERT, '"phase":'))
                _http(world, chance, fault, what)
            case 2:
                world.keeper.cut()
                world.tally.faults["keeper: connection cut"] += 1
            case _:
                pid = chance.choice(world.servers).pid
                os.kill(pid, signal.SIGSTOP)
                time.sleep(chance.uniform(0.1, 2))
                os.kill(pid, signal.SIGCONT)
                world.tally.fired("server: frozen (SIGSTOP)")
        time.sleep(chance.uniform(0.1, 1))


def _http(world: World, chance: random.Random, fault: HttpFault, what: str) -> None:
    gate, times, delay_s = chance.randrange(2), chance.randrange(1, 4), chance.uniform(0.1, 2)
    fired = world.fault(fault, what, gate=gate, times=times, delay_s=delay_s)
    time.sleep(chance.uniform(0.2, 1.5))
    if times := fired():
        world.tally.fired(f"{'insert' if what == INSERT else 'state write'}: {fault}", times)
