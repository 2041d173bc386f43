"""Each halt of the mirror is reached, what its fix says is done, and the mirror runs on: rows are records, exactly.

``exit_of`` names the entry of the catalogue (see ``tests/unit/errors/test_exits.py``).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.embedded.topics import delete_records
from chsink.errors import ChsinkError, PreflightError, halts
from chsink.errors.entry import Entry
from chsink.mirror.control import ControlSender
from chsink.mirror.coordinator import Coordinator
from chsink.mirror.events import DataWritten, decode, encode
from chsink.mirror.failures import as_error
from chsink.mirror.known_tables import Hole
from chsink.mirror.resolve import MirrorDecision, carry_out, decide
from chsink.mirror.tables import Committed, MirrorTable, PropertyKeys, TableRead
from chsink.mirror.task import Share
from chsink.mirror.topic import ensure_control_topic
from chsink.mirror.trail import as_sent
from chsink.mirror.worker import WorkerReport
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain
from chsink.statemachine.commit.resolve import TableVerdict
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.commands import follow, name_an_empty_table, run
from tests.support.told import option_of, says, statements_of, words_of

pytestmark = pytest.mark.slow
MakeBench = Callable[..., Bench]
CHOICES = [TableVerdict.REREAD, pytest.param(TableVerdict.SKIP, marks=pytest.mark.soak)]


def halted(bench: Bench, entry: Entry, act: Callable[[], Any]) -> ChsinkError:
    """The error that a user meets."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - it becomes an error of the catalogue below
        act()
    error = as_error(raised.value, bench.names)
    assert error is not None and error.name == entry.name, raised.value
    return error


def exactly_once(bench: Bench) -> None:
    for name in bench.tables:
        assert bench.landed(name) == bench.sent(), name


def land(bench: Bench, coordinator: Coordinator, *ids: int) -> None:
    bench.hand_over(*bench.produce(ids))
    bench.round(coordinator)


def table(bench: Bench, name: str = "orders") -> Table:
    return bench.catalog().load_table(f"shop.{name}")


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way_out", ["undo", *(pytest.param(choice, marks=pytest.mark.soak) for choice in TableVerdict)]
)
@pytest.mark.exit_of("MIRROR_ROLLED_BACK")
def test_a_table_that_was_rolled_back(make_bench: MakeBench, way_out: str) -> None:
    """⚑ R-6: what was pending at the rollback lands too."""
    bench = make_bench()
    coordinator = bench.coordinator()
    for number in range(2):
        land(bench, coordinator, number)
    first, second = (s.snapshot_id for s in table(bench).snapshots())
    table(bench).manage_snapshots().rollback_to_snapshot(first).commit()
    bench.hand_over(*bench.produce([7]))
    halted(bench, halts.MIRROR_ROLLED_BACK, lambda: bench.round(coordinator))
    error = halted(bench, halts.MIRROR_ROLLED_BACK, bench.coordinator)
    if way_out == "undo":
        says(error, "back to that snapshot")
        [that] = re.findall(r"\d{15,}", error.message)
        assert int(that) == second
        table(bench).manage_snapshots().set_current_snapshot(int(that)).commit()
    else:
        follow(bench, error, f"--{way_out}")
    later = bench.coordinator()
    bench.rounds(later, 3)
    land(bench, later, 8)
    if way_out == TableVerdict.SKIP:
        assert sorted(n for _, _, n in bench.landed()) == [0, 7, 8]
    else:
        exactly_once(bench)


@pytest.mark.soak
def test_a_table_that_was_rolled_back_to_before_the_mirror(make_bench: MakeBench) -> None:
    """⚑ Its history is whole, and its row tells that it is not of this topic-partition."""
    bench = make_bench()
    write(bench, 99, at=(9, 0))
    land(bench, bench.coordinator(), 1, 2)
    table(bench).manage_snapshots().rollback_to_snapshot(table(bench).snapshots()[0].snapshot_id).commit()
    bench.resolve(TableVerdict.REREAD)
    bench.rounds(bench.coordinator(), 2)
    assert bench.landed() - bench.sent() == {(9, 0, 99): 1} and not bench.sent() - bench.landed()


def write(bench: Bench, number: int, name: str = "orders", at: tuple[int | None, int | None] = (None, None)) -> None:
    """A row of another program."""
    row = {"id": [number], "name": ["x"], "_kafka_partition": [at[0]], "_kafka_offset": [at[1]]}
    table(bench, name).append(pa.table(row, schema=table(bench, name).schema().as_arrow()))


