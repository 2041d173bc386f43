"""One world: its services, its processes, the events that hit them, and an operator who answers halts.

Each world draws its own shape and its own mixture of faults (some never, some often), so that a thousand worlds show
combinations that one average world would not.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from random import Random
from random import seed as seed_jitter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

from chsink import failpoints
from chsink.dlq.fates import Fate
from chsink.driver.ledger import parse_key
from chsink.errors import ChsinkError, FencedError, UnavailableError
from chsink.ports import StoredRow
from chsink.recovery import partition_survey, survey
from chsink.statemachine.codec import decode
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from tests.sim import operator
from tests.sim.checkpoint import Checkpoint, SparkDied
from tests.sim.clickhouse import LETTERS, REQUEST_TIMEOUT_S, Server, Table, TableKind, list_uid
from tests.sim.events import HAPPENINGS, OF_LETTERS, while_down
from tests.sim.hub import Group, Hub, Violation
from tests.sim.job import drive
from tests.sim.kafka import PARTITION, Kafka, serial_of
from tests.sim.letters import LettersTopic
from tests.sim.oracle import Oracle, lists_of
from tests.sim.services import MARGIN_S, By, count_of
from tests.sim.spark import Reader, prepare
from tests.sim.store import Store
from tests.sim.tasks import Attempt

if TYPE_CHECKING:
    from chsink.clickhouse.cluster import Cluster
    from chsink.clickhouse.shards import RoutedTable
    from chsink.driver.roles import Assignment
    from chsink.recovery.explained import Prepare

CALM_STEPS = 40_000
MAX_CALM_STARTS = 30
WORLD_STEPS = 1000
ROUNDS_SHARE = 0.25
"""Share of the worlds in which batches are too large for one round."""
VIEWS_SHARE = 0.25
"""Share of the worlds whose tables feed a view."""
SMALL_VIEW = 200
"""A window of a view's target.  Its tenth holds what all tasks send at once, but not what comes while a request is on its
way for half a minute (a stated limit).
"""
EVENT_RATE = 0.04
FAILPOINT_RATE = 0.02


_IN_DOUBT = {"killed at driver.before_after": 5.0, "killed at driver.after_before": 4.0}
_FORGOTTEN = _IN_DOUBT | {"server killed with an insert": 4.0, "window overflowed by other writers": 2.0}
THEMES: tuple[dict[str, float], ...] = (
    {},
    {},
    _FORGOTTEN | {"compaction": 3.0},
    _FORGOTTEN | {"topic recreated": 4.0},
    _IN_DOUBT | {"started from anywhere": 4.0, "checkpoint lost": 0.0, "commit deleted": 0.0},
    _IN_DOUBT | {"offsets skipped forward": 8.0, "started from earliest": 4.0},
    {
        "two drivers at once": 3.0,
        "second driver": 3.0,
        "store swap answer lost": 8.0,
        "store swap delivered twice": 10.0,
    },
    {"executor frozen": 8.0, "insert answer lost": 4.0, "clock jump": 4.0, "compaction": 0.0, "topic recreated": 0.0},
    {"executor killed": 5.0, "killed at task.before_insert": 6.0, "killed at task.after_insert": 6.0},
)
"""Faults that seldom coincide by chance, made more frequent together."""
SPECIAL = ("everything removed", "brokers gain topic ids", "reads lag")
"""Events of a few worlds only.  They are drawn separately, so that a new one leaves the seeds of other worlds valid."""
DISASTERS = ("state lost in a batch", "state restored")
"""Losses of state, in a few worlds whose tables have the columns to rebuild it from.  The job is stopped, with ranges
in doubt; then the state is lost, or replaced by an earlier backup.
"""
DISASTER_SHARE = 0.1
TABLE_SHARE, TOPIC_SHARE = 0.5, 0.25
"""Shares of the worlds with bad values that keep dead letters in a table on the first server, and in a topic."""
REPLACING_SHARE = 0.15
"""Share of the worlds whose engine merges rows."""
LISTING_SHARE = 0.4
"""Share of the worlds with dead letters that list there the offsets of ranges in doubt which Kafka deleted."""
LettersIn = Literal["", "table", "topic"]
LETTERS_EVENTS = 0.15
"""Share of the events in a world with a topic of dead letters that hit this topic."""


def _draw_kind(shape: Random, seed: int) -> TableKind:
    """How the tables of a world deduplicate."""
    replicated, window_s = shape.random() < 0.4, shape.choice([300, 900, 3600])
    apart = Random(f"tables {seed}")
    parts, views = apart.choice([1, 1, 2, 3]), apart.random() < VIEWS_SHARE
    blocks, can_probe, replacing = shape.choice([1000, 10_000]), shape.random() < 0.9, apart.random() < REPLACING_SHARE
    view_blocks, view_parts = apart.choice([(blocks, 1), (blocks, 4), (SMALL_VIEW, 1), (SMALL_VIEW, 1)])
    return TableKind(replicated, blocks, window_s, can_probe, parts, view_blocks if views else 0, view_parts, replacing)


def _factors_of(kind: TableKind) -> dict[str, float]:
    factors = {"insert arrives late": 0.0} if kind.view_blocks == SMALL_VIEW else {}
    in_part = kind.parts > 1 or kind.views  # where an insert can land in part
    return factors | ({"server killed with an insert": 5.0} if in_part else {})


class World:
    """Built from a seed; ``run`` runs it for a number of steps and then brings it to rest."""

    def __init__(self, seed: int, allowed: frozenset[int] | None = None) -> None:
        self.hub = hub = Hub(seed, allowed)
        shape = Random(f"shape {seed}")
        topics = {f"t{n}": shape.randint(1, 3) for n in range(shape.choice([1, 1, 2]))}
        self.kafka = Kafka(hub, topics)
        self.oracle = Oracle(self.kafka, self.accepts, count_of, hub.counts)
        self.sink = "sink"
        self.store = Store(hub, self.oracle, shape.choice([1, 2, 100]))
        self.bad = shape.choice([5, 11, 10**12])
        self.halt_on_bad_value = shape.random() < 0.1
        kind = _draw_kind(shape, seed)
        one_table = shape.random() < 0.5
        self.routes = {t: "db.t" if one_table else f"db.{t}" for t in topics}
        self.further: dict[str, str] = {}
        self.kinds = dict.fromkeys(self.routes.values(), kind)
        self.oracle.with_views.update(self.kinds if kind.views else ())
        self.shards = shape.randint(1, 3)
        self.servers = [Server(hub, self.oracle, n, self.kinds, self.kafka.names) for n in range(3)]
        self.letters_topic = LettersTopic(hub, self._letters_committed)
        self.letters = self._draw_letters(seed, kind)
        self.chunk_offsets = shape.randint(2, 6)
        self.limit = shape.randint(3, 12)
        shape.choice([0, 1])  # not used: without it, every seed would make another world
        self.versions_of: dict[str, int] = {}
        self.on_gap: Literal["halt", "record"] = "record" if shape.random() < 0.5 else "halt"
        self.on_rewind: Literal["halt", "skip"] = "skip" if shape.random() < 0.7 else "halt"
        self.checkpoint = Checkpoint()
        self.prepare = partial(prepare, bad=self.bad)
        self.drivers: list[Group] = []
        self.executors: list[Group] = []
        self.running: dict[int, Attempt] = {}
        self.reasons = {"bad value"} if self.halt_on_bad_value and self.bad < 100 else set[str]()
        self.reasons |= {"window"} if kind.view_blocks == SMALL_VIEW else set()
        self.forgiven: set[TopicPartition] = set()
        self.starts = self.calm_starts = 0
        self.over: str | None = None
        self.hands_on = False
        self.ids = count(1)
        self.drained = False
        if shape.random() < 0.15:
            self._start_at_latest()
        hub.factors.update(shape.choice(THEMES))
        hub.factors.update(_factors_of(kind))
        if (
            not kind.can_probe and not self.letters
        ):  # elsewhere the rows that are there stop the start before the state is decided by
            hub.factors["state lost"] = 5.0
        hub.factors.update({"state lost": 0.0} if self.letters else {})
        self._draw_events(seed, rare=allowed is None or bool(allowed))
        small = Random(f"rounds {seed}")
        self.round_offsets = small.randint(1, 8) if small.random() < ROUNDS_SHARE else None
        hub.died = self.died

    def _draw_letters(self, seed: int, kind: TableKind) -> LettersIn:
        """Where the world keeps dead letters.  If it does, its state is not lost: a partition that has dead letters and
        no row does not show that it was (a stated limit).
        """
        drawn = Random(f"letters {seed}").random()
        self.in_doubt: Literal["halt", "dead_letter"] = "halt"
        if self.bad >= 100 or drawn >= TABLE_SHARE + TOPIC_SHARE:
            return ""
        if Random(f"in doubt {seed}").random() < LISTING_SHARE:
            self.in_doubt, self.oracle.lists = "dead_letter", True
        self.oracle.letters = LETTERS
        if drawn >= TABLE_SHARE:
            self.oracle.letters_stay = True
            return "topic"
        for name in (LETTERS, *map(lists_of, self.kinds)):
            self.servers[0].tables[name] = Table(TableKind(False, kind.window_blocks, kind.window_s))
        return "table"

    def _letters_committed(self, letters: list[Mapping[str, Any]]) -> None:
        """A transaction of dead letters committed.  A letter without a value lists offsets that Kafka deleted."""
        for letter in letters:
            said = {name: (value or b"").decode() for name, value in letter["headers"]}
            place = LETTERS if letter["value"] is not None else lists_of(said["chsink.table"])
            where = said["chsink.topic"], int(said["chsink.partition"]), int(said["chsink.offset"])
            uid = int(letter["value"]) if place == LETTERS else list_uid(self.kafka.names, *where)
            self.oracle.inserted(place, self.kafka.names[serial_of(uid)], [uid], 0)

    def _draw_events(self, seed: int, *, rare: bool) -> None:
        """What happens in a few worlds only, and when."""
        apart = Random(f"special {seed}")
        self.special = apart.choice([*SPECIAL, *[""] * 20]) if rare else ""
        self.special = "" if self.letters and self.special == "everything removed" else self.special
        self.special_at = int(apart.random() * WORLD_STEPS)
        self.kafka.ids_hidden = self.special == "brokers gain topic ids"
        self.store.lags = self.special == "reads lag"
        if self.store.lags:
            self.reasons.add("reads lag")
        worse = Random(f"disaster {seed}")
        chosen = worse.choice(DISASTERS) if worse.random() < DISASTER_SHARE and rare else ""
        self.disaster = chosen if self.tables_tell and not self.letters else ""
        self.backup_at, self.disaster_at = sorted(worse.sample(range(WORLD_STEPS), 2))
        self.backup: dict[str, StoredRow] = {}
        self.acts_before = 0

    def _start_at_latest(self) -> None:
        """`starting_offsets = "latest"`: earlier records need not land."""
        for tp in self.kafka.all():
            self.kafka.append(tp, 5)
            self.forgiven.add(tp)
        self.checkpoint = Checkpoint(dict.fromkeys(self.kafka.all(), 5))

    # --- running --------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Raises Violation.  Ends at rest, or at a halt that only a person can resolve."""
        with self.watched():
            self.start_driver()
            if self.hub.fault("two drivers at once", 0.6):
                self.start_driver()
            self._run(steps)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The production code's failpoints are this world's; at the end every process is gone."""
        reach, uuid4 = failpoints.reach, uuid.uuid4
        opens, prepares = vars(survey)["open_exact_reader"], vars(partition_survey)["preparing"]
        failpoints.reach = self.reach
        vars(survey)["open_exact_reader"] = lambda *_: Reader(self.kafka)
        vars(partition_survey)["preparing"] = self._preparing
        uuid.uuid4 = lambda: uuid.UUID(int=next(self.ids) << 104)  # ids, too, are the same in every run of a seed
        seed_jitter(f"jitter {self.hub.seed}")  # tenacity draws from the shared source
        try:
            with self.letters_topic.instead_of_kafka():
                yield
        finally:
            failpoints.reach, uuid.uuid4 = reach, uuid4
            vars(survey)["open_exact_reader"], vars(partition_survey)["preparing"] = opens, prepares
            self._bury()

    def _run(self, steps: int) -> None:
        hub = self.hub
        while hub.steps < steps and self.over is None:
            if hub.steps == self.special_at and self.special:
                self._special()
            self._disaster()
            if hub.random.random() < EVENT_RATE:
                self.event()
            if not hub.step():
                self.start_driver()
        hub.calm = True
        operator.heal(self)
        while self.over is None:
            if hub.steps > steps + CALM_STEPS:
                raise Violation("progress", f"no rest after {CALM_STEPS} calm steps")
            if not hub.step():
                if self.drained:
                    break
                self.start_driver()
        if self.over is None:
            self.check_rest()
            hub.counts["world at rest"] += 1
        else:
            hub.counts[f"world over {self.over}"] += 1

    def check_rest(self) -> None:
        """Check, at rest, that every record is where it belongs."""
        self.oracle.at_rest(self.routes, self.records(), self.forgiven)

    def _special(self) -> None:
        """Nobody removes what somebody else is at work on."""
        if self.special == "everything removed" and self.hands_on:
            return
        self.hub.counts[f"fault {self.special}"] += 1
        if self.special == "everything removed":
            self.start_over()
        elif self.special == "brokers gain topic ids":
            self.kafka.ids_hidden = False
            self.reasons.add("topic ids shown")

    def _disaster(self) -> None:
        if not self.disaster:
            return
        if self.hub.steps == self.backup_at:
            self.backup, self.acts_before = dict(self.store.rows), self.hub.counts["operator acts"] - self.hands_on
        if self.hub.steps == self.disaster_at and self._disaster_is_told():
            self.hub.counts[f"fault {self.disaster}"] += 1
            self.stop_drivers()
            self.stop_executors()
            restored = self.disaster == "state restored"
            self.store.forget(self.backup if restored else {})
            self.reasons.add("state restored" if restored else "state lost")
            self.start_soon()

    def _disaster_is_told(self) -> bool:
        """Whether chsink could ever notice: an old backup of a topic that was recreated since says nothing of its rows,
        and one from before a person's command is believed for what that command changed.
        """
        if self.disaster == "state restored" and self.hub.counts["operator acts"] != self.acts_before:
            return False
        recorded = {parse_key(key): decode(row.body) for key, row in self.backup.items() if "/" in key}
        lives = {topic.id for topic in self.kafka.topics.values()} | {None}
        known = all(record.life.topic_id in lives for record in recorded.values()) and not self._is_hidden(recorded)
        return bool(self.checkpoint.commits) and not self.hands_on and known and self.shows_all_rows

    def _is_hidden(self, recorded: Mapping[StateKey, StateRecord]) -> bool:
        """Whether all rows beyond the recorded ends lie below what an earlier incarnation had reached: they may be its."""
        ends = {key: self._last_row(key) + 1 for key in recorded}
        beyond = [key for key, record in recorded.items() if ends[key] > record.end]
        return bool(beyond) and all(ends[key] <= recorded[key].known_end for key in beyond)

    def _last_row(self, key: StateKey) -> int:
        rows = (server.tables[key.table].rows.get((key.topic, key.partition), ()) for server in self.servers)
        return max((uid % PARTITION for uids in rows for uid in uids), default=-1)

    def event(self) -> None:
        """Something happens outside: most often records are produced."""
        hub = self.hub
        if hub.random.random() < 0.4:
            self.kafka.produce(hub.random.choice(self.kafka.all()))
        elif self.letters == "topic" and hub.random.random() < LETTERS_EVENTS:
            OF_LETTERS.one(self)
        else:
            HAPPENINGS.one(self)

    def reach(self, name: str) -> None:
        """A failpoint of the production code: the process may die here."""
        self.hub.counts[f"failpoint {name}"] += 1
        if self.hub.fault(f"killed at {name}", FAILPOINT_RATE):
            self.hub.die()

    def _preparing(self, clickhouse: Cluster, target: RoutedTable) -> Prepare:
        """What the job makes of records of a table now."""
        route = clickhouse.routes[target.topic, target.name]
        layout = clickhouse.layout(route).to_json()
        named = SimpleNamespace(key=SimpleNamespace(topic=target.topic, table=target.name), layout=layout)
        return lambda records: self.prepare(records, cast("Assignment", named))

    def _bury(self) -> None:
        for group in [*self.drivers, *self.executors]:
            self.hub.kill(group)

    # --- processes ------------------------------------------------------------------------------------------------

    def start_driver(self) -> None:
        """Start the job, unless somebody has stopped it to work on it."""
        if self.hands_on:
            return
        self.starts += 1
        self.calm_starts += self.hub.calm
        if self.calm_starts > MAX_CALM_STARTS:
            raise Violation("progress", f"the job was started {self.calm_starts} times in a calm world")
        if self.drivers:
            self.reasons.add("two drivers")
        group = Group(f"driver{self.starts}")
        self.drivers.append(group)
        skew, limit = self.hub.random.randint(-500, 500), self.limit

        def run() -> None:
            try:
                self.drained = drive(self, skew, limit) or self.drained
                self.gone(group)
            except (ChsinkError, SparkDied) as error:
                self.gone(group)
                self._stopped(error)

        self.hub.spawn(group, run)

    def _stopped(self, error: ChsinkError | SparkDied) -> None:
        """The job ended with an error: is there a reason, and what does an operator do?"""
        why = error.id if isinstance(error, ChsinkError) else f"spark {error.why}"
        self.hub.counts[f"outcome {why}"] += 1
        if isinstance(error, FencedError):
            if not self.reasons & {"two drivers", "state lost"}:
                raise Violation("halt_justified", str(error))
            if not self.drivers:
                self.start_soon()
        elif isinstance(error, UnavailableError):
            self.start_soon()
        else:
            operator.answer(self, why, error)

    def alter(self, table: str, version: int) -> None:
        """The table on every shard: it has one more column with each version."""
        for server in self.servers:
            server.tables[table].version = version

    def start_soon(self) -> None:
        """Somebody restarts the job.  Meanwhile others go on."""
        if not self.drivers:
            while_down(self)
        self.hub.after(int(self.hub.random.random() * 20_000), self.start_driver)

    def start_over(self) -> None:
        """Somebody stops the sink, removes its rows, state and checkpoint, and starts it again under the same name.

        Nothing of before is under way any more; tables remember their tokens.
        """
        self.stop_drivers()
        self.stop_executors()
        for server in self.servers:
            server.empty()
        self.store.start_over()
        self.oracle.start_over()
        self.hub.counts["operator acts"] += 1
        self.checkpoint = Checkpoint({tp: self.kafka.log(tp).start for tp in self.kafka.all()})
        self.start_soon()

    def stop_drivers(self) -> None:
        """End every driver process of the job; executors may finish their work."""
        for group in list(self.drivers):
            self.hub.kill(group)
            self.gone(group)

    def stop_executors(self) -> None:
        """Every executor is ended."""
        for group in list(self.executors):
            self.hub.kill(group)
            self.gone(group)

    def gone(self, group: Group) -> None:
        """The process ended by itself."""
        if group in self.drivers:
            self.drivers.remove(group)
        if group in self.executors:
            self.executors.remove(group)
        self.running.pop(id(group), None)

    def died(self, group: Group) -> None:
        """The process was killed."""
        if group in self.drivers:
            self.gone(group)
            self._driver_died(group)
        elif group in self.executors:
            self.reasons.add("executor killed")
            attempt = self.running[id(group)]
            self.gone(group)
            if attempt.driver.alive:
                attempt.lost()
        else:
            self.hands_on = False
            self.start_soon()

    def _driver_died(self, group: Group) -> None:
        """The driver's tasks die with it, or live on for a while."""
        for attempt in list(self.running.values()):
            if attempt.driver is group and self.hub.random.random() < 0.5:
                self.hub.kill(attempt.group)
                self.gone(attempt.group)
        if not self.drivers:
            operator.before_restart(self)
            self.start_soon()

    # --- what is known --------------------------------------------------------------------------------------------

    @property
    def tables_tell(self) -> bool:
        """Whether the tables have the columns from which lost state can be rebuilt."""
        return all(kind.can_probe for kind in self.kinds.values())

    @property
    def tables_are_searched(self) -> bool:
        """Whether a task can look in the tables for the rows of a piece."""
        return all(kind.can_probe and not kind.replacing for kind in self.kinds.values())

    @property
    def shows_all_rows(self) -> bool:
        """Whether only present shards hold rows: rebuilding the state reads no other server."""
        return not any(server.holds_rows for server in self.servers[self.shards :])

    @property
    def fate(self) -> Fate:
        """What becomes of a bad value, by the job file as it is now."""
        if self.halt_on_bad_value:
            return Fate.HALT
        return Fate.DEAD_LETTER if self.letters else Fate.SKIP

    def accepts(self, uid: int) -> bool:
        """Whether the record's value fits its column."""
        return uid % self.bad != 0

    def destinations(self) -> tuple[tuple[str, str | By], ...]:
        """Where the topics lead to, by the job file as it is now."""
        return (*self.routes.items(), *self.further.items())

    def by_table(self, why: str) -> None:
        """Answer a halt with several tables: a person does the same for each, so one table is enough."""
        self.over = why

    def records(self) -> dict[TopicPartition, StateRecord]:
        """The stored state."""
        found = {}
        for key, row in self.store.rows.items():
            if key.startswith(f"{self.sink}/"):
                _, topic, partition, _ = key.split("/", 3)
                found[TopicPartition(topic, int(partition))] = decode(row.body)
        return found

    def doubt_is_old(self) -> bool:
        """Whether some range is in doubt for longer than tokens are surely kept, or a server forgot some."""
        if any(s.restarts for s in self.servers):
            return True
        kind = next(iter(self.kinds.values()))
        if not kind.replicated:
            return False
        rows = {k: decode(row.body) for k, row in self.store.rows.items() if k.startswith(f"{self.sink}/")}
        sent = self.oracle.first_sent  # a probe announces a range again, which makes no token younger
        times = [sent[k, r.range, r.life.nonce] for k, r in rows.items() if r.in_doubt]
        oldest = min(times, default=self.hub.now)
        return self.hub.now - oldest > (kind.window_s - MARGIN_S - REQUEST_TIMEOUT_S) * 1000 - 2_000
