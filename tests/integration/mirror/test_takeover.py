"""``chsink mirror takeover``: tables of Iceberg's Kafka Connect sink are continued exactly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyiceberg.schema import Schema
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.tables import MirrorTable
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import TopicPartition
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.commands import (
    fix_of_finding,
    follow,
    name_an_empty_table,
    problem,
    problems,
    reset_groups,
    run,
    set_offset,
)
from tests.integration.mirror.connect_sink import ConnectSink
from tests.integration.mirror.test_exits import write
from tests.support.told import named_in, option_of, says, words_of

pytestmark = pytest.mark.slow
MakeBench = Callable[..., Bench]


def chsink(bench: Bench, *words: str, yes: bool = True) -> Result:
    return CliRunner().invoke(app, ["mirror", "takeover", *words, "-c", str(bench.job_file()), *["--yes"] * yes])


def taken(bench: Bench, *words: str) -> dict[str, Any]:
    done = chsink(bench, *words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


def refused(bench: Bench, *words: str, id_: str = "CHS-357") -> str:
    """What the command says; it has changed nothing."""
    before = [bench.catalog().load_table(f"shop.{name}").metadata_location for name in bench.tables]
    done = chsink(bench, *words)
    assert done.exit_code == 2 and f"error {id_}" in done.stderr, done.output
    assert before == [bench.catalog().load_table(f"shop.{name}").metadata_location for name in bench.tables]
    return done.stderr


def lands_on(bench: Bench, *tables: str) -> None:
    """The mirror runs, and every record is in every table once."""
    start, end = bench.produce([100])
    coordinator = bench.coordinator()
    bench.hand_over(start, end)
    for partition in range(1, bench.partitions):
        bench.hand_over(0, bench.admin.log_ends([bench.tp(partition)])[bench.tp(partition)], partition)
    bench.rounds(coordinator, 3)
    for name in tables or bench.tables:
        assert bench.landed(name) == bench.sent(), name


@pytest.mark.exit_of("MIRROR_CONNECTOR_TABLE")
@pytest.mark.parametrize("control", ["own", pytest.param("shared", marks=pytest.mark.soak)])
def test_what_was_committed_and_what_waits(make_bench: MakeBench, control: str) -> None:
    """⚑ Files that wait for one table and not for the other, a commit of which the group does not know, an idle
    partition, and one that nobody has read.
    """
    bench = make_bench(partitions=3, tables=("orders", "archive"))
    sink = ConnectSink(bench, control_topic=bench.control_topic if control == "shared" else "")
    sink.write(*bench.produce([1, 2, 3]))
    sink.write(*bench.produce([4, 5], 1), 1)
    sink.commit()
    sink.write(*bench.produce([6]))
    sink.commit("orders", move=False)  # the coordinator died between the tables
    sink.write(*bench.produce([7], 1), 1)
    bench.produce([8, 9])
    bench.produce([10], 2)
    doctor = CliRunner().invoke(app, ["doctor", "-c", str(bench.job_file())])
    assert doctor.exit_code != 0 and "shop.orders, shop.archive was filled by the Kafka Connect sink" in doctor.output
    said = fix_of_finding(bench, "CHS-359")
    assert "--skip" not in said, "if the mirror is behind the connector, records would land twice"
    cleans = CliRunner().invoke(app, ["mirror", "clean", "-c", str(bench.job_file())])
    assert cleans.exit_code == 2 and "a Kafka Connect sink filled it" in cleans.stderr, cleans.output
    shown = chsink(bench, yes=False)
    assert shown.exit_code == 1 and "Take these tables over?" in shown.stdout, shown.output
    found = json.loads(follow(bench, said, "takeover", more=["--yes", "--json"]).stdout)
    assert (found["group"], found["control_topic"]) == (sink.group, sink.control_topic)
    assert {(t["table"], t["files"], t["rows"]) for t in found["tables"]} == {
        ("shop.orders", 1, 1),
        ("shop.archive", 2, 2),
    }
    assert [p["continues_at"] for p in found["partitions"]] == [4, 3, 0]
    assert "nothing to take over" in chsink(bench).stdout
    assert CliRunner().invoke(app, ["doctor", "-c", str(bench.job_file())]).output.count("CHS-359") == 0
    sink.commit()  # a coordinator that was only suspended finds its files committed
    lands_on(bench)


@pytest.mark.soak
def test_a_table_that_is_rolled_back_after_the_takeover(make_bench: MakeBench) -> None:
    """⚑ Also where no file waited for it: the connector's rows count as landed."""
    bench = make_bench()
    sink = ConnectSink(bench)
    for number in range(2):
        sink.write(*bench.produce([number]))
        sink.commit()
    assert [t["files"] for t in taken(bench)["tables"]] == [0]
    table = bench.catalog().load_table("shop.orders")
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    with pytest.raises(Halted) as halted:
        bench.coordinator()
    assert halted.value.why is CommitHalt.ROLLED_BACK


