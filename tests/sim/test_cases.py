"""Cases that other sinks get wrong, run by the production driver and tasks in a world without chance.

A ``Scene`` is a world with only those faults that the test injects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chsink import failpoints
from chsink.batch.model import PlannedBatch
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.window import SEND_FOR_S
from chsink.driver.driver import Driver
from chsink.driver.recheck import check_still_held
from chsink.errors import halts
from chsink.ports import StateStore
from chsink.recovery import decide, partition_survey
from chsink.recovery.landed import Extent, QueriedTable, extent
from chsink.recovery.landed_rows import LandedRows, count_landed_rows
from chsink.statemachine.parts import Expired
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.tokens import piece_token
from tests.sim import person
from tests.sim.checkpoint import Checkpoint, Query
from tests.sim.clickhouse import OTHERS, Client
from tests.sim.hub import Hub, Violation
from tests.sim.kafka import PARTITION, serial_of, uid_of
from tests.sim.spark import Runner
from tests.sim.tasks import Task
from tests.sim.world import World

TP = TopicPartition("t0", 0)


class Scene(World):
    """One topic of one partition into two shards of a plain MergeTree."""

    def __init__(self) -> None:
        super().__init__(PLAIN_SEED, frozenset())
        self.hub.calm = True
        self.shards, self.chunk_offsets, self.limit = 2, 4, 100
        self.round_offsets = None
        self.on_rewind = "skip"
        self.kill_at: str | None = None
        self.kill_after = 0
        self.freeze_at: str | None = None

    def reach(self, name: str) -> None:
        """Die or stop here, once, when the scene says so."""
        super().reach(name)
        if name == self.kill_at:
            self.kill_after -= 1
            if self.kill_after < 0:
                self.kill_at = None
                self.hub.die()
        if name == self.freeze_at:
            self.freeze_at = None
            self.drivers[0].frozen_until = self.hub.now + 60_000
            self.hub.pause()

    def start_soon(self) -> None:
        """Nothing restarts by itself."""

    def play(self, start: int | None = None, kill_at: str | None = None) -> Scene:
        """Start the job and let all come to rest.  ``start``: with a new checkpoint that begins there."""
        if start is not None:
            self.checkpoint = Checkpoint({TP: start})
        self.kill_at = kill_at
        with self.watched():
            self.start_driver()
            while self.hub.step():
                pass
        return self

    @property
    def record(self) -> StateRecord:
        return self.records()[TP]

    def landed(self, serial: int = 0, table: str = "") -> list[int]:
        """Offsets of one life of the topic in the table; the oracle has seen to it that none is there twice."""
        name = table or self.routes["t0"]
        return sorted(uid % PARTITION for t, uid in self.oracle.landed if t == name and serial_of(uid) == serial)

    def cells(self) -> set[str]:
        return {k.removeprefix("cell ") for k in self.hub.counts if k.startswith("cell ")}


def _plain_seed() -> int:
    """The first seed whose world has the wanted shape."""
    for seed in range(1000):
        world = World(seed, frozenset())
        kind = next(iter(world.kinds.values()))
        plain = not kind.replicated and not kind.replacing and kind.can_probe and world.bad > 100
        if plain and world.kafka.all() == [TP] and world.kafka.log(TP).end == 0:
            return seed
    raise AssertionError


PLAIN_SEED = _plain_seed()


def scene(records: int) -> Scene:
    made = Scene()
    made.kafka.append(TP, records)
    return made


def test_a_batch_settles_partitions_that_are_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Sink.process` may be handed the ranges of some partitions; a sink that is not started settles with its batches."""
    made, other = scene(7), TopicPartition("t0", 1)
    made.kafka.add_partition("t0")
    made.kafka.append(other, 5)
    made.play(kill_at="driver.before_after")
    assert all(record.in_doubt for record in made.records().values())
    monkeypatch.setattr(Driver, "settle_all", lambda *_: None)
    planned = Query.next_batch

    def of_one(query: Query) -> PlannedBatch | None:
        batch = planned(query)
        return batch and replace(batch, ranges={TP: batch.ranges[TP]})

    monkeypatch.setattr(Query, "next_batch", of_one)
    made.play()
    assert made.records()[other].phase is Phase.AFTER