@pytest.mark.soak
@pytest.mark.parametrize("way_out", ["skip", "another table"])
@pytest.mark.exit_of("MIRROR_ROWS_UNKNOWN")
def test_rows_that_were_written_after_a_rollback(make_bench: MakeBench, way_out: str) -> None:
    """⚑ They may be those that were rolled back."""
    bench = make_bench()
    coordinator = bench.coordinator()
    for number in range(2):
        land(bench, coordinator, number)
    table(bench).manage_snapshots().rollback_to_snapshot(table(bench).snapshots()[0].snapshot_id).commit()
    write(bench, 1)
    *words, choice = words_of(halted(bench, halts.MIRROR_ROLLED_BACK, bench.coordinator), "--reread")
    assert choice == "--reread"
    if way_out == "skip":
        follow_refusal(bench, words, "--skip")
        land(bench, bench.coordinator(), 2)
        assert sorted(n for _, _, n in bench.landed()) == [0, 1, 2]
        return
    says(
        refused(bench, [*words, choice]),
        "create an empty table, name it in [[mirror.route]] instead, and run the command",
    )
    bench.catalog().create_table("shop.anew", SCHEMA)
    bench.tables = ("anew",)
    assert run(bench, [*words[:2], "shop.anew", choice]).exit_code == 0
    later = bench.coordinator()
    bench.rounds(later, 2)
    land(bench, later, 2)
    exactly_once(bench)


def refused(bench: Bench, words: Sequence[str]) -> Result:
    """The command names rows of which nobody knows whose they are."""
    done = run(bench, words)
    assert done.exit_code == 2 and "error CHS-348" in done.stderr, done.output
    return done


def follow_refusal(bench: Bench, words: Sequence[str], choice: str) -> None:
    """With --reread it is refused, and says to pass the other choice."""
    said = refused(bench, [*words, "--reread"])
    done = run(bench, [*words, option_of(said, choice)])
    assert done.exit_code == 0, done.output


@pytest.mark.soak
@pytest.mark.parametrize("damage", ["unreadable", "older", "origin"])
@pytest.mark.exit_of("MIRROR_CHAIN_DAMAGED")
def test_a_chain_that_was_changed(make_bench: MakeBench, damage: str) -> None:
    bench = make_bench()
    coordinator = bench.coordinator()
    land(bench, coordinator, 1)
    keys = PropertyKeys(bench.group, bench.control_topic)
    key = keys.origin(bench.tp()) if damage == "origin" else keys.chain
    text = table(bench).properties[key] if damage == "older" else "{"
    land(bench, coordinator, 2)
    with table(bench).transaction() as change:
        change.set_properties({key: text})
    error = halted(bench, halts.MIRROR_CHAIN_DAMAGED, bench.coordinator)
    [statement] = statements_of(error, "ALTER TABLE")
    named = re.fullmatch(r"ALTER TABLE (\S+) UNSET TBLPROPERTIES \('(.+)'\)", statement)
    assert named, statement
    with bench.catalog().load_table(named[1]).transaction() as change:
        change.remove_properties(named[2])
    land(bench, bench.coordinator(), 3)
    exactly_once(bench)


@pytest.mark.soak
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.exit_of("MIRROR_CHAIN_MISSING")
def test_a_second_table_for_a_topic(make_bench: MakeBench, choice: TableVerdict) -> None:
    bench = make_bench(partitions=2)
    land(bench, bench.coordinator(), 1, 2)
    bench.catalog().create_table("shop.archive", SCHEMA)
    bench.tables = ("orders", "archive")
    error = halted(bench, halts.MIRROR_CHAIN_MISSING, bench.coordinator)
    follow(bench, error, "shop.archive", f"--{choice}")
    later = bench.coordinator()
    bench.round(later)
    land(bench, later, 3)
    assert bench.landed("orders") == bench.sent()
    assert sorted(n for _, _, n in bench.landed("archive")) == ([1, 2, 3] if choice is TableVerdict.REREAD else [3])


@pytest.mark.soak
def test_a_second_table_that_holds_rows(make_bench: MakeBench) -> None:
    """⚑ Nobody knows whether they are the topic's."""
    bench = make_bench()
    land(bench, bench.coordinator(), 1, 2)
    bench.catalog().create_table("shop.archive", SCHEMA)
    write(bench, 1, "archive")
    bench.tables = ("orders", "archive")
    halted(bench, halts.MIRROR_ROWS_UNKNOWN, lambda: bench.resolve(TableVerdict.REREAD))
    bench.resolve(TableVerdict.SKIP)
    land(bench, bench.coordinator(), 3)
    assert sorted(n for _, _, n in bench.landed("archive")) == [1, 3]