def interrupted(bench: Bench, monkeypatch: pytest.MonkeyPatch, *named: str) -> list[str]:
    """The takeover ends before its second table.  Its first one."""
    append, done = MirrorTable.append, list[str]()

    def once(table: MirrorTable, *words: Any, **more: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(table.identifier)
        return append(table, *words, **more)

    with monkeypatch.context() as patched:
        patched.setattr(MirrorTable, "append", once)
        assert isinstance(chsink(bench, *named).exception, KeyboardInterrupt | SystemExit)
    return done


@pytest.mark.soak
def test_an_interrupted_takeover_begins_again(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ Nothing was committed by the connector yet to one table, which has its chain; the other still bears the mark."""
    bench = make_bench(tables=("orders", "archive"))
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]), tables=["archive"])
    sink.commit()
    sink.write(*bench.produce([3]), tables=["orders"])
    assert interrupted(bench, monkeypatch) == ["shop.orders"]
    doctor = CliRunner().invoke(app, ["doctor", "-c", str(bench.job_file())])
    assert "CHS-359" in doctor.output and "shop.archive" in doctor.output
    assert [t["table"] for t in taken(bench)["tables"]] == ["shop.archive"]
    assert sorted(n for _, _, n in bench.landed("orders")) == [3]
    assert sorted(n for _, _, n in bench.landed("archive")) == [1, 2]


@pytest.mark.soak
def test_clean_beside_a_connector_of_another_topic(make_bench: MakeBench) -> None:
    """⚑ What waited for a commit of the connector was removed, once the mirror had committed to the table, too."""
    bench = make_bench(schemas={"orders": Schema(*SCHEMA.fields[:2])})
    source, topic = bench.topic, f"{bench.topic}-other"
    bench.kafka.create_topic(topic, 1)
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    bench.topic = topic
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce([3]))
    bench.rounds(coordinator, 2)
    coordinator.close()
    cleans = ["mirror", "clean"]
    assert "a Kafka Connect sink filled it" in run(bench, cleans).stderr
    bench.topic = source
    taken(bench)
    bench.topic = topic
    assert run(bench, cleans).exit_code == 0, "nothing of it waits"
    bench.topic = source
    sink.write(*bench.produce([4]))
    sink.commit()
    bench.topic = topic
    assert "a Kafka Connect sink filled it" in run(bench, cleans).stderr


@pytest.mark.soak
def test_an_interrupted_takeover_of_tables_that_bear_no_mark(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ The connector never committed: the mirror could start with the first table, and begin the other at the end."""
    bench = make_bench(tables=("orders", "archive"))
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    done = interrupted(bench, monkeypatch, "--group", sink.group, "--control-topic", sink.control_topic)
    doctor = CliRunner().invoke(app, ["doctor", "-c", str(bench.job_file())])
    assert doctor.output.count("CHS-359") == 1, doctor.output
    assert [t["table"] for t in taken(bench)["tables"]] == [*{"shop.orders", "shop.archive"} - {*done}]
    assert CliRunner().invoke(app, ["doctor", "-c", str(bench.job_file())]).output.count("CHS-359") == 0
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_UNSURE")
def test_compacted_and_expired(make_bench: MakeBench) -> None:
    """⚑ No snapshot of the connector is left: a person names it, and looks which of its files each table has.  That the
    group is right says nothing of files.
    """
    bench = make_bench(tables=("orders", "archive"))
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    sink.write(*bench.produce([3]))
    sink.commit("orders", move=False)
    for name in bench.tables:
        table = bench.catalog().load_table(f"shop.{name}")
        table.overwrite(table.scan().to_arrow())
        head = table.current_snapshot()
        older = [s.snapshot_id for s in table.snapshots() if head is None or s.snapshot_id != head.snapshot_id]
        table.maintenance.expire_snapshots().by_ids(older).commit()
    named = named_as(refused(bench), sink, "shop.orders", "shop.archive")
    said = refused(bench, *named, "--trust-group")
    assert "Iceberg table shop.orders" in said and "Iceberg table shop.archive" in said
    says(said, "has the rows of the files listed here")
    wait, landed = option_of(said, "--files-wait"), option_of(said, "--files-landed")
    assert "shop.archive" in refused(bench, *named, landed, "shop.orders")
    both = chsink(bench, *named, landed, "shop.orders", wait, "shop.orders")
    assert both.exit_code == 2 and "either --files-wait or --files-landed" in both.stderr, both.output
    found = taken(bench, *named, landed, "shop.orders", wait, "shop.archive")
    assert {t["table"]: t["files"] for t in found["tables"]} == {"shop.orders": 0, "shop.archive": 1}
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.parametrize("passed", [False, True])
def test_a_table_that_was_copied(make_bench: MakeBench, *, passed: bool) -> None:
    """⚑ No snapshot of the copy had the connector's files, so all of them were committed once more."""
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit(move=passed)
    catalog = bench.catalog()
    rows = catalog.load_table("shop.orders").scan().to_arrow()
    catalog.drop_table("shop.orders")
    catalog.create_table("shop.orders", SCHEMA).append(rows)
    named = named_as(refused(bench), sink, "shop.orders")
    taken(bench, *named, option_of(refused(bench, *named), "--files-landed"), "shop.orders")
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.parametrize("copied", ["before", "after"])
def test_a_copy_to_which_the_connector_went_on(make_bench: MakeBench, copied: str) -> None:
    """⚑ One snapshot of the connector passed for all of them: each earlier file was committed once more."""
    bench = make_bench()
    sink = ConnectSink(bench)
    for n in (1, 2):
        sink.write(*bench.produce([n]))
        sink.commit()
    passed, catalog = dict(sink.read), bench.catalog()
    sink.stored = lambda table: passed  # type: ignore[method-assign] # its coordinator reads on from its group
    rows = catalog.load_table("shop.orders").scan().to_arrow()
    catalog.drop_table("shop.orders")
    catalog.create_table("shop.orders", SCHEMA)
    if copied == "before":
        catalog.load_table("shop.orders").append(rows)
    sink.write(*bench.produce([3]))
    sink.commit()
    if copied == "after":
        catalog.load_table("shop.orders").append(rows)
    assert bench.landed() == bench.sent()
    taken(bench, option_of(refused(bench), "--files-landed"), "shop.orders")
    lands_on(bench)


@pytest.mark.soak
def test_rows_from_before_the_connector(make_bench: MakeBench) -> None:
    """They are no copy: each of its snapshots is there."""
    bench = make_bench()
    write(bench, 99)
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    sink.write(*bench.produce([3]))
    assert [t["files"] for t in taken(bench)["tables"]] == [1]
    assert bench.landed() - bench.sent() == {(None, None, 99): 1} and not bench.sent() - bench.landed()


@pytest.mark.soak
@pytest.mark.parametrize("beside", [True, False])
def test_a_topic_that_was_left_out_and_is_routed_later(make_bench: MakeBench, beside: bool) -> None:
    """⚑ The connector's group was gone by then: all that Kafka held of the topic landed again.  ``beside``: beside the
    first one; ⚑ the connector's offset of that was asked for, too, although the mirror had long continued it.
    """
    bench = make_bench()
    sink, first, other = ConnectSink(bench), bench.topic, f"{bench.topic}-other"
    bench.kafka.create_topic(other, 1)
    for bench.topic in (other, first):
        sink.write(*bench.produce([1, 2]))
    sink.commit()
    assert taken(bench)["not_continued"] == [other]
    if beside:
        bench.route = f'[[mirror.route]]\ntable = "shop.orders"\ntopic = "{other}"'
    else:
        bench.topic = other
    bench.delete_groups(sink.group)
    said = problem(bench, "MIRROR_CONNECTOR_TABLE")
    says(lost := refused(bench), "set each of them to the offset after the last record")
    assert f"has no offset of {other}, so" in lost
    bench.topic, bench.route = other, bench.route.replace(other, first)
    set_offset(sink.names, sink.group, bench.tp(), 2)
    follow(bench, said, "takeover")
    assert problems(bench) == {}
    coordinator, before = bench.coordinator(), bench.landed()
    bench.hand_over(*bench.produce([3]))
    bench.rounds(coordinator, 3)
    assert bench.landed() - before == {(0, 2, 3): 1}


def named_as(said: str, sink: ConnectSink, *tables: str, found: str = "found: none") -> list[str]:
    """The words that the message tells to pass, with what the connector's configuration has in place of its examples."""
    assert found in said
    words = words_of(said, "--group", "--control-topic")
    assert words[:3] == ["mirror", "takeover", "TABLE…"]
    own = {"connect-NAME": sink.group, "control-iceberg": sink.control_topic}
    return [*tables, *(own.get(word, word) for word in words[3:])]


@pytest.mark.soak
@pytest.mark.parametrize("expired", [False, True])
def test_files_that_a_coordinator_passed_over(make_bench: MakeBench, expired: bool) -> None:
    """⚑ A coordinator whose group has no offset begins at the end of its topic: the connector never commits these files.
    The table's snapshots show that nobody did, unless one has expired.
    """
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    sink.write(*bench.produce([3]))
    for number in (0, 1):
        at = TopicPartition(sink.control_topic, number)
        set_offset(sink.names, f"{sink.group}-coord", at, bench.admin.log_ends([at])[at])
    sink.write(*bench.produce([4]))
    if expired:
        table = bench.catalog().load_table("shop.orders")
        table.append(table.scan(limit=0).to_arrow())
        table.maintenance.expire_snapshots().by_ids([table.snapshots()[0].snapshot_id]).commit()
    named = "shop.orders", "--group", sink.group, "--control-topic", sink.control_topic
    found = taken(bench, *named, *["--files-wait", "shop.orders"] * expired)
    assert [t["files"] for t in found["tables"]] == [1 if expired else 2]
    assert sorted(n for _, _, n in bench.landed()) == ([1, 2, 4] if expired else [1, 2, 3, 4])


@pytest.mark.soak
def test_a_table_that_was_rolled_back_stays_so(make_bench: MakeBench) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    for n in (1, 2):
        sink.write(*bench.produce([n]))
        sink.commit()
    table = bench.catalog().load_table("shop.orders")
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
    assert [t["files"] for t in taken(bench)["tables"]] == [0]
    assert sorted(n for _, _, n in bench.landed()) == [1]


@pytest.mark.soak
@pytest.mark.parametrize("expired", [False, True])
def test_a_control_topic_that_was_created_again(make_bench: MakeBench, *, expired: bool) -> None:
    """⚑ The connector skips files whose events are below the offsets of the earlier topic: they are committed here."""
    bench = make_bench()
    sink = ConnectSink(bench)
    for n in range(6):
        sink.write(*bench.produce([n]))
        if n in {0, 5}:
            sink.commit()
    if expired:
        table = bench.catalog().load_table("shop.orders")
        table.maintenance.expire_snapshots().by_ids([table.snapshots()[0].snapshot_id]).commit()
    bench.kafka.delete_topic(sink.control_topic)
    bench.kafka.create_topic(sink.control_topic, 1)
    reset_groups(bench, sink.names, refused(bench))
    sink.write(*bench.produce([7]))
    lost = [at for at in sink.stored("orders").values() if at > 3]
    assert lost
    more = [option_of(refused(bench), "--files-wait"), "shop.orders"] if expired else []
    assert [t["files"] for t in taken(bench, *more)["tables"]] == [1]
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_UNKNOWN")
def test_a_connector_that_has_committed_nothing(make_bench: MakeBench) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    taken(bench, *named_as(refused(bench), sink, "shop.orders"))
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_UNKNOWN")
@pytest.mark.exit_of("MIRROR_CONNECTOR_EVENTS_GONE")
@pytest.mark.parametrize(("waits", "told", "went_on"), [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 0, 1)])
def test_a_control_topic_that_was_deleted(make_bench: MakeBench, waits: int, told: int, went_on: int) -> None:
    """⚑ A file that waited for its commit was forgotten with the topic: its records were left out without a word, also
    where the connector went on afterwards.
    """
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    if waits:
        sink.write(*bench.produce([3]))
    bench.kafka.delete_topic(sink.control_topic)
    words = []
    if told:
        said = refused(bench)
        says(said, "set the offsets of its group to the offset after the last record that the tables have")
        set_offset(sink.names, sink.group, bench.tp(), 2)
        says(said, "and create the topic again with the same name")
        words = named_as(said, sink, "shop.orders", found="whose control topic does not exist")
    bench.kafka.create_topic(sink.control_topic, 1)
    if went_on:
        sink.write(*bench.produce([4]))
    said = refused(bench, *words)
    if holds_all(bench, sink, said):
        reset_groups(bench, sink.names, said)
        taken(bench, *words)
    else:
        assert waits and not told
        name_an_empty_table(bench, said)
    lands_on(bench)


def there_and_back(bench: Bench) -> ConnectSink:
    """The mirror took a table over and landed on; somebody starts the connector again, and stops it."""
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2, 3]))
    sink.commit()
    taken(bench)
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce([4, 5]))
    bench.rounds(coordinator, 2)
    coordinator.close()
    assert bench.landed() == bench.sent()
    assert doctor(bench).count("CHS-359") == 0
    return sink


