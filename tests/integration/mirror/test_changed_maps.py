"""``table_by`` changes again, beside a route without one, or while something fails: nothing that waits is lost."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest

from chsink.config import load
from chsink.embedded.topics import delete_records
from chsink.errors import ChsinkError, HaltError
from chsink.errors.halts import MIRROR_CHOICE_CHANGED
from chsink.kafka.admin import open_admin
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.mirror.tables import Committed, MirrorTable
from chsink.mirror.task import Share
from chsink.ports import Outcome
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import Bench
from tests.integration.mirror.commands import follow, run
from tests.integration.mirror.conftest import MakeBench
from tests.integration.mirror.test_table_by import begun, job_of, mirror_of, offsets, running, send
from tests.support.told import says

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def handed_over(bench: Bench, mirror: OpenMirror, kinds: str) -> None:
    """By a driver that is killed before the commit."""
    planned = OffsetRange(*send(bench, kinds))
    mirror.feeds().hand_over(Share(bench.tp(), planned), bench.records()(planned))


def test_a_change_that_was_undone_at_once_and_is_made_again(make_bench: MakeBench) -> None:
    """⚑ Found by an adversary: both maps began at one offset, so the list of the first table, which left, was not read,
    and what waited for a table that a record had named was lost.
    """
    bench, old, new = make_bench(tables=("a", "b", "c")), {"x": "a", "y": "b"}, {"x": "c", "y": "b"}
    begun(bench, old, "xyd")
    for map_ in (new, old):
        with running(bench, mirror_of(bench, map_, others="shop.{value}")):
            pass
    handed_over(bench, mirror_of(bench, old, others="shop.{value}"), "xyd")
    begun(bench, new, "xy")
    begun(bench, new, "xyd")
    every = [*range(len(bench.sent()))]
    assert sorted(at for each in offsets(bench, *"abcd").values() for at in each) == every


@pytest.mark.parametrize("how", ["undone", "failed"])
def test_another_change_after_one_that_was_undone(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The undone one was taken for the one in force: its table was said to lack records that it never had to hold."""
    bench = make_bench(tables=("a", "b", "c"))
    old = {"x": "a", "y": "b"}
    begin = MirrorTable.begin

    def killed(*arguments: Any, **more: Any) -> Committed:
        begin(*arguments, **more)
        raise RuntimeError("killed")

    with running(bench, mirror_of(bench, old)) as hand_over:
        hand_over(*send(bench, "xyxy"))
    with monkeypatch.context() as patched, suppress(ChsinkError):
        if how == "failed":
            patched.setattr(MirrorTable, "begin", killed)
        with running(bench, mirror_of(bench, {"x": "c", "y": "b"})):
            pass
    with running(bench, mirror_of(bench, old)) as hand_over:
        hand_over(*send(bench, "xyxy"))
    with running(bench, mirror_of(bench, {"x": "c", "y": "a"})) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, "a", "b", "c") == {"a": [0, 2, 4, 6, 9], "b": [1, 3, 5, 7], "c": [8]}


def beside_plain(bench: Bench, tables: str, *plain: str, added: str) -> OpenMirror:
    """A map of these tables, if any, and routes without one."""
    job = job_of(bench, dict(zip("xy", tables, strict=False)))
    text = job.read_text("utf-8").replace("enabled = true", f'enabled = true\nadded_tables = "{added}"')
    text = text if tables else text.partition("[[mirror.route]]")[0]
    routes = (f'[[mirror.route]]\ntopic = "{bench.topic}"\ntable = "shop.{name}"\n' for name in plain)
    job.write_text(text + "".join(routes), "utf-8")
    config = load(job, environ={})
    return open_mirror(config, open_admin(config))


@pytest.mark.parametrize("added", ["halt", "now"])
def test_a_map_is_replaced_beside_a_route_without_one(make_bench: MakeBench, added: str) -> None:
    """⚑ Found by an adversary: the new tables joined the one that takes all records, and what waited for the old ones
    was lost.  ⚑ The start that halted passed over it, so Kafka had to hold it still.
    """
    bench = make_bench(tables=("a", "b", "c", "d", "p"))

    def mirror(tables: str) -> OpenMirror:
        return beside_plain(bench, tables, "p", added=added)

    with running(bench, mirror("ab")) as hand_over:
        hand_over(*send(bench, "xyxy"))
    handed_over(bench, mirror("ab"), "xyxy")
    for missing in (True, False):
        with pytest.raises(HaltError, match="CHS-342") as error, running(bench, mirror("cd")):
            pass
        if missing:
            delete_records(bench.kafka.bootstrap, bench.topic, 0, 8)
            says(error.value, "first undo the change, run the mirror until", "and change table_by again")
            with running(bench, mirror("ab")):
                pass
    beside_plain(bench, "cd", "p", added=added)
    follow(bench, error.value, "--skip", job=bench.folder / "job.toml")
    with running(bench, mirror("cd")) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, *"abcd") == {"a": [0, 2, 4, 6], "b": [1, 3, 5, 7], "c": [8], "d": [9]}
    assert offsets(bench, "p") == {"p": [*range(10)]}