@pytest.mark.parametrize("compacted", [pytest.param(False, marks=pytest.mark.soak), True])
@pytest.mark.exit_of("MIRROR_ROWS_FOUND")
def test_rows_of_which_nobody_speaks_any_more(make_bench: MakeBench, compacted: bool) -> None:
    """⚑ Properties removed, own snapshots expired, groups gone: every record landed once more."""
    bench = make_bench(partitions=2)
    first = bench.coordinator()
    bench.hand_over(*bench.produce([1, 2, 3], 1), 1)
    land(bench, first, 4, 5)
    bench.hand_over(*bench.produce([6]))
    first.close()
    bench.coordinators.remove(first)
    if compacted:
        table(bench).overwrite(table(bench).scan().to_arrow())
    write(bench, 99)
    table(bench).delete("id = 99")
    lose_everything(bench)
    for _ in range(2):
        error = halted(bench, halts.MIRROR_ROWS_FOUND, bench.coordinator)
    assert "offset" in error.message
    halted(bench, halts.MIRROR_ROWS_UNKNOWN, lambda: bench.resolve(TableVerdict.REREAD))
    follow(bench, error, "recover")
    later = bench.coordinator()
    assert (bench.group_at(0), bench.group_at(1)) == (2, 3)
    bench.hand_over(2, 3)
    land(bench, later, 7)
    assert bench.landed() == bench.sent()


def lose_everything(bench: Bench) -> None:
    """The mirror's properties, snapshots and groups."""
    with table(bench).transaction() as change:
        change.remove_properties(*(name for name in table(bench).properties if name.startswith("chsink.")))
    head = table(bench).current_snapshot()
    older = [s.snapshot_id for s in table(bench).snapshots() if head is None or s.snapshot_id != head.snapshot_id]
    table(bench).maintenance.expire_snapshots().by_ids(older).commit()
    bench.delete_groups(bench.group)
    bench.kafka.delete_topic(bench.control_topic)
    bench.kafka.create_topic(bench.control_topic, 2)


@pytest.mark.exit_of("MIRROR_TABLE_GONE")
def test_a_table_that_was_dropped(make_bench: MakeBench) -> None:
    """F-5.  ⚑ What was handed over for the dropped table is not committed to the one of its name."""
    bench = make_bench()
    coordinator = bench.coordinator()
    land(bench, coordinator, 1)
    bench.hand_over(*bench.produce([2]))
    bench.catalog().drop_table("shop.orders")
    error = halted(bench, halts.MIRROR_TABLE_GONE, lambda: bench.round(coordinator))
    says(error, "or create it empty and run")
    bench.catalog().create_table("shop.orders", SCHEMA)
    halted(bench, halts.MIRROR_CHAIN_MISSING, bench.coordinator)
    follow(bench, error, "shop.orders", "--reread")
    later = bench.coordinator()
    bench.rounds(later, 2)
    land(bench, later, 3)
    exactly_once(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_TABLE_RECREATED")
def test_a_table_that_was_made_again_while_the_mirror_ran(make_bench: MakeBench) -> None:
    """R-10."""
    bench = make_bench()
    coordinator = bench.coordinator()
    land(bench, coordinator, 1)
    bench.catalog().drop_table("shop.orders")
    bench.catalog().create_table("shop.orders", SCHEMA)
    bench.hand_over(*bench.produce([2]))
    follow(bench, halted(bench, halts.MIRROR_TABLE_RECREATED, lambda: bench.round(coordinator)), "--reread")
    later = bench.coordinator()
    bench.rounds(later, 2)
    exactly_once(bench)


def test_the_command_that_messages_name(make_bench: MakeBench) -> None:
    bench = make_bench(tables=("orders", "archive"))
    coordinator = bench.coordinator()
    for number in range(2):
        land(bench, coordinator, number)
    table(bench).manage_snapshots().rollback_to_snapshot(table(bench).snapshots()[0].snapshot_id).commit()
    job = bench.job_file()
    shown = CliRunner().invoke(app, ["mirror", "resolve", "shop.orders", "--reread", "-c", str(job)], input="y\n")
    assert shown.exit_code == 0 and "[1, 2)" in shown.output, shown.output
    assert "Let the mirror read again what these tables lack? [y/N]" in shown.output
    again = CliRunner().invoke(app, ["mirror", "resolve", "shop.orders", "--skip", "--yes", "--json", "-c", str(job)])
    assert json.loads(again.output)["changes"][0]["continues_at"] == 1, again.output
    for wrong in (["shop.orders"], ["shop.other", "--skip"], ["shop.orders", "--skip", "--reread"]):
        assert CliRunner().invoke(app, ["mirror", "resolve", *wrong, "-c", str(job)]).exit_code == 2


# --- data files ------------------------------------------------------------------------------------------------------


def deleted(bench: Bench, report: WorkerReport) -> None:
    """What another program does that takes these files for orphans."""
    for written in report.tables.values():
        for file in written.files:
            Path(file.file_path.removeprefix("file://")).unlink()


@pytest.mark.soak
def test_files_that_were_deleted_before_they_were_committed(make_bench: MakeBench) -> None:
    """⚑ A snapshot would refer to files that are gone.  Kafka still holds the records: they are written again."""
    bench = make_bench(tables=("orders", "archive"))
    coordinator = bench.coordinator()
    land(bench, coordinator, 1)
    deleted(bench, bench.hand_over(*bench.produce([2, 3])))
    bench.hand_over(*bench.produce([4]))
    bench.round(coordinator)
    assert bench.snapshots() == 1
    bench.round(coordinator)
    exactly_once(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_FILES_GONE")
def test_files_that_were_deleted_and_kafka_no_longer_holds_their_records(make_bench: MakeBench) -> None:
    bench = make_bench()
    coordinator = bench.coordinator()
    land(bench, coordinator, 1)
    deleted(bench, bench.hand_over(*bench.produce([2, 3])))
    bench.hand_over(*bench.produce([4]))
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 2)
    error = halted(bench, halts.MIRROR_FILES_GONE, lambda: bench.round(coordinator))
    assert "[1, 3)" in error.message
    follow(bench, error, "shop.orders", "--reread")
    later = bench.coordinator()
    bench.rounds(later, 3)
    land(bench, later, 5)
    assert sorted(n for _, _, n in bench.landed()) == [1, 3, 4, 5]


def test_the_rest_lands_before_a_halt_about_deleted_files(make_bench: MakeBench) -> None:
    """⚑ It may be the last commit: what was handed over of a topic that was created again cannot be read once more."""
    bench = make_bench(partitions=2)
    coordinator = bench.coordinator()
    deleted(bench, bench.hand_over(*bench.produce([1])))
    bench.hand_over(*bench.produce([2], 1), 1)
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 1)
    halted(bench, halts.MIRROR_FILES_GONE, lambda: bench.round(coordinator))
    assert bench.landed() == {(1, 0, 2): 1}


