"""One world of replays: a job, replays that are killed, frozen and two at once, resets, and tokens that are forgotten."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from random import seed as seed_jitter

from chsink import failpoints
from chsink.dlq.fates import Fate
from chsink.dlq.kept import KeptLetters
from chsink.dlq.place import LetterPlace
from chsink.errors import ChsinkError
from chsink.statemachine.codec import decode
from chsink.statemachine.records import Phase, StateKey
from tests.replay_sim import job, people
from tests.replay_sim.letters import BAD, Table, Topic
from tests.replay_sim.oracle import Oracle
from tests.sim.clickhouse import LETTERS, OTHERS, OTHERS_EVERY_S, Server, TableKind
from tests.sim.clickhouse import Table as ServerTable
from tests.sim.hub import Group, Hub, Violation
from tests.sim.kafka import PARTITION, id_of, uid_of
from tests.sim.store import Store

WORLD_STEPS = 800
CALM_STEPS = 40_000
EVENT_RATE = 0.03
FAILPOINT_RATE = 0.05
LONG_MS = 120_000
LIVES = 5


class Kafka:
    """The requests of a replay and a reset to brokers."""

    life: int = 0

    def topic_ids(self, topics: list[str]) -> dict[str, str | None]:
        """See :class:`chsink.ports.KafkaCluster`."""
        return dict.fromkeys(topics, id_of(self.life))


class World:
    """Built from a seed; see :class:`tests.sim.runs.World`."""

    def __init__(self, seed: int, allowed: frozenset[int] | None = None) -> None:
        self.hub = hub = Hub(seed, allowed)
        shape = Random(f"replays {seed}")
        self.oracle = Oracle()
        self.in_doubt = "halt"
        self.sink, self.chunk_offsets, self.on_gap, self.on_rewind, self.fate = (
            "sink",
            5,
            "halt",
            "skip",
            Fate.DEAD_LETTER,
        )
        self.letters = shape.choice(["table", "topic"])
        self.shards, self.partitions = shape.randint(1, 3), shape.randint(1, 2)
        kind = TableKind(
            shape.random() < 0.3, shape.choice([100, 1000]), 600, shape.random() < 0.6, shape.choice([1, 1, 2])
        )
        kind = replace(kind, replacing=Random(f"engine {seed}").random() < 0.3)
        tables = ["db.t", "db.u"] if self.letters == "topic" and shape.random() < 0.5 else ["db.t"]
        self.kinds = dict.fromkeys(tables, kind)
        self.kafka = Kafka()
        self.store = Store(hub, self.oracle, shape.choice([1, 100]))  # type: ignore[arg-type]
        self.servers = [Server(hub, self.oracle, n, self.kinds, ["t"] * LIVES) for n in range(3)]  # type: ignore[arg-type]
        self.servers[0].tables[LETTERS] = ServerTable(TableKind(False, kind.window_blocks, kind.window_s))
        self.table = Table(self.servers[0], self.sink) if self.letters == "table" else None
        self.topic = Topic(hub, self.oracle.marked)
        self.keys = [StateKey(self.sink, "t", p, table) for p in range(self.partitions) for table in tables]
        self.ends = dict.fromkeys(range(self.partitions), job.SOME)
        self.by_job: set[tuple[str, int]] = set()
        self.delivered: set[tuple[str, int, str]] = set()
        self.resets = shape.random() < 0.7
        self.recreates = not self.resets and self.letters == "topic"
        self.doubtful = self.busy = False
        self.jobs: list[Group] = []
        self.replays: list[Group] = []
        self.ids = count(1)
        hub.died = self._died

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Raises Violation.  Ends at rest."""
        with self._watched():
            self.start_job()
            while self.hub.steps < steps:
                if self.hub.random.random() < EVENT_RATE:
                    self.event()
                self.hub.step()
            self._come_to_rest(steps)

    def _come_to_rest(self, steps: int) -> None:
        hub = self.hub
        hub.calm = True
        hub.factors.clear()
        done: list[bool] = []
        self._spawn("rest", partial(self._last, done))
        while not done:
            if hub.steps > steps + CALM_STEPS or not hub.step():
                raise Violation("progress", f"no rest after {hub.steps - steps} calm steps")
        self.oracle.at_rest(self._wanted())
        hub.counts["world at rest"] += 1

    def _last(self, done: list[bool]) -> None:
        """Let the job catch up, then replay until nothing is left."""
        while self.busy or self.replays:
            self.hub.sleep(5)
        self.stop_job()
        while not self._job():
            self.hub.sleep(5)
        for _ in range(people.PATIENCE):
            report = people.decide(self) if self.doubtful else people.replay(self)
            if report is not None and not report.landed:
                done.append(True)
                return
            self.hub.sleep(5)
        raise Violation("progress", "a calm replay does not end")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        reach, uuid4 = failpoints.reach, uuid.uuid4
        failpoints.reach = self.reach
        uuid.uuid4 = lambda: uuid.UUID(int=next(self.ids) << 104)
        seed_jitter(f"jitter {self.hub.seed}")
        try:
            with self.topic.instead_of_kafka():
                yield
        finally:
            failpoints.reach, uuid.uuid4 = reach, uuid4
            for actor in list(self.hub.actors):
                self.hub.kill(actor.group)

    def reach(self, name: str) -> None:
        """A failpoint of the production code: the process may die here."""
        self.hub.counts[f"failpoint {name}"] += 1
        if self.hub.fault(f"killed at {name}", FAILPOINT_RATE):
            self.hub.die()

    # --- what happens -------------------------------------------------------------------------------------------------

    def event(self) -> None:
        """Something happens outside."""
        hub, turn = self.hub, self.hub.random.random()
        if turn < 0.4:
            self.start_replay()
        elif turn < 0.5 and self.resets and not self.busy and hub.fault("reset", 0.5):
            self._one_at_work(partial(people.reset, self, int(hub.random.random() * self.partitions)))
        elif turn < 0.5 and self.recreates and not self.busy and hub.fault("topic recreated", 0.5):
            self._one_at_work(partial(people.create_again, self))
        elif turn < 0.6 and self.doubtful and not self.busy:
            self._one_at_work(partial(people.decide, self))
        elif turn < 0.65 and self.replays and hub.fault("replay killed", 0.5):
            self._kill(hub.random.choice(self.replays))
        elif turn < 0.7 and self.replays and hub.fault("replay frozen", 0.5):
            hub.random.choice(self.replays).frozen_until = hub.now + int(hub.random.random() * LONG_MS)
        elif turn < 0.75 and self.jobs and hub.fault("job killed", 0.5):
            self._kill(self.jobs[0])
        elif turn < 0.85 and hub.fault("window overflowed by other writers", 0.5):
            self._others_write()
        elif turn < 0.9 and hub.fault("server down", 0.3):
            hub.random.choice(self.servers).crash(int(hub.random.random() * 20_000))
        elif turn < 0.95 and self.table is None and hub.fault("open transaction", 0.5):
            self.topic.open_transaction(int(hub.random.random() * 30_000))
        elif self.tables_are_searched and not self.busy and hub.fault("rows of a replay deleted", 0.3):
            self._one_at_work(partial(people.delete_and_replay, self))

    def _others_write(self) -> None:
        """Other writers insert until a server has forgotten all older tokens."""
        server = self.hub.random.choice(self.servers)
        for name in server.tables:
            for spell in range(OTHERS):
                self.hub.after(spell * OTHERS_EVERY_S * 1000, partial(server.others_write, name))

    # --- processes ----------------------------------------------------------------------------------------------------

    def start_job(self) -> None:
        """Start the job, unless it runs or a person works on its state."""
        if not self.jobs and not self.busy and not self.hub.calm:
            self.jobs.append(self._spawn("job", self._job))

    def _job(self) -> bool:
        """Whether it ended in order."""
        try:
            job.run(self)
        except ChsinkError as error:
            self.hub.counts[f"outcome job {error.id}"] += 1
            return False
        return True

    def start_replay(self) -> None:
        """Start a replay; up to three run at once."""
        if len(self.replays) < 3 and not self.hub.calm and not self.doubtful:
            self.replays.append(self._spawn("replay", lambda: people.replay(self)))

    def stop_job(self) -> None:
        """Somebody stops it."""
        for group in list(self.jobs):
            self.jobs.remove(group)
            self.hub.kill(group)

    def stop_replays(self) -> None:
        """Somebody stops all of them."""
        for group in list(self.replays):
            self.replays.remove(group)
            self.hub.kill(group)

    def _one_at_work(self, act: Callable[[], object]) -> None:
        self.busy = True
        self._spawn("person", act)

    def _spawn(self, name: str, body: Callable[[], object]) -> Group:
        group = Group(name)

        def run() -> None:
            body()
            self._died(group)

        self.hub.spawn(group, run)
        return group

    def _kill(self, group: Group) -> None:
        self.hub.kill(group)
        self._died(group)

    def _died(self, group: Group) -> None:
        if group in self.replays:
            self.replays.remove(group)
        if group in self.jobs:
            self.jobs.remove(group)
        if group.name == "person":
            self.busy = False
        if not self.jobs:
            self.hub.after(int(self.hub.random.random() * 20_000), self.start_job)

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def life(self) -> int:
        """How often the topic was created again."""
        return self.kafka.life

    def uid(self, partition: int, offset: int) -> int:
        """The uid of the present record at this offset."""
        return uid_of(self.life, partition, offset)

    def uids(self, partition: int, offset: int) -> list[int]:
        """The uids of all records that were ever at this offset."""
        return [uid_of(life, partition, offset) for life in range(self.life + 1)]

    def open_at(self, key: StateKey, offset: int) -> int:
        """The uid of the record that a list in doubt has at this offset: the first one without a mark."""
        kept = {uid for table, uid, _ in self.delivered if table == key.table}
        found = [u for u in self.uids(key.partition, offset) if u in kept and (key.table, u) not in self.oracle.marks]
        return next(iter(found), self.uid(key.partition, offset))

    def create_again(self) -> None:
        """Recreate the topic with other records; replayed dead letters keep their marks, the others stay open."""
        if self.life + 1 == LIVES:
            return
        for partition in range(self.partitions):
            self.forget(partition)
            self.ends[partition] = job.SOME
        self.kafka.life += 1

    def destinations(self) -> tuple[tuple[str, str], ...]:
        """Where the topic leads to."""
        return tuple(("t", table) for table in self.kinds)

    def keep(self, kept: KeptLetters) -> None:
        """The job delivers a dead letter; in a topic, perhaps twice."""
        if self.table is not None:
            self.table.kept[LetterPlace(kept.topic, kept.partition, kept.offset, kept.table)] = kept
            return
        for _ in range(1 + (self.hub.random.random() < 0.2)):
            self.topic.keep(kept, self.sink)

    def put(self, table: str, uid: int) -> None:
        """The job lands a row."""
        server = self.servers[uid % self.shards]
        server.tables[table].rows.setdefault(("t", uid % 10**9 // PARTITION), []).append(uid)
        server.tables[table].block_of[uid] = server.tables[table].blocks
        self.oracle.inserted(table, "t", [uid], server.number)

    def delete(self, table: str, uid: int) -> None:
        """A person deletes a row."""
        for server in self.servers:
            server.tables[table].mutations += 1
            rows = server.tables[table].rows.get(("t", uid % 10**9 // PARTITION), [])
            while uid in rows:
                rows.remove(uid)
                self.oracle.deleted(table, [uid])

    @property
    def tables_are_searched(self) -> bool:
        """Whether a replay can look in the tables for rows."""
        return all(kind.can_probe and not kind.replacing for kind in self.kinds.values())

    def forget(self, partition: int) -> None:
        """After a reset, before the next start, a person deletes the partition's rows, and its dead letters in a table."""
        for table in self.kinds:
            for offset in range(self.ends[partition]):
                self.delete(table, self.uid(partition, offset))
                self.by_job.discard((table, self.uid(partition, offset)))
        if self.table is not None:
            self.table.remove(partition)

    def _wanted(self) -> dict[tuple[str, int], bool]:
        """Each record that fits has a row, unless nobody could tell: it was delivered in an earlier life, and the table does
        not show its rows, or its mark is of an earlier life.
        """
        wanted = {}
        for key in self.keys:
            record = decode(self.store.rows[str(key)].body)
            assert record.phase is Phase.AFTER, record
            for offset in range(record.end):
                uid = self.uid(key.partition, offset)
                told = record.life.incarnation == self.life and not self._sent_again(key, uid, record.life.nonce)
                alone = not self.life or (self.tables_are_searched and not self._others_at(key, offset))
                wanted[key.table, uid] = bool(offset % 4 or not offset % 3) and told and alone
        return wanted

    def _others_at(self, key: StateKey, offset: int) -> bool:
        """Whether an earlier record of the place has a dead letter without a mark, or a row."""
        earlier = {(key.table, uid) for uid in self.uids(key.partition, offset)[:-1]}
        kept = {(table, uid) for table, uid, _ in self.delivered}
        return any(at in kept - self.oracle.marks or self.oracle.rows[at] for at in earlier)

    def _sent_again(self, key: StateKey, uid: int, nonce: str) -> bool:
        return any((table, u) == (key.table, uid) and n != nonce for table, u, n in self.delivered)


__all__ = ["BAD", "WORLD_STEPS", "World"]
