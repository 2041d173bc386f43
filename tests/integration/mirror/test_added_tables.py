"""A table that is added to a topic later begins with the next records; earlier ones land when a person asks for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, TimestampType
from structlog.testing import capture_logs
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.config import load
from chsink.errors import HaltError
from chsink.kafka.admin import open_admin
from chsink.mirror import coordinator
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.observe.logs import configure
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.commands import follow, run
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.test_recover import lose
from tests.integration.mirror.test_table_by import offsets, running
from tests.support.job import eventually
from tests.support.kafka import produce
from tests.support.told import says

pytestmark = pytest.mark.slow


def job_of(bench: Bench, *tables: str, added: str = "now") -> Path:
    job = bench.folder / "job.toml"
    routes = "".join(f'[[mirror.route]]\ntopic = "{bench.topic}"\ntable = "shop.{name}"\n' for name in tables)
    text = bench.job_file().read_text("utf-8").partition("[[mirror.route]]")[0]
    own = f'enabled = true\ninterval_s = 0.2\nadded_tables = "{added}"'
    job.write_text(text.replace("enabled = true", own) + routes, "utf-8")
    return job


def mirror_of(bench: Bench, *tables: str, added: str = "now") -> OpenMirror:
    config = load(job_of(bench, *tables, added=added), environ={})
    return open_mirror(config, open_admin(config))


def asked(bench: Bench, *options: str) -> dict[str, Any]:
    """``chsink mirror backfill`` of the table ``b``."""
    done = CliRunner().invoke(
        app, ["mirror", "backfill", "shop.b", "-c", f"{bench.folder}/job.toml", "--json", *options]
    )
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_ROWS_BEFORE")
def test_a_table_that_holds_rows_before_its_beginning(make_bench: MakeBench) -> None:
    """⚑ Another program wrote them: they would land again."""
    bench = make_bench(tables=("a", "b"))
    with running(bench, mirror_of(bench, "a")) as hand_over:
        hand_over(*bench.produce(range(4)))
    with running(bench, mirror_of(bench, "a", "b")):
        pass
    table = bench.catalog().load_table("shop.b")
    row = {"id": 0, "name": "", "_kafka_partition": 0, "_kafka_offset": 0}
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))
    job = ["-c", str(job_of(bench, "a", "b"))]
    done = CliRunner().invoke(app, ["mirror", "backfill", "shop.b", "--apply", *job])
    assert done.exit_code == 2 and "CHS-355" in done.stderr, done.output
    assert f"a row for offset 0 of {bench.tp()}" in " ".join(done.stderr.split())

    says(done, "create an empty table, name it in [[mirror.route]] instead", "with its name and --reread")
    bench.catalog().create_table("shop.c", SCHEMA)
    follow(bench, done, "--reread", more=["shop.c"], job=job_of(bench, "a", "c"))
    with running(bench, mirror_of(bench, "a", "c")) as hand_over:
        hand_over(*bench.produce([4]))
        eventually("all records", lambda: offsets(bench, "a", "c") == {"a": [*range(5)], "c": [*range(5)]})


@pytest.mark.exit_of("MIRROR_ROWS_UNTOLD")
@pytest.mark.parametrize(
    "loaded", ["", "before", *(pytest.param(x, marks=pytest.mark.soak) for x in ("later", "null"))]
)
def test_a_table_with_rows_that_do_not_tell(make_bench: MakeBench, loaded: str) -> None:
    """⚑ A batch load had brought them, before or beside the mirror: they landed again.  ``null``: without values in the
    columns that tell.
    """
    bench = make_bench(tables=("a", "b"), schemas={"b": Schema(*SCHEMA.fields[: 4 if loaded == "null" else 2])})
    with running(bench, mirror_of(bench, "a")) as hand_over:
        hand_over(*bench.produce(range(4)))

    def load() -> None:
        table = bench.catalog().load_table("shop.b")
        table.append(pa.Table.from_pylist([{"id": n} for n in range(4)], schema=table.schema().as_arrow()))

    if loaded in {"before", "null"}:
        load()
    with running(bench, mirror_of(bench, "a", "b")) as hand_over:
        hand_over(*bench.produce([4]))
    if loaded == "later":
        load()
    job = job_of(bench, "a", "b")
    done = run(bench, ["mirror", "backfill", "shop.b"], job)
    if not loaded:
        assert done.exit_code == 0 and "[0, 4)" in done.stdout, done.output
        return
    assert done.exit_code == 2 and "CHS-355" in done.stderr, done.output
    says(done, "create an empty table, name it in [[mirror.route]]", "with its name and --reread")
    bench.catalog().create_table("shop.c", SCHEMA)
    follow(bench, done, "--reread", more=["shop.c"], job=job_of(bench, "a", "c"))
    with running(bench, mirror_of(bench, "a", "c")):
        eventually("all records", lambda: offsets(bench, "c") == {"c": [*range(5)]})


@pytest.mark.soak
def test_a_table_that_lost_its_chain_is_not_a_new_one(make_bench: MakeBench) -> None:
    """⚑ It began with the next records, behind what had been handed over and not committed yet."""
    bench = make_bench(tables=("a", "b"))
    with running(bench, mirror_of(bench, "a", "b")) as hand_over:
        hand_over(*bench.produce(range(4)))
    lose(bench, tables=["b"])
    bench.hand_over(*bench.produce([4, 5]))
    with pytest.raises(HaltError, match=r"CHS-351.*shop\.b"), running(bench, mirror_of(bench, "a", "b")):
        pass

    job = ["-c", str(job_of(bench, "a", "b"))]
    assert CliRunner().invoke(app, ["mirror", "recover", "--yes", *job]).exit_code == 0
    with running(bench, mirror_of(bench, "a", "b")) as hand_over:
        hand_over(*bench.produce([6]))
        eventually("all", lambda: offsets(bench, "a", "b") == {"a": [*range(7)], "b": [*range(7)]})


def test_a_table_that_is_added_later(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ F-6.  Backfilled in pieces beside the running mirror, which is killed in between: no record lands twice."""
    monkeypatch.setattr(coordinator, "REREAD_OFFSETS", 3)
    bench = make_bench(tables=("a", "b"))
    with running(bench, mirror_of(bench, "a")) as hand_over:
        hand_over(*bench.produce(range(8)))
    with pytest.raises(HaltError, match=r"CHS-342.*shop\.b"), running(bench, mirror_of(bench, "a", "b", added="halt")):
        pass

    with running(bench, mirror_of(bench, "a", "b")) as hand_over:
        hand_over(*bench.produce([8, 9]))
    assert offsets(bench, "a", "b") == {"a": [*range(10)], "b": [8, 9]}

    row = {
        "table": "shop.b",
        "topic": bench.topic,
        "partition": 0,
        "reads": "[0, 8)",
        "offsets": 8,
        "asked_before": None,
    }
    assert asked(bench) == {"applied": False, "backfills": [row]}
    assert offsets(bench, "b") == {"b": [8, 9]}
    assert asked(bench, "--apply") == {"applied": True, "backfills": [row]}
    with running(bench, mirror_of(bench, "a", "b")) as hand_over:
        eventually("a first piece", lambda: len(offsets(bench, "b")["b"]) > 2)
    with running(bench, mirror_of(bench, "a", "b"), wait_s=None) as hand_over:  # with available_now
        hand_over(*bench.produce([10]))
    assert offsets(bench, "a", "b") == {"a": [*range(11)], "b": [*range(11)]}
    assert asked(bench)["backfills"] == []