@pytest.mark.soak
def test_files_of_a_backfill_that_were_deleted(make_bench: MakeBench) -> None:
    """⚑ Kafka no longer held its first record: every start halted, and no command helped."""
    bench = make_bench()
    land(bench, bench.coordinator(), 1, 2, 3)
    bench.catalog().create_table("shop.archive", SCHEMA)
    bench.tables = ("orders", "archive")
    carry_out(bench.names, decide(bench.names, bench.targets(), ["shop.archive"], bench.admin, TableVerdict.SKIP))
    assert run(bench, ["mirror", "backfill", "shop.archive", "--apply"]).exit_code == 0
    coordinator = bench.coordinator()

    def reread(hole: Hole) -> None:
        bench.reread(hole)
        if hole.range.start == 0:
            [file] = (bench.folder / "lake").rglob("archive/**/*.parquet")
            file.unlink()
            delete_records(bench.kafka.bootstrap, bench.topic, 0, 1)

    coordinator.reread = reread
    bench.rounds(coordinator, 3)
    assert bench.landed("archive") == bench.sent() == {(0, 1, 2): 1, (0, 2, 3): 1}


@pytest.mark.soak
@pytest.mark.parametrize("way_out", ["skip", "another table"])
@pytest.mark.exit_of("MIRROR_ROWS_GONE")
def test_a_table_that_was_rolled_back_and_whose_snapshots_expired(make_bench: MakeBench, way_out: str) -> None:
    """⚑ Nobody can tell by the snapshots that are left, but the rows were counted."""
    bench = make_bench()
    coordinator = bench.coordinator()
    for number in range(2):
        land(bench, coordinator, number)
    old = [s.snapshot_id for s in table(bench).snapshots()]
    table(bench).manage_snapshots().rollback_to_snapshot(old[0]).commit()
    table(bench).append(table(bench).schema().as_arrow().empty_table())
    table(bench).maintenance.expire_snapshots().by_ids(old).commit()
    error = halted(bench, halts.MIRROR_ROWS_GONE, bench.coordinator)
    halted(bench, halts.MIRROR_ROWS_UNKNOWN, lambda: bench.resolve(TableVerdict.REREAD))
    if way_out == "skip":
        follow(bench, error, "shop.orders", "--skip")
        land(bench, bench.coordinator(), 8)
        assert sorted(n for _, _, n in bench.landed()) == [0, 8]
        return
    name_an_empty_table(bench, error)
    later = bench.coordinator()
    bench.rounds(later, 2)
    land(bench, later, 8)
    exactly_once(bench)


