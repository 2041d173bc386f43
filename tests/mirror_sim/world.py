"""One world of the mirror: its services, its processes and the events that hit them.  Built from a seed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from typing import Any

from chsink import failpoints
from chsink.errors import ChsinkError, FencedError, HaltError
from chsink.errors import services as errors
from chsink.mirror import coordination, coordinator, lander, trail, worker
from chsink.mirror.control import ControlUnanswered
from chsink.statemachine.commit.rounds import CommitPace
from chsink.statemachine.ranges import TopicPartition
from tests.mirror_sim import oracle
from tests.mirror_sim.branches import Main
from tests.mirror_sim.broker import CONTROL, GROUP, Broker
from tests.mirror_sim.catalog import SimCatalog
from tests.mirror_sim.decider import Decider
from tests.mirror_sim.events import HAPPENINGS
from tests.mirror_sim.job import KEYS, every_partition, start_driver
from tests.mirror_sim.named import LISTED, NamedTables, listed
from tests.mirror_sim.replacements import Replacements
from tests.mirror_sim.shared import TABLES, Routes, some_map
from tests.mirror_sim.spark import SimFiles
from tests.sim.checkpoint import Checkpoint, SparkDied
from tests.sim.hub import Group, Hub, Violation
from tests.sim.kafka import PARTITION, SERIAL, Kafka, serial_of, uid_of
from tests.sim.tasks import Attempt

WORLD_STEPS = 1500
CALM_STEPS = 20_000
REST_STEPS = 200
NEXT_RECORD_STEPS = 2000
"""If a group was moved during a batch, the skipped offsets land with the partition's next record."""
EVENT_RATE = 0.07
FAILPOINT_RATE = 0.05
JUSTIFIED = {
    "MIRROR_ROLLED_BACK": {"rolled back"},
    "MIRROR_ROWS_FOUND": {"chain lost"},
    "MIRROR_ROWS_GONE": {"rolled back"},
    "MIRROR_TABLE_RECREATED": {"table recreated"},
    "MIRROR_CHAIN_MISSING": {"table recreated", "rollback hidden", "chain lost", "no table stays"},
    "MIRROR_TOPIC_RECREATED": {"topic recreated"},
    # without the property, the last snapshot tells: offsets without a record for the table may lie beyond it
    "MIRROR_RECORDS_GONE": {"records lost", "property lost", "rollback hidden", "rows end below the log"},
    "MIRROR_LOG_SHRANK": {"log shrank"},
    "MIRROR_CHOICE_CHANGED": {"table_by changed"},
    # a table that left the topic still waits for files; retention looks at the tables of now
    "MIRROR_FILES_GONE": {"records lost", "topic recreated", "table_by changed"},
}
"""The faults that justify a halt."""
TOGETHER = {
    "rollback hidden": {"rolled back", "property lost"},  # the table looks as if it never held more
    "log shrank": {"topic recreated", "chain lost"},  # rows of the earlier topic alone tell how far a table is
}
"""What faults amount to that come together."""


class Topics(Kafka):
    """The source topics, as an admin client shows them, and when each record was written."""

    def __init__(self, hub: Hub, topics: dict[str, int], broker: Broker, named: NamedTables) -> None:
        self.times: dict[int, int] = {}
        self.broker, self.named = broker, named
        super().__init__(hub, topics)

    def _ask(self) -> None:
        try:
            self.broker.ask()
        except ControlUnanswered as error:
            raise errors.KAFKA_UNAVAILABLE(bootstrap="sim", reason=str(error)) from error

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """See :class:`chsink.ports.KafkaCluster`."""
        self._ask()
        return {t: f"c{self.broker.life}" if t == CONTROL else self.topics[t].id for t in sorted(topics)}

    def append(self, tp: TopicPartition, count: int) -> None:
        """So many records, written now."""
        log, serial = self.log(tp), self.topics[tp.topic].serial
        for offset in range(log.end, log.end + count):
            uid = uid_of(serial, tp.partition, offset)
            self.times[uid] = self.hub.now
            self.named.appended(tp.topic, uid)
        super().append(tp, count)


@contextmanager
def replaced(values: Mapping[tuple[Any, str], Any]) -> Iterator[None]:
    """By module and name: what production code finds there meanwhile."""
    kept = {(module, name): vars(module)[name] for module, name in values}
    _set(values)
    try:
        yield
    finally:
        _set(kept)


def _set(values: Mapping[tuple[Any, str], Any]) -> None:
    for (module, name), value in values.items():
        setattr(module, name, value)