@pytest.mark.soak
def test_a_record_that_does_not_fit_holds_up_its_backfill_only(make_bench: MakeBench) -> None:
    """⚑ It halted the whole mirror at every start, and nothing took the request back."""
    times = Schema(*(f if f.name != "name" else NestedField(2, "name", TimestampType()) for f in SCHEMA.fields))
    bench = make_bench(tables=("a", "b"), schemas={"b": times})

    def send(*names: str) -> tuple[int, int]:
        return produce(bench.kafka.bootstrap, bench.topic, 0, [{"id": n, "name": name} for n, name in enumerate(names)])

    time = "2026-01-01T00:00:00"
    with running(bench, mirror_of(bench, "a")) as hand_over:
        hand_over(*send(time, "no time", time))
    with running(bench, mirror_of(bench, "a", "b")) as hand_over:
        hand_over(*send(time))
    asked(bench, "--apply")
    configure("console", "info")  # a command, in this process, may have asked for errors only
    with capture_logs() as said, running(bench, mirror_of(bench, "a", "b"), wait_s=None) as hand_over:
        hand_over(*send(time))
    assert offsets(bench, "a", "b") == {"a": [*range(5)], "b": [3, 4]}
    assert [line["id"] for line in said if "backfill waits" in line["event"]] == ["CHS-511"]

    job = job_of(bench, "a", "b")
    job.write_text('[errors]\non_bad_value = "skip"\n' + job.read_text("utf-8"), "utf-8")
    with running(bench, open_mirror(load(job, environ={}), bench.admin), wait_s=None):
        pass
    assert offsets(bench, "b") == {"b": [0, 2, 3, 4]}


@pytest.mark.soak
def test_a_damaged_chain_of_a_table_whose_own_snapshots_expired(make_bench: MakeBench) -> None:
    """⚑ Without its chain, it was a new table: what waited for it was left out without a word."""
    bench = make_bench(tables=("a", "b"), schemas={"b": Schema(*SCHEMA.fields[:2])})
    with running(bench, mirror_of(bench, "a", "b")) as hand_over:
        hand_over(*bench.produce(range(4)))
    b = bench.catalog().load_table("shop.b")
    b.append(pa.table({"id": [100], "name": ["x"]}, schema=b.schema().as_arrow()))
    head = b.refresh().current_snapshot()
    assert head is not None
    gone = [each.snapshot_id for each in b.snapshots() if each != head]
    b.maintenance.expire_snapshots().by_ids(gone).commit()
    [key] = [key for key in b.properties if key.startswith("chsink.chain")]
    with bench.catalog().load_table("shop.b").transaction() as change:
        change.set_properties({key: "{"})
    with pytest.raises(HaltError, match="CHS-341") as halted, running(bench, mirror_of(bench, "a", "b")):
        pass
    says(halted.value, 'set mirror.added_tables = "halt" first')
    with bench.catalog().load_table("shop.b").transaction() as change:
        change.remove_properties(key)
    with pytest.raises(HaltError, match="CHS-342"), running(bench, mirror_of(bench, "a", "b", added="halt")):
        pass
