"""``chsink mirror commit``: the coordinator that runs commits before its interval is over."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.mirror.commit_now import ask
from chsink.mirror.control import Names
from chsink.mirror.events import NOW, StartCommit, decode
from chsink.statemachine.ranges import TopicPartition
from tests.integration.mirror.bench import Bench

pytestmark = pytest.mark.slow


def test_rows_are_visible_and_offsets_moved(make_bench: Callable[..., Bench]) -> None:
    """P-8.  ⚑ A round that is open when it is asked may have begun before the records: another one follows."""
    bench = make_bench(tables=("orders", "archive"))
    coordinator = bench.coordinator()
    names: Names = bench.names
    bench.clock.ms += bench.pace.interval_ms
    coordinator.pace = replace(coordinator.pace, timeout_ms=10_000)
    coordinator.tick(0)  # opens a round
    assert coordinator._open is not None
    bench.hand_over(*bench.produce([1, 2]))
    ended = threading.Event()
    said: list[str] = []

    def ask() -> None:
        done = CliRunner().invoke(app, ["mirror", "commit", "--json", "-c", str(bench.job_file())])
        said.append(done.output)
        ended.set()

    thread = threading.Thread(target=ask)
    thread.start()
    while not any(NOW.bytes in (record.value or b"") for record in bench.control_records()):
        time.sleep(0.1)
    bench.ticks(coordinator, ended.is_set)  # the clock stands still: no interval ends
    thread.join()
    made = {t["table"]: t["snapshot"] for t in json.loads(said[0])["tables"]}
    for name in bench.tables:
        snapshot = bench.catalog().load_table(f"shop.{name}").current_snapshot()
        assert snapshot is not None and made[f"shop.{name}"] == snapshot.snapshot_id
        assert bench.landed(name) == bench.sent()
    stored = names.offsets(names.control_group)
    at = [TopicPartition(names.topic, number) for number in (0, 1)]
    assert any(offset for offset in stored.committed(at).values())
    stored.close()


def test_many_ask_at_once(make_bench: Callable[..., Bench]) -> None:
    """⚑ Two commands, or one and a driver's request, had one transactional id, and one of them was refused."""
    bench = make_bench()
    coordinator, askers = bench.coordinator(), 8
    bench.round(coordinator)
    with ThreadPoolExecutor(askers) as pool:
        asked = {each.result() for each in [pool.submit(ask, bench.names) for _ in range(askers)]}
    told = [(record.partition, decode(record.value or b"")) for record in bench.control_records()]
    found = {event.id: at for at, event in told if event is not None and event.payload == StartCommit(NOW)}
    rounds = {at for at, event in told if event is not None and event.payload != StartCommit(NOW)}
    assert found.keys() == asked and set(found.values()) == rounds, "in the partition of the coordinator's own events"
    bench.hand_over(*bench.produce([1]))
    bench.ticks(coordinator, lambda: coordinator.rounds > 1)  # the clock stands still
    assert bench.landed() == bench.sent()


def test_nobody_answers(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    job = ["-c", str(bench.job_file()), "--set", "mirror.timeout_s=1"]
    done = CliRunner().invoke(app, ["mirror", "commit", *job])
    assert done.exit_code == 5 and "no round began" in done.stderr, done.output