class World:
    """``run`` runs it for a number of steps and then brings it to rest."""

    def __init__(self, seed: int, allowed: frozenset[int] | None = None) -> None:
        self.hub = hub = Hub(seed, allowed)
        shape = Random(f"mirror {seed}")
        topics = {f"t{n}": shape.randint(1, 2) for n in range(shape.choice([1, 1, 2]))}
        tables = [f"db.{name}" for name in "ab"[: shape.choice([1, 1, 2])]]
        whole = {topic: tuple(tables[: shape.randint(1, len(tables))]) for topic in topics}
        used = {name for names in whole.values() for name in names}
        more = Random(f"shared {seed}")
        shared = {topic: some_map(more) for topic in whole if more.random() < 0.4}
        self.routes = Routes({t: () if t in shared and more.random() < 0.5 else whole[t] for t in whole}, shared)
        used |= set(TABLES) if shared else set()
        self.named = NamedTables(hub, list(topics))
        self.decider = Decider(hub)
        self.replacements = Replacements(hub)
        if self.named.topic:
            maps = {t: of for t, of in shared.items() if t != self.named.topic}
            self.routes = replace(self.routes, maps=maps, named={self.named.topic: ()})
            used |= {LISTED}
        self.floors: dict[str, dict[TopicPartition, int]] = {}
        self.dropped = set[str]()
        self.lost_with_tables = frozenset[int]()
        """What a dropped table held, or was to hold: nobody reads it again for a table that shared its topic."""
        """By table, down to which offsets a backfill was asked for."""
        self.added_now = more.random() < 0.5
        self.sharings = {(t, self.routes.sharing(t).choice): self.routes.tables(t) for t in self.routes.shared}
        """By topic and the fingerprint of its choice, the topic's tables."""
        self.broker = Broker(hub, shape.randint(1, 3))
        self.kafka = Topics(hub, topics, self.broker, self.named)
        self.main = Main(hub)
        self.keys = replace(KEYS, branch=self.main.branch)
        self.catalog = SimCatalog(hub, sorted(used), self.keys.branch)
        self.pace = CommitPace(shape.choice([3_000, 10_000]), shape.choice([1_000, 4_000]), shape.choice([4, 1000]))
        self.limit = shape.randint(3, 12)
        self.rows_each = shape.choice([2, 1000])
        self.part_bytes = shape.choice([300, 600_000])
        self.shape = shape
        self.reread_offsets = shape.choice([2, 1_000_000])
        self.checkpoint = Checkpoint()
        self.drivers: list[Group] = []
        self.executors: dict[int, Attempt] = {}
        self.reasons: set[str] = set()
        self.starts = 0
        self.over: str | None = None
        self.ids = count(1)
        self.broker.watch = self._kept(partial(oracle.transaction_committed, self))
        self.broker.moved = self._kept(partial(oracle.group_moved, self))
        self.catalog.committed = self._kept(partial(oracle.table_committed, self))
        self.catalog.place = lambda uid: (self.kafka.names[serial_of(uid)], uid % SERIAL // PARTITION)
        self.catalog.times = self.kafka.times
        self.catalog.late = partial(self.reasons.add, "table commit late")
        hub.died = self.died

    def _kept(self, check: Callable[..., None]) -> Callable[..., None]:
        """Keep a Violation for the hub: production code takes any exception of a catalog for a lost answer."""

        def checked(*arguments: Any) -> None:
            try:
                check(*arguments)
            except Violation as broken:
                self.hub.failure = self.hub.failure or broken
                raise

        return checked

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Raises Violation.  Ends at rest, or at a halt with a reason."""
        with self.watched():
            self.start_driver()
            self._run(steps)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Ids are the same in every run of a seed, files are the catalog's; at the end every process is gone."""
        ours: dict[tuple[Any, str], Any] = {
            (uuid, "uuid4"): lambda: uuid.UUID(int=next(self.ids) << 104),
            (worker, "DataFiles"): lambda _metadata, _io, attempt: SimFiles(self, attempt),
            (worker, "split"): partial(vars(worker)["split"], limit=self.part_bytes),
            (lander, "sleep"): self.hub.sleep,
            (failpoints, "reach"): self._reach,
            (coordinator, "REREAD_OFFSETS"): self.reread_offsets,
            (coordination, "monotonic"): lambda: self.hub.now / 1000,
            (trail, "monotonic"): lambda: self.hub.now / 1000,
        }
        try:
            with replaced(ours):
                yield
        finally:
            for group in [*self.drivers, *(attempt.group for attempt in self.executors.values())]:
                self.hub.kill(group)

    def _run(self, steps: int) -> None:
        hub = self.hub
        while hub.steps < steps and self.over is None:
            if hub.random.random() < EVENT_RATE:
                self._event()
            self.main.happen(self)
            self.named.happen()
            self.decider.happen(self)
            self.replacements.happen(self)
            if not hub.step():
                self.start_driver()
        hub.calm = True
        self.broker.away_until = self.catalog.away_until = 0
        rest, moved = 0, bool(self.reasons & oracle.GROUP_FAULTS)
        while self.over is None and rest < REST_STEPS:
            if moved and hub.steps > steps + NEXT_RECORD_STEPS:
                moved = False
                for tp in every_partition(self):
                    self.kafka.append(tp, 1)
            lacks = oracle.at_rest(self) if hub.steps % 10 == 0 or rest else "not asked"
            rest = 0 if lacks else rest + 1
            if hub.steps > steps + CALM_STEPS:
                raise Violation("complete_at_rest", f"after {CALM_STEPS} calm steps: {oracle.at_rest(self)}")
            if not hub.step():
                self.start_driver()
        hub.counts["world at rest" if self.over is None else f"world over {self.over}"] += 1

    def _event(self) -> None:
        """Something happens outside: most often records are produced."""
        hub = self.hub
        if hub.random.random() < 0.4:
            self.kafka.produce(hub.random.choice(self.kafka.all()))
        else:
            HAPPENINGS.one(self)

    def _reach(self, name: str) -> None:
        """A failpoint of production code: the process may die here.  Around a commit, the catalog sees to that."""
        if name != "table.after_commit" and self.hub.fault(f"killed at {name}", FAILPOINT_RATE):
            self.hub.die()

    # --- processes ----------------------------------------------------------------------------------------------------

    def known_routes(self) -> Routes:
        """What a start knows: the job file, and the tables that records named."""
        topic = self.named.topic
        if not topic:
            return self.routes
        return replace(self.routes, named={topic: listed(self, self.keys)})

    def start_driver(self) -> None:
        """Start the mirror."""
        if self.over is not None or self.decider.busy:
            return
        self.starts += 1
        if self.drivers:
            self.reasons.add("two drivers")
        group = Group(f"driver{self.starts}")
        self.drivers.append(group)
        start_driver(self, group)

    def starting(self) -> str:
        """The source's ``startingOffsets`` for a new checkpoint: anything that a person may choose."""
        self.hub.pause()
        which, found = self.hub.random.choice(["group", "earliest", "anywhere"]), dict[str, dict[str, int]]()
        group = self.broker.groups.get(GROUP, {})
        for tp in every_partition(self):
            log = self.kafka.log(tp)
            at = log.start + int(self.hub.random.random() * (log.end - log.start)) if which == "anywhere" else log.start
            if which == "group":
                at = group.get(tp, log.start)
            found.setdefault(tp.topic, {})[str(tp.partition)] = at
        return json.dumps(found)

    def ended(self, error: Exception) -> None:
        """A process ended with this error."""
        name = error.name if isinstance(error, ChsinkError) else type(error).__name__
        self.hub.counts[f"outcome {name}"] += 1
        if isinstance(error, FencedError) and not self.reasons & {"two drivers"}:
            raise Violation("halt_justified", str(error))
        if isinstance(error, HaltError):
            amount_to = {name for name, together in TOGETHER.items() if together <= self.reasons}
            if not (self.reasons | amount_to) & JUSTIFIED.get(name, set()):
                raise Violation("halt_justified", f"{name} {error}; reasons: {sorted(self.reasons)}")
            if not (self.decider.takes_up(self, name) or self.replacements.takes_up(self, name)):
                self.over = name
        if isinstance(error, SparkDied) and error.why == "data loss":
            self.checkpoint = Checkpoint()

    def kill(self, group: Group) -> None:
        """SIGKILL."""
        self.hub.kill(group)
        self.died(group)

    def died(self, group: Group) -> None:
        """The process is gone: its tasks die with it or live on, and it is started again."""
        attempt = self.executors.get(id(group))
        if self.decider.died(self, group):
            return
        self.gone(group)
        if attempt is not None:
            if attempt.driver.alive:
                attempt.lost()
            return
        for other in [a for a in self.executors.values() if a.driver is group]:
            if self.hub.random.random() < 0.5:
                self.hub.kill(other.group)
                self.gone(other.group)
        if not self.drivers:
            self.start_soon()

    def gone(self, group: Group) -> None:
        """The process is not there any more."""
        if group in self.drivers:
            self.drivers.remove(group)
        self.executors.pop(id(group), None)

    def start_soon(self) -> None:
        """Somebody starts it."""
        self.hub.after(int(self.hub.random.random() * 10_000), self.start_driver)

    # --- what is known ------------------------------------------------------------------------------------------------

    def recreate(self, topic: str) -> None:
        """The topic is deleted and made again."""
        self.kafka.recreate(topic)
        self.reasons.add("topic recreated")

    def landed(self, tp: TopicPartition) -> int:
        """The offset below which every table of the topic has all records, also one that a new map leaves out, until the
        tables have taken that map.
        """
        chains = {name: oracle.chain_of(table) for name, table in self.catalog.tables.items()}
        links = {name: None if chain is None else chain.links.get(tp) for name, chain in chains.items()}
        mine = [links.get(name) for name in oracle.tables_of(self, tp.topic)]
        maps = {link.choice for link in mine if link is not None and link.choice}
        mine += [link for link in links.values() if link is not None and link.choice in maps]
        return min((0 if link is None else link.until) for link in mine)