@pytest.mark.parametrize("added", ["halt", "now"])
def test_two_maps_of_which_no_start_took_the_first(make_bench: MakeBench, added: str) -> None:
    """The only table of the second is as new as if both were one change.  Undone, each is taken by itself."""
    bench = make_bench(tables=("a", "b", "c", "p"))

    def mirror(tables: str) -> OpenMirror:
        return beside_plain(bench, tables, "p", added=added)

    with running(bench, mirror("ab")) as hand_over:
        hand_over(*send(bench, "xyxy"))
    handed_over(bench, mirror("ab"), "xyxy")
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 8)
    with pytest.raises(HaltError, match="CHS-342") as error, running(bench, mirror("cc")):
        pass
    says(error.value, "first undo the change, run the mirror until", "and change table_by again")
    for tables in ("bc", "cc"):
        with running(bench, mirror(tables)) as hand_over:
            hand_over(*send(bench, "xy"))
    assert offsets(bench, *"abc") == {"a": [0, 2, 4, 6], "b": [1, 3, 5, 7, 8], "c": [9, 10, 11]}
    assert offsets(bench, "p") == {"p": [*range(12)]}


@pytest.mark.exit_of("MIRROR_CHOICE_CHANGED")
def test_a_map_comes_back_after_one_of_its_tables_had_all_records(make_bench: MakeBench) -> None:
    """The change was undone, as the message says, and it halted again."""
    bench = make_bench(tables=("a", "b"))
    with running(bench, beside_plain(bench, "ab", added="halt")) as hand_over:
        hand_over(*send(bench, "xyxy"))
    for _ in range(2):
        with running(bench, beside_plain(bench, "", "a", added="halt")) as hand_over:
            hand_over(*send(bench, "xy"))
        with (
            pytest.raises(HaltError, match="CHS-352") as error,
            running(bench, beside_plain(bench, "ab", added="halt")),
        ):
            pass
    says(
        error.value,
        "if no offsets were pending when you stopped the mirror",
        "run `chsink mirror resolve` with all tables",
    )
    follow(bench, error.value, "--skip", more=["shop.a", "shop.b"], job=bench.folder / "job.toml")
    with running(bench, beside_plain(bench, "ab", added="halt")) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, "a", "b") == {"a": [0, 2, 4, 5, 6, 7, 8], "b": [1, 3, 9]}


def test_a_map_that_is_lost(make_bench: MakeBench) -> None:
    """⚑ Found by an adversary: to give up what is missing led to the same halt as long as the map was another one."""
    bench = make_bench(tables=("a", "b", "c"))
    with running(bench, beside_plain(bench, "ab", added="halt")) as hand_over:
        hand_over(*send(bench, "xyxy"))
    handed_over(bench, beside_plain(bench, "ab", added="halt"), "xyxy")
    bench.delete_events()
    for tables in ("cb", "ba"):
        with (
            pytest.raises(HaltError, match="CHS-352"),
            running(bench, beside_plain(bench, tables, added="halt")),
        ):
            pass
    named = re.search(r"run `chsink (mirror resolve) TABLE… (--skip)` with all tables", MIRROR_CHOICE_CHANGED.runbook)
    assert named, MIRROR_CHOICE_CHANGED.runbook
    done = run(bench, [*named[1].split(), "shop.a", "shop.b", named[2]], bench.folder / "job.toml")
    assert done.exit_code == 0, done.output
    for tables in ("ba", "cb"):
        with running(bench, beside_plain(bench, tables, added="halt")) as hand_over:
            hand_over(*send(bench, "xy"))
    assert offsets(bench, *"abc") == {"a": [0, 2, 9], "b": [1, 3, 8, 11], "c": [10]}


def test_a_map_is_removed_and_a_table_of_all_records_is_added(make_bench: MakeBench) -> None:
    """It halted (CHS-342), although the other route had all records."""
    bench = make_bench(tables=("a", "b", "p", "q"))
    with running(bench, beside_plain(bench, "ab", "p", added="now")) as hand_over:
        hand_over(*send(bench, "xyxy"))
    with running(bench, beside_plain(bench, "", "p", "q", added="now")) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, *"abpq") == {"a": [0, 2], "b": [1, 3], "p": [*range(6)], "q": [4, 5]}


def test_a_start_that_fails_while_it_changes_the_map(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Found by an adversary: workers handed over by the new map, which the tables did not know, and neither that map
    nor the old one could start again.
    """
    bench, old, new = make_bench(tables=("a", "b")), {"x": "a", "y": "b"}, {"x": "b", "y": "a"}
    with running(bench, mirror_of(bench, old)) as hand_over:
        hand_over(*send(bench, "xyxy"))
    with monkeypatch.context() as patched:
        patched.setattr(MirrorTable, "begin", lambda *_, **__: Committed(Outcome.REFUSED, reason="read-only"))
        with pytest.raises(ChsinkError, match="CHS-717"), running(bench, mirror_of(bench, new)):
            pass
    planned = OffsetRange(*send(bench, "xyxy"))
    for map_ in (new, old):
        with pytest.raises(ChsinkError, match="CHS-712"):
            mirror_of(bench, map_).feeds().hand_over(Share(bench.tp(), planned), bench.records()(planned))
    with running(bench, mirror_of(bench, old)) as hand_over:
        hand_over(planned.start, planned.end)
    with running(bench, mirror_of(bench, new)) as hand_over:
        hand_over(*send(bench, "xy"))
    assert offsets(bench, "a", "b") == {"a": [0, 2, 4, 6, 9], "b": [1, 3, 5, 7, 8]}