def test_a_scene_is_calm() -> None:
    made = scene(7).play()
    assert made.landed() == list(range(7))
    assert not [k for k in made.hub.counts if k.startswith("fault")]
    assert isinstance(made.hub, Hub)


def test_case_a_batch_over_the_recorded_range_killed_and_replayed() -> None:
    made = scene(20).play()
    made.kafka.append(TP, 11)
    made.play(start=10, kill_at="driver.before_after")
    assert made.record.range == OffsetRange(20, 31) and made.record.in_doubt
    made.play()
    assert made.landed() == list(range(31))
    assert made.record.phase is Phase.AFTER
    assert "OVERLAPPING_FROM_INSIDE/AFTER" in made.cells() and made.hub.counts["cell cropped"]


def test_case_b_never_landed_and_the_next_batch_goes_on() -> None:
    made = scene(10).play(kill_at="driver.after_before")
    assert made.landed() == [] and made.record.in_doubt
    made.kafka.append(TP, 5)
    made.play(start=10)
    assert made.landed() == list(range(15))


def in_doubt_10_to_20() -> Scene:
    made = scene(10).play()
    made.kafka.append(TP, 10)
    made.play(kill_at="driver.after_before")
    assert made.record.range == OffsetRange(10, 20) and made.record.in_doubt
    made.kafka.append(TP, 11)
    return made


@pytest.mark.parametrize(("start", "gone"), [(None, 13), (10, 13), (None, 20), (15, 18)])
def test_what_kafka_still_holds_of_a_range_lands_when_the_rest_is_given_up(start: int | None, gone: int) -> None:
    made = in_doubt_10_to_20()
    made.kafka.expire(TP, gone, lossy=True)
    made.play(start=start)
    assert made.hub.counts["outcome CHS-308"] == 1
    assert made.hub.counts["command resolve expired"] == 1
    assert (made.record.doubt.expired, made.landed()) == (Expired(), list(range(10)))
    made.play(start=max(gone, 20))
    assert made.landed() == [*range(10), *range(gone, 31)]
    assert made.record.gaps == (OffsetRange(10, gone),)
    assert (made.record.end, made.record.doubt.expired) == (31, None)


def test_case_c_not_landed_and_the_next_batch_starts_inside() -> None:
    made = in_doubt_10_to_20().play(start=15)
    assert made.landed() == list(range(31))


def test_case_d_as_c_and_an_offset_was_compacted_away() -> None:
    made = in_doubt_10_to_20()
    made.kafka.log(TP).visible.remove(19)
    made.kafka.log(TP).archive.remove(19)
    made.play(start=15)
    assert made.landed() == sorted(set(range(31)) - {19})


def test_case_e_topic_recreated_with_the_same_offsets() -> None:
    made = scene(10).play()
    made.kafka.recreate("t0")
    made.kafka.append(TP, 10)
    made.play(start=0)
    assert (made.landed(0), made.landed(1)) == (list(range(10)), list(range(10)))
    assert (made.record.life.incarnation, made.record.life.topic_id) == (1, "id1")


def test_case_e_recreated_and_shorter() -> None:
    made = scene(10).play()
    made.kafka.recreate("t0")
    made.kafka.append(TP, 3)
    made.play(start=0)
    assert made.landed(1) == [0, 1, 2]
    assert not [cell for cell in made.cells() if cell.startswith("LOG_SHRANK")]


def test_case_e_started_again_from_nothing_while_the_table_remembers_tokens() -> None:
    made = scene(10).play()
    made.start_over()
    made.hub.now += 10_000  # servers are back
    assert made.landed() == []
    made.play()
    assert made.landed() == list(range(10))


def in_rounds(records: int, offsets: int) -> Scene:
    """Its first round has so many offsets; fast rounds become larger."""
    made = scene(records)
    made.round_offsets = offsets
    return made


def test_a_batch_that_is_too_large_lands_in_rounds() -> None:
    made = in_rounds(30, 8).play()
    assert made.landed() == list(range(30))
    assert made.record.range == OffsetRange(24, 30)
    assert made.hub.counts["batches"] == 1
    assert made.hub.counts["failpoint driver.after_before"] == 3, "8 offsets, then twice as many, then the rest"