def doctor(bench: Bench) -> str:
    """What it prints."""
    return CliRunner().invoke(app, ["doctor", "-c", str(bench.job_file())]).output


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_AGAIN")
def test_back_to_the_connector_and_on_with_the_mirror(make_bench: MakeBench) -> None:
    """⚑ G-4: the connector went on where the mirror had stopped; the mirror's own offsets would land its records twice."""
    bench = make_bench()
    sink = there_and_back(bench)
    set_offset(sink.names, sink.group, bench.tp(), 5)
    sink.write(*bench.produce([6, 7]))
    sink.commit()
    assert bench.landed() == bench.sent()
    said = fix_of_finding(bench, "CHS-359")
    says(said, "delete the connector", "move the mirror to a job file of its own with a new sink.name")

    bench.group = f"{bench.group}-2"
    assert "CHS-263" in doctor(bench)
    with bench.catalog().load_table("shop.orders").transaction() as change:
        change.remove_properties(named_in(said, "remove the table property"))
    follow(bench, said, "takeover")
    assert doctor(bench).count("CHS-359") == 0
    lands_on(bench)


@pytest.mark.soak
def test_a_connector_that_was_started_again_by_mistake(make_bench: MakeBench) -> None:
    """G-4: it landed again what the mirror had landed."""
    bench = make_bench()
    sink = there_and_back(bench)
    sink.write(3, 5)
    sink.commit()
    assert bench.landed().total() == bench.sent().total() + 2
    own = int(named_in(fix_of_finding(bench, "CHS-359"), "roll the table back to snapshot"))
    bench.catalog().load_table("shop.orders").manage_snapshots().rollback_to_snapshot(own).commit()
    assert doctor(bench).count("CHS-359") == 0
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_RUNS")
def test_a_connector_that_runs(make_bench: MakeBench) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    member = Consumer({**bench.names.options, "group.id": sink.group, "client.id": "connector-consumer-0"})
    member.subscribe([bench.topic])
    while not member.assignment():
        member.poll(0.2)
    said = refused(bench)
    assert "connector-consumer-0" in said
    says(said, "stop the connector", "run the command again once its groups have no members")
    member.close()
    taken(bench)
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_BETWEEN")
@pytest.mark.parametrize("way_out", ["roll back", "group"])
def test_a_connector_that_commits_between_two_commits_of_the_mirror(make_bench: MakeBench, way_out: str) -> None:
    """⚑ Once the mirror had committed after it, nothing spoke of it.  It is named by the oldest such place."""
    bench = make_bench()
    sink = there_and_back(bench)
    for value in (6, 7):
        sink.write(3, 5)
        sink.commit()
        later = bench.coordinator()
        bench.hand_over(*bench.produce([value]))
        bench.rounds(later, 2)
        later.close()
    said = problem(bench, "MIRROR_CONNECTOR_BETWEEN")
    if way_out == "group":
        says(said, "or delete one of each two rows, and the connector's group")
        bench.delete_groups(sink.group)
    else:
        to = int(named_in(said, "roll the table back to snapshot"))
        bench.catalog().load_table("shop.orders").manage_snapshots().rollback_to_snapshot(to).commit()
        follow(bench, said, "--reread")
        lands_on(bench)
    assert problems(bench) == {}


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_MOVED")
def test_a_connector_that_was_started_meanwhile(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    more = bench.produce([3])
    with monkeypatch.context() as patched:
        patched.setattr("chsink.cli.mirror_takeover.confirm", lambda *_, **__: sink.write(*more))
        said = chsink(bench)
    assert "changed after they were shown" in said.stderr
    says(said, "make sure that the connector is stopped, then run the command again")
    taken(bench)
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_UNREAD")
def test_a_group_whose_offsets_expired(make_bench: MakeBench) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    bench.delete_groups(sink.group)
    said = refused(bench)
    assert f"group {sink.group} has no offset of {bench.topic}" in said
    says(said, "set each of them to the offset after the last record", "run the command again")
    set_offset(sink.names, sink.group, bench.tp(), 2)
    taken(bench)
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_SET_BACK")
@pytest.mark.parametrize("way_out", ["set it", "trust it"])
def test_a_group_that_was_set_back(make_bench: MakeBench, way_out: str) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    set_offset(sink.names, sink.group, bench.tp(), 1)
    said = refused(bench)
    if way_out == "set it":
        reset_groups(bench, sink.names, said)
        taken(bench)
        lands_on(bench)
    else:
        assert taken(bench, option_of(said, "--trust-group"))["partitions"][0]["continues_at"] == 1
        coordinator = bench.coordinator()
        bench.hand_over(0, 2)
        bench.round(coordinator)
        assert bench.landed() == {(0, 0, 1): 1, (0, 1, 2): 2}


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_BEYOND_LOG")
def test_a_topic_that_was_created_again(make_bench: MakeBench) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2, 3]))
    sink.commit()
    before = bench.landed()
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    bench.produce([10])
    set_offset(sink.names, sink.group, bench.tp(), 3)
    said = refused(bench)
    assert "Kafka's log ends at 1" in said
    reset_groups(bench, sink.names, said)
    taken(bench, option_of(said, "--trust-group"))
    coordinator = bench.coordinator()
    bench.hand_over(0, 1)
    bench.round(coordinator)
    assert bench.landed() - before == bench.sent()