# --- Kafka -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.exit_of("MIRROR_TOPIC_RECREATED")
def test_a_topic_that_was_made_again(make_bench: MakeBench, choice: TableVerdict) -> None:
    """⚑ What was handed over of the earlier topic lands first: nobody can read it again."""
    bench = make_bench()
    land(bench, bench.coordinator(), 1, 2)
    earlier = bench.feeds()
    bench.hand_over(*bench.produce([3]))
    gone = bench.sent()
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    start, end = bench.produce([10, 11, 12, 13])
    share = Share(bench.tp(), OffsetRange(end - 1, end))
    with ControlSender(bench.names, bench.names.worker_id(bench.tp()), bench.group) as sender:
        sender.send("a group that survived", [], {bench.tp(): end - 1})
    halted(bench, halts.MIRROR_TOPIC_RECREATED, lambda: earlier.hand_over(share, bench.records()(share.range)))
    error = halted(bench, halts.MIRROR_TOPIC_RECREATED, bench.coordinator)
    assert bench.landed() == gone
    says(error, "set mirror.checkpoint to a new folder")
    assert f"the log of {bench.tp()} is not the one" in follow(bench, error, "shop.orders", f"--{choice}").stdout
    later = bench.coordinator()
    bench.hand_over(start, end)
    bench.rounds(later, 2)
    land(bench, later, 14)
    wanted = bench.sent() if choice is TableVerdict.REREAD else {(0, 4, 14): 1}
    assert bench.landed() - gone == wanted


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_TOPIC_RECREATED")
@pytest.mark.parametrize("survived", [True, False])
def test_a_topic_that_was_made_again_with_the_same_records(make_bench: MakeBench, *, survived: bool) -> None:
    """⚑ Nothing said that the new table needs a decision, too."""
    bench = make_bench()
    land(bench, bench.coordinator(), 1, 2)
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    start, end = bench.produce([1, 2, 3])
    if survived:
        with ControlSender(bench.names, bench.names.worker_id(bench.tp()), bench.group) as sender:
            sender.send("a group that survived", [], {bench.tp(): 2})
    error = halted(bench, halts.MIRROR_TOPIC_RECREATED, bench.coordinator)
    says(error, "set mirror.checkpoint to a new folder")
    name_an_empty_table(bench, error)
    later = bench.coordinator()
    bench.hand_over(start, end)
    bench.rounds(later, 2)
    land(bench, later, 4)
    assert sorted(value for *_, value in bench.landed("anew").elements()) == [1, 2, 3, 4]


@pytest.mark.soak
def test_a_halt_is_seen_behind_a_topic_that_was_made_again(make_bench: MakeBench) -> None:
    """⚑ Without groups, what was handed over of the earlier topic is read again.  Each start said CHS-345 of a table that
    was resolved, and never which other one lacks records.
    """
    bench = make_bench()
    other = Bench(bench.kafka, bench.folder, 1, ("other",), group=bench.group, control_topic=bench.control_topic)
    targets = bench.targets() | other.targets()
    bench.targets = targets.copy  # type: ignore[method-assign]
    land(bench, bench.coordinator(), 1, 2)
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    halted(bench, halts.MIRROR_TOPIC_RECREATED, bench.coordinator)
    carry_out(bench.names, decide(bench.names, targets, ["shop.orders"], bench.admin, TableVerdict.REREAD))
    land(bench, bench.coordinator(), 11)
    other.produce([1, 2])
    delete_records(bench.kafka.bootstrap, other.topic, 0, 2)
    bench.delete_groups(bench.names.group, bench.names.control_group)
    halted(bench, halts.MIRROR_RECORDS_GONE, bench.coordinator)