@pytest.mark.parametrize(
    "step", ["driver.before_before", "driver.after_before", "driver.before_after", "driver.after_after"]
)
def test_a_batch_killed_between_its_rounds_goes_on_where_it_stopped(step: str) -> None:
    made = in_rounds(30, 8)
    made.kill_after = 1
    made.play(kill_at=step)
    assert made.record.range.start in (0, 8)
    assert made.record.end < 30
    made.play()
    assert made.landed() == list(range(30))
    assert (made.record.end, made.record.phase) == (30, Phase.AFTER)
    assert bool(made.hub.counts["outcome insert deduplicated"]) == (step == "driver.before_after")
    assert made.hub.counts["failpoint driver.after_before"] == 3


def test_case_f_rewind_to_zero() -> None:
    made = scene(10).play()
    made.kafka.append(TP, 10)
    made.play()
    before, made.limit = made.record, 10
    made.play(start=0)
    assert made.landed() == list(range(20))
    assert (made.record.range, made.record.phase) == (before.range, Phase.AFTER)
    assert {"REWOUND_TOLERATED/AFTER", "SAME/AFTER"} <= made.cells()


def test_case_f_rewind_to_zero_halts_when_asked_to() -> None:
    made = scene(10).play()
    made.kafka.append(TP, 10)
    made.play()
    made.on_rewind, made.limit = "halt", 10
    made.reasons.add("rewound")
    made.play(start=0)
    assert made.hub.counts["outcome CHS-306"] == 1
    assert made.landed() == list(range(20))


def test_case_g_only_a_part_is_offered_again() -> None:
    made = in_doubt_10_to_20()
    made.limit = 5
    made.play(start=10)
    assert made.landed() == list(range(31))
    assert made.record.phase is Phase.AFTER


def test_case_h_the_old_driver_writes_after_late() -> None:
    made = scene(10)
    made.freeze_at = "driver.before_after"
    with made.watched():
        made.start_driver()
        while made.hub.step() and made.freeze_at:
            pass
        made.start_driver()
        while made.hub.step():
            pass
    assert made.hub.counts["outcome CHS-801"] == 1
    assert (made.record.epoch, made.record.phase, made.landed()) == (2, Phase.AFTER, list(range(10)))


def test_a_task_that_slept_for_a_day_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ A person has decided about its range meanwhile, and tokens of a plain table know no time."""
    made = scene(10)
    reach = made.reach

    def sleep(name: str) -> None:
        reach(name)
        if name == "task.before_insert" and made.hub.current is not None:
            made.hub.current.group.frozen_until = made.hub.now + (SEND_FOR_S + 60) * 1000
            made.hub.pause()

    monkeypatch.setattr(made, "reach", sleep)
    made.play()
    assert made.hub.counts["outcome CHS-705"] == 1
    assert made.landed() == []


def test_case_i_two_sinks_on_one_topic() -> None:
    made = scene(10).play()
    table, made.routes = made.routes["t0"], {"t0": "db.other"}
    made.kinds["db.other"] = made.kinds[table]
    for server in made.servers:
        server.add(table="db.other")
    made.sink = "sink2"
    made.play(start=0)
    assert (made.landed(table=table), made.landed(table="db.other")) == (list(range(10)), list(range(10)))
    assert {k.split("/", 1)[0] for k in made.store.rows} == {"sink", "sink2"}


@pytest.mark.parametrize("down", [0, 1])
def test_case_j_a_chunk_again_after_a_part_of_its_shards(down: int) -> None:
    """Shards answer in order: while one is down, the pieces before it landed and those after it did not."""
    made = scene(10)
    made.servers[down].up_at = made.hub.now + 5_000_000
    made.servers[down].started = made.hub.now - 10_000_000
    with made.watched():
        made.start_driver()
        for _ in range(400):
            made.hub.step()
        partial = made.landed()
        for group in [*made.drivers, *made.executors]:
            made.hub.kill(group)
            made.gone(group)
    made.servers[down].up_at = 0
    made.play()
    assert partial in ([], [0, 2])
    assert made.landed() == list(range(10))


@pytest.fixture
def never_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recover finds no cut with whole pieces: the operator deletes the rows behind a hole, as the message says."""
    monkeypatch.setattr(partition_survey.PartitionSurvey, "_cut", lambda *_: "a test says so")