def holds_all(bench: Bench, sink: ConnectSink, said: str, name: str = "orders") -> bool:
    """What the message asks of a table."""
    says(said, f"has the row of each record below the offsets of group {sink.group}, and no row of a later one")
    with closing(sink.names.offsets()) as group:
        at = group.committed([bench.tp()])[bench.tp()] or 0
    return bench.landed(name) == Counter(one for one in bench.sent() if one[1] < at)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_EVENTS_GONE")
def test_events_that_kafka_deleted(make_bench: MakeBench) -> None:
    """⚑ One refusal names all tables and partitions."""
    bench = make_bench(tables=("orders", "archive"))
    sink = ConnectSink(bench)
    for number in range(4):
        sink.write(*bench.produce([number]))
    sink.commit()
    bench.produce([9])
    sink.delete_events()
    said = refused(bench)
    assert "Iceberg table shop.orders; shop.archive" in said
    assert all(holds_all(bench, sink, said, name) for name in bench.tables)
    reset_groups(bench, sink.names, said)
    says(said, "then run the command again")
    assert [t["files"] for t in taken(bench)["tables"]] == [0, 0]
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_EVENTS_GONE")
@pytest.mark.parametrize("rows", ["too few", "too many"])
def test_events_that_kafka_deleted_of_files_that_waited(make_bench: MakeBench, rows: str) -> None:
    """⚑ A group that was set back passed for right: no event was left that told where it had been."""
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    sink.write(*bench.produce([3]))
    if rows == "too many":
        sink.commit()
        set_offset(sink.names, sink.group, bench.tp(), 2)
    sink.delete_events()
    said = refused(bench)
    assert not holds_all(bench, sink, said)
    name_an_empty_table(bench, said)
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_EVENTS_GONE")
def test_events_that_kafka_deleted_of_files_that_waited_for_one_table(make_bench: MakeBench) -> None:
    """⚑ The message named the first table, which has all.  The group that it sets counts for the other one, too: its rows
    were left out without a word.
    """
    bench = make_bench(tables=("orders", "archive"))
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    sink.write(*bench.produce([3]))
    sink.commit("orders", move=False)
    sink.delete_events()
    said = refused(bench)
    assert "Iceberg table shop.orders; shop.archive" in said
    assert [holds_all(bench, sink, said, name) for name in bench.tables] == [True, False]
    name_an_empty_table(bench, said, beside=("orders",))
    assert words_of(fix_of_finding(bench, "CHS-359"), "takeover")[:2] == ["mirror", "takeover"]
    said = refused(bench)
    assert "shop.anew" not in said and holds_all(bench, sink, said)
    reset_groups(bench, sink.names, said)
    taken(bench)
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_FILE")
def test_a_waiting_file_that_was_deleted(make_bench: MakeBench) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    [location] = sink.write(*bench.produce([3]))
    file = Path(location.removeprefix("file://"))
    content = file.read_bytes()
    file.unlink()
    said = refused(bench)
    assert "it does not exist any more" in said
    says(said, "or restore the file; then run the command again")
    file.write_bytes(content)
    taken(bench)
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_OTHER_TABLE")
@pytest.mark.parametrize("way_out", ["route", "commit"])
def test_files_for_a_table_without_a_route(make_bench: MakeBench, way_out: str) -> None:
    bench = make_bench()
    bench.catalog().create_table("shop.archive", SCHEMA)
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]), tables=["orders", "archive"])
    sink.commit("orders", move=False)
    said = refused(bench)
    assert "Iceberg table shop.archive" in said
    says(said, "name it in a [[mirror.route]], or run the connector until it has committed its files, then stop it")
    if way_out == "route":
        bench.tables = ("orders", "archive")
    else:
        sink.commit("archive")
    taken(bench)
    lands_on(bench)


@pytest.mark.soak
@pytest.mark.exit_of("MIRROR_CONNECTOR_LEFT")
def test_a_message_that_nobody_can_read(make_bench: MakeBench) -> None:
    bench = make_bench()
    sink = ConnectSink(bench)
    sink.write(*bench.produce([1, 2]))
    sink.commit()
    with sink.names.sender("somebody", sink.group) as sender:
        sender.send("x", [b"no event"], {})
    said = refused(bench)
    assert "cannot read the message at offset" in said
    name_an_empty_table(bench, said)
    lands_on(bench)