@pytest.mark.soak
def test_a_decision_whose_answer_was_lost(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ It was stored, the command said that it did nothing, and the group did not move."""
    bench = make_bench()
    land(bench, bench.coordinator(), 1, 2)
    gone = bench.sent()
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    store = MirrorTable.decide
    monkeypatch.setattr(MirrorTable, "decide", lambda *args: replace(store(*args), outcome=Outcome.UNKNOWN))
    bench.resolve(TableVerdict.REREAD)
    assert bench.group_at() == 0 and bench.snapshots() == 2
    land(bench, bench.coordinator(), 11)
    assert bench.landed() - gone == bench.sent()


@pytest.mark.soak
def test_a_topic_that_was_deleted(make_bench: MakeBench) -> None:
    """CHS-201 for all tables.  Nothing that was handed over is lost: it lands once the topic exists again."""
    bench = make_bench()
    coordinator = bench.coordinator()
    land(bench, coordinator, 1, 2)
    bench.hand_over(*bench.produce([3]))
    gone = bench.sent()
    bench.kafka.delete_topic(bench.topic)
    for step in (lambda: bench.round(coordinator), bench.coordinator):
        with pytest.raises(PreflightError, match="CHS-201"):
            step()
    bench.kafka.create_topic(bench.topic, 1)
    halted(bench, halts.MIRROR_TOPIC_RECREATED, bench.coordinator)
    assert bench.landed() == gone


@pytest.mark.soak
def test_a_topic_that_was_made_again_while_a_coordinator_runs(make_bench: MakeBench) -> None:
    """⚑ With fewer partitions, too.  Whoever resolves this halt without another start gives up what was handed over and not committed."""
    bench = make_bench(partitions=2)
    coordinator = bench.coordinator()
    land(bench, coordinator, 1, 2)
    bench.hand_over(*bench.produce([3]))
    gone = bench.sent()
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    halted(bench, halts.MIRROR_TOPIC_RECREATED, lambda: bench.round(coordinator))
    assert bench.landed() == gone
    bench.resolve(TableVerdict.REREAD)
    land(bench, bench.coordinator(), 14)
    assert bench.landed() - gone == bench.sent()


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_LOG_SHRANK")
def test_a_log_that_lost_records(make_bench: MakeBench) -> None:
    """⚑ What was handed over of lost records must not land behind new ones.  (A broker loses none for a test: the table
    and the group are set to where they would be.)
    """
    bench = make_bench()
    coordinator = bench.coordinator()
    land(bench, coordinator, 1, 2)
    target = bench.targets()["shop.orders"].table
    read = target.read()
    assert read is not None and read.view.stored is not None
    ahead = {bench.tp(): replace(read.view.stored.links[bench.tp()], until=5)}
    target.move(read, replace(read.view.stored, links=ahead), uuid.uuid4())
    with ControlSender(bench.names, bench.names.worker_id(bench.tp()), bench.group) as sender:
        sender.send("lost", [], {bench.tp(): 5})
    error = halted(bench, halts.MIRROR_LOG_SHRANK, lambda: bench.rounds(coordinator, 2))
    assert "the log ends at 2" in error.message
    halted(bench, halts.MIRROR_LOG_SHRANK, bench.coordinator)
    halted(bench, halts.MIRROR_ROWS_UNKNOWN, lambda: bench.resolve(TableVerdict.REREAD))
    says(error, "set mirror.checkpoint to a new folder")
    follow(bench, error, "shop.orders", "--skip")
    later = bench.coordinator()
    land(bench, later, 3, 4)
    land(bench, later, 5, 6)
    exactly_once(bench)


@pytest.mark.soak
def test_what_waits_for_other_partitions_outlives_a_decision(make_bench: MakeBench) -> None:
    """⚑ The events of a log that lost records are passed, and all others were passed with them: Kafka holds their records
    no longer.
    """
    bench = make_bench(partitions=2, tables=("orders", "archive"))
    coordinator = bench.coordinator()
    land(bench, coordinator, 1)
    bench.hand_over(*bench.produce([2], 1), 1)
    delete_records(bench.kafka.bootstrap, bench.topic, 1, 1)
    with ControlSender(bench.names, bench.names.worker_id(bench.tp()), bench.group) as sender:
        sender.send("lost", [], {bench.tp(): 5})
    bench.catalog().drop_table("shop.orders")
    bench.catalog().create_table("shop.orders", SCHEMA)
    decision = decide(bench.names, bench.targets(), ["shop.orders"], bench.admin, TableVerdict.REREAD)
    carry_out(bench.names, decision)
    bench.rounds(bench.coordinator(), 2)
    assert bench.landed("archive") == {(0, 0, 1): 1, (1, 0, 2): 1}
    assert bench.landed() == {(0, 0, 1): 1}


def decided_to_forget(bench: Bench) -> MirrorDecision:
    """A decision about one of two tables, after Kafka lost records that had been handed over."""
    first = bench.coordinator()
    land(bench, first, 1)
    first.close()
    lost = next(iter(bench.records()(OffsetRange(0, 1)))).to_pylist()[0]
    bench.worker().run(
        OffsetRange(1, 3), lambda _: [pa.RecordBatch.from_pylist([lost | {"offset": n}]) for n in (1, 2)]
    )
    bench.catalog().drop_table("shop.orders")
    bench.catalog().create_table("shop.orders", SCHEMA)
    decision = decide(bench.names, bench.targets(), ["shop.orders"], bench.admin, TableVerdict.REREAD)
    assert decision.forgotten
    return decision


@pytest.mark.soak
def test_what_was_forgotten_does_not_come_back_without_groups(make_bench: MakeBench) -> None:
    """⚑ Records that Kafka lost, and had been handed over, landed with the new ones: by a table that was not named, and
    by one that stored nothing of the control topic.
    """
    bench = make_bench(tables=("orders", "archive"))
    carry_out(bench.names, decided_to_forget(bench))
    bench.delete_groups(bench.names.group, bench.names.control_group)
    later = bench.coordinator()
    bench.round(later)
    land(bench, later, 11, 12, 13)
    exactly_once(bench)


def test_a_damaged_table_beside_one_that_is_decided(make_bench: MakeBench) -> None:
    """⚑ All that waited was passed before the other table was read."""
    bench = make_bench(tables=("orders", "archive"))
    decision = decided_to_forget(bench)
    chain = bench.targets()["shop.archive"].table.keys.chain
    archive = bench.catalog().load_table("shop.archive")
    archive.transaction().set_properties({chain: "damaged"}).commit_transaction()
    before = as_sent(bench.names, whole=True)
    halted(bench, halts.MIRROR_CHAIN_DAMAGED, lambda: carry_out(bench.names, decision))
    assert as_sent(bench.names, whole=True) == before
    archive.refresh().transaction().remove_properties(chain).commit_transaction()
    carry_out(bench.names, decision)
    later = bench.coordinator()
    bench.round(later)
    land(bench, later, 11, 12, 13)
    exactly_once(bench)


@pytest.mark.soak
def test_other_tables_pass_what_is_forgotten_in_a_later_attempt(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ One refusal ended the command between the events that were passed and the decision."""
    bench = make_bench(tables=("orders", "archive"))
    decision = decided_to_forget(bench)
    move, ids = MirrorTable.move, list[uuid.UUID]()

    def moved(table: MirrorTable, read: TableRead, chain: Chain, commit_id: uuid.UUID) -> Committed:
        ids.append(commit_id)
        if len(ids) == 1:
            return Committed(Outcome.REFUSED, reason="busy")
        return replace(move(table, read, chain, commit_id), outcome=Outcome.UNKNOWN)  # the answer is lost

    with monkeypatch.context() as patched:
        patched.setattr(MirrorTable, "move", moved)
        carry_out(bench.names, decision)
    assert len(ids) == 2
    assert len(set(ids)) == 1
    later = bench.coordinator()
    bench.round(later)
    land(bench, later, 11, 12, 13)
    exactly_once(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_RECORDS_GONE")
def test_records_that_kafka_deleted_before_they_landed(make_bench: MakeBench) -> None:
    bench = make_bench()
    first = bench.coordinator()
    land(bench, first, 1)
    bench.hand_over(*bench.produce([2, 3, 4]))
    bench.kafka.delete_topic(bench.control_topic)
    bench.kafka.create_topic(bench.control_topic, 2)
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 3)
    error = halted(bench, halts.MIRROR_RECORDS_GONE, lambda: bench.rounds(bench.coordinator(), 2))
    assert "[1, 3)" in error.message
    says(error, "set mirror.checkpoint to a new folder")
    assert "[3, 4)" in follow(bench, error, "shop.orders", "--reread").stdout
    later = bench.coordinator()
    bench.rounds(later, 2)
    bench.hand_over(*bench.produce([5]))
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 5)
    bench.resolve(TableVerdict.REREAD)
    land(bench, bench.coordinator(), 6)
    assert sorted(n for _, _, n in bench.landed()) == [1, 4, 5, 6]


