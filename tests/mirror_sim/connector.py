"""What a Kafka Connect sink did before a simulated mirror: its files, events, offsets and snapshots.

It is drawn from a source of its own and done at once, without the scheduler: when a takeover looks at it, it is over.
The sink's rules are those of ``tests/integration/mirror/connect_sink.py``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation

from chsink.mirror.connector import Connector
from chsink.mirror.events import DataComplete, DataWritten, Event, PartitionAnswer, Payload, TableReference, encode
from chsink.mirror.files import entry_of
from chsink.statemachine.ranges import TopicPartition
from tests.mirror_sim.broker import CONTROL, Broker
from tests.mirror_sim.catalog import Snap, data_file
from tests.sim.kafka import uid_of

if TYPE_CHECKING:
    from tests.mirror_sim.world import World

THEIRS = "connect-control"
BEGAN = datetime(2023, 11, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TheirSnap(Snap):
    """A snapshot that the mirror did not make: nobody rolls back to before it.  ``files`` are the names that it has."""

    files: frozenset[str] = frozenset()
    rows: int = 0

    @property
    def summary(self) -> Any:
        """As pyiceberg has it."""
        counts = {"total-records": str(len(self.held)), "added-records": str(self.rows)}
        return SimpleNamespace(operation=Operation.APPEND, additional_properties={**self.properties, **counts})


class Past:
    """The sink's life.  ``whole``: no snapshot has expired, so its coordinator may also have begun to read at the end of
    its topic, past events that nobody has read: the takeover can tell.
    """

    def __init__(self, world: World, random: Random) -> None:
        self.world, self.random = world, random
        self.connector = Connector(random.choice([CONTROL, THEIRS, THEIRS]), "connect-lake")
        mine = self.connector.control_topic == CONTROL
        self.broker = world.broker if mine else Broker(world.hub, random.randint(1, 2))
        self.whole = random.random() < 0.5
        self.events: list[tuple[int, int, str, str]] = []
        self.buffer: list[tuple[int, int, str, str]] = []
        self.read: dict[int, int] = {}
        self.written = 0
        self.passed: dict[int, int] = {}
        self.right: dict[TopicPartition, int] = {}
        """What somebody's set-back of the group has changed."""
        self.restart()

    # --- its life -----------------------------------------------------------------------------------------------------

    def live(self) -> None:
        """To the moment when it is stopped."""
        world = self.world
        while not self.group:
            self.produce()
            self.write()
        steps: list[Callable[[], object]] = [
            *(self.produce, self.write, self.poll, self.commit, self.die_between_tables, self.restart),
            *(self.foreign, self.retention, self.rewrite_and_expire),
        ]
        for _ in range(self.random.randrange(60)):
            self.random.choices(steps, [4, 4, 3, 2, 2, 1, 0.5, 0.5, 0 if self.whole else 1])[0]()
        if self.random.random() < 0.3:
            self.die_between_tables()
        if self.whole and self.random.random() < 0.1:
            self.set_back()
        groups, topic = world.broker.groups, self.connector.control_topic
        if self.passed:
            groups[self.connector.coordinator_group] = {TopicPartition(topic, p): at for p, at in self.passed.items()}
        for name, table in world.catalog.tables.items():
            if table.branch != MAIN_BRANCH:  # a person makes the branch at main
                world.catalog.tables[name] = replace(table, head=table.main)

    @property
    def group(self) -> dict[TopicPartition, int]:
        """Its group's offsets."""
        return self.world.broker.groups.setdefault(self.connector.group, {})

    def produce(self) -> None:
        """Records."""
        self.world.kafka.produce(self._partition())

    def _partition(self) -> TopicPartition:
        return self.random.choice([tp for tp in self.world.kafka.all() if tp.topic in self.world.routes.whole])

    def write(self) -> None:
        """A worker reports files of each table of a topic, and moves the group, in one transaction."""
        tp = self._partition()
        log, at = self.world.kafka.log(tp), self.group.get(tp)
        start = log.start if at is None else at
        if start < log.end:
            end = self.random.randint(start + 1, log.end)
            number, serial = self.random.randrange(len(self.broker.logs)), self.world.kafka.topics[tp.topic].serial
            uids = [uid_of(serial, tp.partition, offset) for offset in log.between(start, end)]
            for table in self.world.routes.whole[tp.topic] if uids else ():
                self._report(number, table, tuple(uids))
            complete = DataComplete(uuid.UUID(int=0), (PartitionAnswer(tp.topic, tp.partition, end, None),))
            self._send(number, complete)
            self.broker.logs[number].entries.append((None, None))
            self.group[tp] = end

    def _report(self, number: int, table: str, uids: tuple[int, ...]) -> None:
        self.written += 1
        namespace, name = table.split(".")
        file = data_file(f"lake/{table}/{self.written}.parquet", len(uids))
        self.world.catalog.files[file.file_path] = uids
        at = self._send(
            number,
            DataWritten(uuid.UUID(int=0), TableReference("iceberg", (namespace,), name), (entry_of(file, 0),), None),
        )
        self.events.append((number, at, table, file.file_path))

    def _send(self, number: int, payload: Payload) -> int:
        entries = self.broker.logs[number].entries
        sent = BEGAN + timedelta(seconds=self.written, microseconds=len(entries))
        entries.append((encode(Event(uuid.UUID(int=0), sent, self.connector.group, payload)), None))
        return len(entries) - 1

    def restart(self) -> None:
        """Its coordinator: without an offset of its group, it begins at the topic's end."""
        ends = {p: log.end for p, log in enumerate(self.broker.logs)}
        self.at = {p: self.passed.get(p, end if self.whole else 0) for p, end in ends.items()}
        self.buffer, self.read = [], {}

    def poll(self) -> None:
        """It reads all events."""
        for p, log in enumerate(self.broker.logs):
            self.buffer += [event for event in self.events if event[0] == p and event[1] >= self.at[p]]
            if self.at[p] < log.end:
                self.read[p] = self.at[p] = log.end

    def commit(self, tables: int | None = None) -> list[str]:
        """To the tables in turn, then its group moves; with ``tables``, it dies after so many.  Returns what it committed."""
        done = []
        for name in [*self.world.catalog.tables][:tables]:
            known = self._stored(name)
            mine = [file for p, at, table, file in self.buffer if table == name and at >= known.get(p, 0)]
            if mine:
                stored = json.dumps({str(p): at for p, at in sorted(self.read.items())})
                self._snapshot(name, frozenset(mine), {self.connector.offsets: stored})
                done += mine
        if tables is None:
            self.passed |= self.read
            self.buffer = []
        return done

    def die_between_tables(self) -> None:
        """In the middle of a commit."""
        self.commit(self.random.randrange(len(self.world.catalog.tables) + 1))
        self.restart()

    def foreign(self) -> None:
        """Another writer's snapshot."""
        self._snapshot(self._any_table(), frozenset(), {})

    def _any_table(self) -> str:
        return self.random.choice([*self.world.catalog.tables])

    def retention(self) -> None:
        """Kafka deletes records that were read, and events of which the coordinator's group knows."""
        tp = self._partition()
        if (at := self.group.get(tp)) is not None:
            self.world.kafka.expire(tp, self.random.randint(0, at), lossy=False)
        if self.passed and not self.whole:
            number = self.random.choice([*self.passed])
            self.broker.logs[number].start = self.random.randint(self.broker.logs[number].start, self.passed[number])

    def set_back(self) -> None:
        """Somebody sets its group back.  Its events tell."""
        tp = self.random.choice([*self.group])
        self.right = {tp: self.group[tp]}
        self.group[tp] = self.random.randrange(self.group[tp])

    def rewrite_and_expire(self) -> None:
        """Other files hold the rows, and only the newest snapshots are left: perhaps none of the sink."""
        name, catalog = self._any_table(), self.world.catalog
        if self._head(name) is None:
            return
        if self.random.random() < 0.5:
            self._snapshot(name, frozenset(), {}, rewritten=True)
        kept = list(self._lineage(name))[: self.random.randint(1, 3)]
        catalog.tables[name] = replace(catalog.tables[name], snaps={snap.snapshot_id: snap for snap in kept})

    # --- tables -------------------------------------------------------------------------------------------------------

    def _head(self, name: str) -> Snap | None:
        return self.world.catalog.tables[name].snapshot_by_name(MAIN_BRANCH)

    def _lineage(self, name: str) -> Iterator[Snap]:
        """Main's snapshots, from its head back."""
        at = self._head(name)
        while at is not None:
            yield at
            at = self.world.catalog.tables[name].snapshot_by_id(at.parent_snapshot_id or 0)

    def _stored(self, name: str) -> dict[int, int]:
        """By the newest snapshot on main that says so."""
        texts = (
            snap.properties[key] for snap in self._lineage(name) if (key := self.connector.offsets) in snap.properties
        )
        return {int(p): offset for p, offset in json.loads(next(texts, "{}")).items()}

    def is_unsure(self) -> bool:
        """Whether nothing says of some file that is in no snapshot whether it was committed."""
        for name in self.world.catalog.tables:
            lineage = [*self._lineage(name)]
            names = frozenset[str]().union(*(names_in(self.world.catalog.files, snap) for snap in lineage))
            said = {int(p) for snap in lineage for p in json.loads(snap.properties.get(self.connector.offsets, "{}"))}
            for p, at, table, file in self.events:
                if table == name and file not in names and p not in said and at >= self.passed.get(p, 0):
                    return True
        return False

    def _snapshot(self, name: str, files: frozenset[str], summary: dict[str, str], *, rewritten: bool = False) -> None:
        catalog, parent = self.world.catalog, self._head(name)
        table, uids = catalog.tables[name], [uid for file in sorted(files) for uid in catalog.files[file]]
        held = frozenset() if parent is None else parent.held
        names = frozenset() if parent is None or rewritten else names_in(catalog.files, parent)
        number, sequence = next(catalog.made), table.sequence + 1
        parent_id = None if parent is None else parent.snapshot_id
        made = TheirSnap(
            number, sequence, parent_id, held | set(uids), (), summary, files=names | files, rows=len(uids)
        )
        table = replace(table, snaps={**table.snaps, number: made}, sequence=sequence)
        on_main = table.branch == MAIN_BRANCH
        catalog.tables[name] = replace(table, head=number) if on_main else replace(table, main=number)


def names_in(files: dict[str, tuple[int, ...]], snap: Snap) -> frozenset[str]:
    """The data files that a snapshot has, or those that it added if it is the mirror's."""
    if isinstance(snap, TheirSnap):
        return snap.files
    return frozenset(name for name, uids in files.items() if uids and set(uids) <= set(snap.added))