@pytest.mark.parametrize("delete", [False, True])
def test_an_old_backup_of_the_state_with_a_range_in_doubt_is_rebuilt_from_the_rows(
    request: pytest.FixtureRequest, *, delete: bool
) -> None:
    """A row is missing below later ones: the next start inserts it, or the operator deletes from there on.  The tokens
    of the range that the backup has in doubt are remembered, and must not be used again.
    """
    if delete:
        request.getfixturevalue("never_in_doubt")
    made = in_doubt_10_to_20()
    backup = dict(made.store.rows)
    made.play()
    assert made.landed() == list(range(31))
    made.store.forget(backup)
    made.reasons.add("state restored")
    for server in made.servers:
        server.remove("db.t0", TP, OffsetRange(14, 15))
    made.play()
    assert made.hub.counts["outcome CHS-229"] == 1
    assert made.hub.counts["command CHS-331"] == delete
    assert made.hub.counts["recovered in doubt"] == (not delete)
    if delete:
        assert (made.record.range.end, made.record.phase, made.landed()) == (14, Phase.AFTER, list(range(14)))
        made.play(start=14)
    else:
        assert (made.record.range, made.record.phase) == (OffsetRange(14, 31), Phase.BEFORE)
        made.play(start=31)
    assert made.landed() == list(range(31))


def test_an_old_backup_of_an_incarnation_that_is_behind_an_earlier_one() -> None:
    """Its rows beyond the recorded end are no further than the earlier incarnation's were: they are its own all the same."""
    made = scene(20).play()
    with made.watched():
        person.at_work(made, "", [lambda: person.reset(made, "t0", [0])])
        while made.hub.step():
            pass
    for server in made.servers:
        server.remove("db.t0", TP, OffsetRange(0, 20))
    made.limit = 5
    made.play(start=0, kill_at="driver.after_after")
    assert (made.record.end, made.record.known_end) == (5, 20)
    backup = dict(made.store.rows)
    made.play()
    made.store.forget(backup)
    made.reasons.add("state restored")
    with made.watched():
        person.at_work(made, "CHS-302", [lambda: person.rebuild(made, replace=True)])
        while made.hub.step():
            pass
    made.play(start=made.record.end)
    assert made.landed() == list(range(20))
    assert made.record.end == 20


def test_rebuilding_takes_the_word_of_the_old_record_for_what_it_left_out() -> None:
    """Offsets below the recorded end that have no row were skipped, or never asked for: nothing is deleted for them."""
    made = scene(10).play(start=5)
    backup = dict(made.store.rows)
    made.kafka.append(TP, 5)
    made.play()
    made.store.forget(backup)
    made.reasons.add("state restored")
    made.play()
    assert made.hub.counts["command CHS-331"] == 0
    assert made.hub.counts["command recover --replace"] == 1
    made.play()
    assert made.landed() == list(range(5, 15))


def still_inserting(made: Scene) -> None:
    """The range [10, 20) is in doubt, its senders are gone, and for 20 s a server is still busy with one of its pieces."""
    token = piece_token(StateKey("sink", "t0", 0, "db.t0"), made.record, 0, 0)
    uids = [uid for uid in (uid_of(0, 0, offset) for offset in range(10, 14)) if uid % 2 == 0]
    server, sent_at = made.servers[0], made.hub.now
    server.under_way.append(token)
    made.hub.after(20_000, lambda: Client(server)._arrive("db.t0", uids, token, sent_at, server.restarts))