def test_a_group_that_is_lost_while_kafka_deletes_what_waits(make_bench: MakeBench) -> None:
    """⚑ The start committed all of it, and halted all the same (CHS-346)."""
    bench = make_bench()
    land(bench, bench.coordinator(), 1)
    bench.hand_over(*bench.produce([2, 3, 4]))
    bench.delete_groups(bench.group)
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 3)
    later = bench.coordinator()
    assert bench.group_at() == 4
    land(bench, later, 5)
    assert sorted(n for _, _, n in bench.landed()) == [1, 2, 3, 4, 5]


@pytest.mark.soak
def test_one_start_names_every_table_that_lacks_deleted_records(make_bench: MakeBench) -> None:
    bench = make_bench(tables=("orders", "archive"))
    first = bench.coordinator()
    land(bench, first, 1)
    bench.hand_over(*bench.produce([2, 3, 4]))
    bench.kafka.delete_topic(bench.control_topic)
    bench.kafka.create_topic(bench.control_topic, 2)
    delete_records(bench.kafka.bootstrap, bench.topic, 0, 3)
    error = halted(bench, halts.MIRROR_RECORDS_GONE, lambda: bench.rounds(bench.coordinator(), 2))
    for name in bench.tables:
        follow(bench, error, f"shop.{name}", "--reread")
    later = bench.coordinator()
    bench.rounds(later, 2)
    land(bench, later, 5)
    assert [sorted(n for _, _, n in bench.landed(name)) for name in bench.tables] == [[1, 4, 5], [1, 4, 5]]


