"""``chsink mirror clean`` and ``chsink mirror events`` beside a mirror: real topics, real transactions, real tables."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from chsink import failpoints
from chsink.cli.main import app
from tests.integration.mirror.bench import Bench

pytestmark = pytest.mark.slow
MakeBench = Callable[..., Bench]
DAY_S = 86_400


class Died(Exception):
    """A worker's end."""


def run(bench: Bench, *command: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["mirror", *command, "--json", "-c", str(bench.job_file())])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


def aged(bench: Bench, days: int = 10) -> list[str]:
    """The names of all data files, which are older now."""
    files = [*(bench.folder / "lake").rglob("*.parquet")]
    for file in files:
        os.utime(file, (time.time() - days * DAY_S,) * 2)
    return sorted(file.name for file in files)


def names(locations: Any) -> list[str]:
    return sorted(Path(location).name for location in locations)


@pytest.mark.soak
def test_clean_and_events_beside_a_mirror(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ O-5, E-12.  A crashed attempt's files go; a crashed attempt's unit that was handed over lands afterwards."""
    bench = make_bench()
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce([1]))
    bench.round(coordinator)
    before = aged(bench)

    def dies(_: str) -> None:
        raise Died

    start, end = bench.produce([2, 3])
    for where in ("before", "after"):
        with monkeypatch.context() as patch:
            patch.setattr(failpoints, "reach", lambda name, where=where: dies(name) if where in name else None)
            with pytest.raises(Died):
                bench.hand_over(start, end)
        if where == "before":
            orphan = sorted(set(aged(bench)) - {*before})
    waits = sorted(set(aged(bench)) - {*before, *orphan})
    assert len(before) == len(orphan) == len(waits) == 1

    shown = run(bench, "clean")["tables"][0]
    assert names(o["location"] for o in shown["orphans"]) == orphan and not run(bench, "clean")["applied"]
    events = {names([e["file"]])[0]: e for e in run(bench, "events")["events"]}
    assert {name: e["state"] for name, e in events.items()} == {before[0]: "committed", waits[0]: "waiting"}

    removed = run(bench, "clean", "--apply")["tables"][0]
    assert removed == shown and aged(bench) == sorted([*before, *waits])
    bench.round(coordinator)
    assert bench.landed() == bench.sent()
    snapshot = bench.catalog().load_table("shop.orders").current_snapshot()
    assert snapshot is not None
    [event] = run(bench, "events", "--file", waits[0], "--table", "shop.orders", "--topic", bench.topic)["events"]
    assert (event["state"], event["snapshot"], event["rows"]) == ("committed", snapshot.snapshot_id, 2)
    assert (event["start"], event["end"]) == (start, end) and event["commit"] == bench.summary()[
        "kafka.connect.commit-id"
    ]
    assert run(bench, "events", "--commit", event["commit"])["events"] == [event]
    missing = (
        bench.job_file().read_text(encoding="utf-8") + f'[[mirror.route]]\ntopic = "{bench.topic}"\ntable = "shop.no"\n'
    )
    (bench.folder / "two.toml").write_text(missing, encoding="utf-8")
    partly = CliRunner().invoke(app, ["mirror", "clean", "-c", str(bench.folder / "two.toml")])
    assert partly.exit_code == 3 and "shop.orders" in partly.output and "CHS-343" in partly.output, partly.output
    plain = CliRunner().invoke(app, ["mirror", "events", "--file", before[0], "-c", str(bench.job_file())])
    assert plain.exit_code == 0 and before[0] in plain.output and waits[0] not in plain.output
    for wrong in (["events", "--table", "shop.other"], ["clean", "shop.other"], ["clean", "--older-than", "3h"]):
        assert CliRunner().invoke(app, ["mirror", *wrong, "-c", str(bench.job_file())]).exit_code == 2


@pytest.mark.soak
def test_the_mirror_goes_on_after_expiry(make_bench: MakeBench) -> None:
    """⚑ By a coordinator that runs, and by a new one: no row twice, none lost.  What compaction replaced goes, too."""
    bench = make_bench()
    table = bench.catalog().load_table("shop.orders")
    table.transaction().set_properties({"history.expire.max-snapshot-age-ms": "1"}).commit_transaction()
    coordinator = bench.coordinator()
    for number in range(3):
        bench.hand_over(*bench.produce([number]))
        bench.round(coordinator)
    table = bench.catalog().load_table("shop.orders")
    rows: pa.Table = table.scan().to_arrow()
    table.overwrite(rows)  # as a compaction: the same rows in one file
    bench.hand_over(*bench.produce([3]))
    aged(bench)
    bench.round(coordinator)
    bench.hand_over(*bench.produce([4]))

    done = run(bench, "clean", "--expire-snapshots", "--apply")["tables"][0]
    assert len(done["snapshots"]) == 5 and len(done["orphans"]) == 3 and bench.snapshots() == 1
    gone = [event["state"] for event in run(bench, "events")["events"]]
    assert gone == ["gone"] * 3 + ["committed", "waiting"]
    bench.round(coordinator)
    assert bench.landed() == bench.sent()
    later = bench.coordinator()
    bench.hand_over(*bench.produce([5]))
    bench.round(later)
    assert run(bench, "clean", "--expire-snapshots", "--apply")["tables"][0]["orphans"] == []
    assert bench.landed() == bench.sent()