@pytest.mark.parametrize("command", ["recover", "reset", "resend"])
def test_a_command_waits_for_inserts_that_still_run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows would arrive after the operator looked at the table, and after the next start sent them again."""
    made = in_doubt_10_to_20()
    monkeypatch.setattr(made, "start_soon", lambda: made.hub.after(1000, made.start_driver))
    still_inserting(made)
    with made.watched():
        if command == "recover":
            made.store.forget()
            made.reasons.add("state lost")
            made.start_driver()
        else:
            halted = halts.LOG_SHRANK(tp=TP, detail="") if command == "reset" else halts.FOREIGN_ROWS(tp=TP, detail="")
            act = person.log_shrank if command == "reset" else person.decide_range
            person.at_work(made, halted.id, [lambda: act(made, halted)])
        while made.hub.step():
            pass
    assert made.landed() == list(range(31))
    assert made.hub.counts[f"command {'resolve resend' if command == 'resend' else command}"] == 1


def of_kind(made: Scene, **changes: Any) -> Scene:
    """The scene with other tables."""
    for name, kind in made.kinds.items():
        made.kinds[name] = replace(kind, **changes)
        for server in made.servers:
            server.tables[name].kind = made.kinds[name]
    return made


def test_a_probe_waits_for_an_insert_of_which_a_part_is_stored() -> None:
    """Nothing would be lost or doubled, but the job would halt for the rest of a piece that comes in a moment."""
    made = of_kind(in_doubt_10_to_20(), parts=2)
    token = piece_token(StateKey("sink", "t0", 0, "db.t0"), made.record, 0, 0)
    uids = [uid for uid in (uid_of(0, 0, offset) for offset in range(10, 14)) if uid % 2 == 0]
    server, sent_at = made.servers[0], made.hub.now
    for _ in range(OTHERS):
        server.others_write("db.t0")
    server.store("db.t0", uids, token, blocks=1)
    assert len(made.landed()) == 11, "one of two"
    server.under_way.append(token)
    made.hub.after(10_000, lambda: Client(server)._arrive("db.t0", uids, token, sent_at, server.restarts))
    made.reasons.add("window")
    made.play()
    assert made.landed() == list(range(31))
    assert made.hub.counts["outcome probed"] and not made.hub.counts["outcome CHS-314"]


@pytest.mark.parametrize(("chunk_offsets", "shards"), [(6, 2), (4, 3)])
def test_a_range_that_is_announced_twice_and_cut_otherwise_is_not_dropped(chunk_offsets: int, shards: int) -> None:
    """⚑ A backup of the state was restored, and the table cannot show that.  Its rows are there twice then, which can be seen
    and mended: pieces that were taken for others would be lost.
    """
    made = of_kind(scene(8), can_probe=False).play()
    backup = dict(made.store.rows)
    made.kafka.append(TP, 8)
    made.play(kill_at="driver.before_after")
    made.store.forget(backup)
    made.chunk_offsets, made.shards = chunk_offsets, shards
    with pytest.raises(Violation, match="at_most_once: .* is in db.t0 twice"):
        made.play()


def test_a_resend_of_what_kafka_no_longer_holds_proposes_no_delete() -> None:
    """Some rows are there.  Deleted as a message asks, those that Kafka has dropped would be lost."""
    made = in_doubt_10_to_20().play(kill_at="driver.after_settle_inserts")
    assert made.record.in_doubt
    assert made.landed()[-10:] == list(range(10, 20))
    made.servers[0].remove("db.t0", TP, OffsetRange(18, 20))
    made.servers[1].remove("db.t0", TP, OffsetRange(18, 20))
    made.kafka.expire(TP, 12, lossy=True)
    with made.watched():
        person.at_work(made, "CHS-318", [lambda: person.resolve(made, "t0", [0], "resend")])
        while made.hub.step():
            pass
    assert made.hub.counts["operator deletes"] == 0
    assert made.hub.counts["command resolve expired"] == 1
    assert made.landed() == list(range(18))


def one_shard_short(made: Scene) -> None:
    """The sink goes on, until a shard goes down between BEFORE and its piece; then the job is killed."""
    reach = made.reach

    def down(name: str) -> None:
        if name == "task.before_insert":
            made.servers[1].up_at = made.hub.now + 5_000_000
        reach(name)

    with made.watched(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(failpoints, "reach", down)
        made.start_driver()
        for _ in range(400):
            made.hub.step()
        for group in [*made.drivers, *made.executors]:
            made.hub.kill(group)
            made.gone(group)
    made.servers[1].up_at = 0


@pytest.mark.usefixtures("never_in_doubt")
def test_a_restored_backup_and_rows_deleted_back_to_the_recorded_end() -> None:
    """Recover names the rows beyond the recorded end.  Once they are deleted, the record is not stale any more; but
    the tokens of these rows are remembered, and the same range would be dropped under them.
    """
    made = scene(11).play()
    backup = dict(made.store.rows)
    made.kafka.append(TP, 10)
    one_shard_short(made)
    assert made.record.range == OffsetRange(11, 21) and made.landed() == [*range(11), 12, 14]
    made.store.forget(backup)
    made.reasons.add("state restored")
    made.play()
    assert made.hub.counts["command CHS-331"] == 1 and made.landed() == list(range(11))
    made.play()
    assert made.landed() == list(range(21))


@pytest.mark.usefixtures("never_in_doubt")
def test_a_restored_backup_and_all_rows_of_a_partition_in_doubt_deleted() -> None:
    """Nothing is left that a record could be rebuilt from: the range stays in doubt, but not under its old tokens."""
    made, other = scene(11), TopicPartition("t0", 1)
    made.kafka.add_partition("t0")
    made.kafka.append(other, 10)
    made.play(kill_at="driver.before_after")
    backup = dict(made.store.rows)
    made.play()
    made.kafka.append(TP, 10)
    made.play()
    made.store.forget(backup)
    made.reasons.add("state restored")
    for server in made.servers:
        server.remove("db.t0", TP, OffsetRange(15, 16))
        server.remove("db.t0", other, OffsetRange(0, 1))
    made.play()
    assert made.hub.counts["command CHS-331"] == 2
    assert made.records()[other].in_doubt and made.landed() == list(range(15))
    made.play()
    assert {r.phase for r in made.records().values()} == {Phase.AFTER}
    assert made.oracle.has("db.t0", uid_of(0, 1, 0)) and made.oracle.has("db.t0", uid_of(0, 1, 9))


def test_a_topic_recreated_while_kafka_is_asked_what_it_still_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a range in doubt expires under its exact read.  The new topic's log would say that nothing did."""
    made = in_doubt_10_to_20()

    def expires_under_the_read(runner: Runner, task: Task) -> None:
        if not task.range.is_empty and made.kafka.log(TP).start < 15:
            made.kafka.expire(TP, 15, lossy=True)

    def recreated_meanwhile(*args: Any, **kwargs: Any) -> dict[TopicPartition, int]:
        made.kafka.recreate("t0")
        made.kafka.append(TP, 40)
        return check_still_held(*args, **kwargs)

    monkeypatch.setattr(Runner, "_disturb", expires_under_the_read)
    monkeypatch.setattr("chsink.driver.driver.check_still_held", recreated_meanwhile)
    made.play()
    assert made.hub.counts["outcome CHS-308"] == 1