@pytest.mark.soak
def test_a_long_hole_is_read_in_parts_and_other_tables_are_committed_between(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole of 128 s held up the commits of every table.  The next round begins at once while a part is left."""
    monkeypatch.setattr("chsink.mirror.coordinator.REREAD_OFFSETS", 2)
    bench = make_bench(tables=("orders", "archive"))
    land(bench, bench.coordinator(), *range(5))
    table(bench).manage_snapshots().remove_branch("main").commit()
    bench.resolve(TableVerdict.REREAD)
    later = bench.coordinator()
    parts: list[OffsetRange] = []

    def reread(hole: Hole) -> None:
        assert bench.landed("archive") == bench.sent()
        parts.append(hole.range)
        bench.reread(hole)

    later.reread = reread
    bench.hand_over(*bench.produce([5]))
    bench.round(later)
    for _ in range(50):  # no time passes
        later.tick(0.1)
    bench.round(later)
    exactly_once(bench)
    assert parts == [OffsetRange(0, 2), OffsetRange(2, 4), OffsetRange(4, 5)]


def test_records_that_kafka_deletes_after_they_were_read(make_bench: MakeBench) -> None:
    """Retention passes them while their files are written: they land all the same."""
    bench = make_bench()
    coordinator = bench.coordinator()
    share = Share(bench.tp(), OffsetRange(*bench.produce([1, 2, 3])))

    def records() -> Iterator[pa.RecordBatch]:
        yield from bench.records()(share.range)
        delete_records(bench.kafka.bootstrap, bench.topic, 0, 2)

    bench.started.hand_over(share, records())
    bench.round(coordinator)
    assert sorted(n for _, _, n in bench.landed()) == [1, 2, 3]


@pytest.mark.exit_of("MIRROR_EVENTS_DAMAGED")
def test_events_that_contradict_each_other(make_bench: MakeBench) -> None:
    """Somebody else wrote to the control topic under this sink's name."""
    bench = make_bench()
    coordinator = bench.coordinator()
    land(bench, coordinator, 1)
    piece = OffsetRange(*bench.produce([2]))
    [event] = bench.worker()._written(piece, bench.records(), [bench.work("orders")], {})
    found = decode(event)
    assert found is not None and isinstance(found.payload, DataWritten) and found.payload.tag is not None
    other = replace(found.payload, tag=replace(found.payload.tag, part=1, parts=2))
    with ControlSender(bench.names, f"someone-{uuid.uuid4()}", "someone") as sender:
        sender.send("x", [event, encode(replace(found, payload=other))], {})
    error = halted(bench, halts.MIRROR_EVENTS_DAMAGED, lambda: bench.rounds(coordinator, 2))
    says(error, "Stop the mirror, set mirror.control_topic to a new name, and start again: chsink creates the topic")
    bench.control_topic += "-anew"
    ensure_control_topic(bench.names)
    later = bench.coordinator()
    bench.hand_over(piece.start, piece.end)
    bench.round(later)
    exactly_once(bench)


@pytest.mark.soak
def test_a_file_that_several_events_name_lands_once(make_bench: MakeBench) -> None:
    """⚑ Somebody else names our files under this sink's name, for other ranges, before and after their commit.  The
    coordinator failed in every round with KeyError, and the rows of a committed file landed twice.
    """
    bench = make_bench()
    coordinator = bench.coordinator()
    start, end = bench.produce([1, 2, 3])
    bench.hand_over(start, end)
    [event] = [e for e in map(_written, bench.control_records()) if e is not None]

    def somebody_names_it_for(first: int, until: int) -> None:
        tag = replace(event.payload.tag, unit=f"{uuid.uuid4()}/shop.orders", start=first, until=until)
        same_unit = replace(event.payload.tag, start=first, until=until)
        events = [encode(replace(event, payload=replace(event.payload, tag=t))) for t in (tag, same_unit)]
        for value in events:
            with ControlSender(bench.names, f"someone-{uuid.uuid4()}", "someone") as sender:
                sender.send("x", [value], {})

    somebody_names_it_for(start, end - 1)
    somebody_names_it_for(end, end + 3)
    bench.rounds(coordinator, 2)
    assert bench.landed() == bench.sent()
    somebody_names_it_for(end, end + 3)
    bench.hand_over(*bench.produce([4, 5, 6]))
    bench.rounds(coordinator, 2)
    bench.rounds(bench.coordinator(), 2)
    assert bench.landed() == bench.sent() and bench.snapshots() == 2


def _written(record: Any) -> Any:
    event = decode(record.value or b"")
    return event if event is not None and isinstance(event.payload, DataWritten) else None


def test_an_event_that_makes_no_sense_is_left_out(make_bench: MakeBench) -> None:
    """Its fields are ours, its values are not."""
    bench = make_bench()
    coordinator = bench.coordinator()
    piece = OffsetRange(*bench.produce([2]))
    [event] = bench.worker()._written(piece, bench.records(), [bench.work("orders")], {})
    found = decode(event)
    assert found is not None and isinstance(found.payload, DataWritten) and found.payload.tag is not None
    wrong = [replace(found.payload.tag, parts=0), replace(found.payload.tag, until=-1)]
    events = [encode(replace(found, payload=replace(found.payload, tag=tag))) for tag in wrong]
    with ControlSender(bench.names, f"someone-{uuid.uuid4()}", "someone") as sender:
        sender.send("x", [*events, json.dumps({}).encode()], {})
    bench.hand_over(piece.start, piece.end)
    bench.round(coordinator)
    exactly_once(bench)