def test_a_resend_takes_the_topic_that_was_seen_to_hold_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recreated after that, the topic's new records must not be taken for the range's."""
    made = in_doubt_10_to_20()

    def recreated_meanwhile(clickhouse: Cluster, store: StateStore, key: StateKey, record: StateRecord) -> LandedRows:
        if record.epoch > before.epoch:
            made.kafka.recreate("t0")
            made.kafka.append(TP, 40)
        return count_landed_rows(clickhouse, store, key, record)

    before = made.record
    monkeypatch.setattr(decide, "count_landed_rows", recreated_meanwhile)
    with made.watched():
        person.at_work(made, "CHS-318", [lambda: person.resolve(made, "t0", [0], "resend")])
        while made.hub.step():
            pass
    assert made.hub.counts["command resolve resend"] == 1
    assert made.record.life.nonce != before.life.nonce and made.record.life.topic_id == before.life.topic_id


def test_recover_takes_the_topic_that_was_there_before_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recreated after the rows were looked at, the topic's new records must not be taken for those that landed."""
    made = scene(10).play()

    def recreated_meanwhile(shards: Sequence[QueriedTable], tp: TopicPartition) -> Extent | None:
        seen = extent(shards, tp)
        made.kafka.recreate("t0")
        made.kafka.append(TP, 40)
        return seen

    made.store.forget()
    monkeypatch.setattr(partition_survey, "extent", recreated_meanwhile)
    with made.watched():
        person.at_work(made, "CHS-229", [lambda: person.rebuild(made, replace=False)])
        while made.hub.step():
            pass
    assert (made.record.end, made.record.life.topic_id) == (10, "id0")
