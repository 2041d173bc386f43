"""A person who decides about tables (``resolve``, ``recover``) with production code, and who may then roll one back.

In a world with such a person, a halt about tables is resolved and the mirror is started again; all but the rows may be
lost at any time.  The person's command may be killed anywhere: it is run again.  After it, before the mirror starts, a
table may be set to any other snapshot, as engines do that let people choose one: an older one, or one beside it.

Worlds whose topics are shared, or whose mirror commits to a branch, have none.  All of it is drawn from a source of its
own and numbered apart, as in :mod:`branches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.table.refs import MAIN_BRANCH

from chsink.errors import ChsinkError, halts
from chsink.kafka.exact import Part
from chsink.mirror import recover, resolve
from chsink.mirror.control import ControlUnanswered, Fenced, NotSent
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.tables import CatalogFailed
from chsink.statemachine.commit.resolve import Because, TableVerdict
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.mirror_sim import oracle
from tests.mirror_sim.broker import CONTROL
from tests.mirror_sim.job import feeds_of, opened
from tests.mirror_sim.own_faults import OwnFaults
from tests.mirror_sim.spark import batch_of
from tests.sim.checkpoint import Checkpoint
from tests.sim.hub import Group, Hub, Violation
from tests.sim.kafka import PARTITION

if TYPE_CHECKING:
    from tests.mirror_sim.world import World

FIRST = 3_000_000
"""The number of the first opportunity."""
SOURCE = "mirror decider 20367"
"""Another source gives each seed another world, and the defects of ``tests/mutations`` need other seeds."""
ROLLED_BACK = "rolled back after a decision"
FAULTS = ("a person decides", "all but the rows lost", ROLLED_BACK)
RESOLVED = {"MIRROR_ROLLED_BACK", "MIRROR_ROWS_GONE", "MIRROR_ROWS_FOUND"}
"""The halts that the person resolves."""
BY_ROWS = {Because.ROWS, Because.CHAIN}
"""Where a decision may go by rows, without knowing that some of them are of an earlier topic."""
HAPPENS = 0.003
"""How often, by step, all but the rows may get lost."""
MOST = 4
"""How many decisions a world has.  The next halt ends it."""
TRIES = 30


class Decider:
    """``given_up``: by table, the records that it may lack since a decision that said so.  ``moves``: where the group
    goes after decisions, without units.  ``passed``: the control topic's ends at the last one: a range that is
    read again needs nothing of it.  ``busy``: the mirror is stopped, and the person at work.
    """

    def __init__(self, hub: Hub) -> None:
        self._faults = OwnFaults(hub, SOURCE, FIRST)
        self._there = self._faults.fault(FAULTS[0], 0.4)
        self.given_up: dict[str, frozenset[int]] = {}
        self.moves: set[tuple[TopicPartition, int]] = set()
        self.passed: dict[TopicPartition, int] = {}
        self.busy = False
        self._left = MOST
        self._group = Group("decider")
        self._act: Callable[[], str] = str
        self._tries = 0

    def _is_here(self, world: World) -> bool:
        return self._there and not world.routes.shared and world.main.branch == MAIN_BRANCH

    # --- what makes a person act --------------------------------------------------------------------------------------

    def happen(self, world: World) -> None:
        """One step of the world passed."""
        if not self._is_here(world) or self.busy or self._faults.chance.random() >= HAPPENS:
            return
        if self._left and self._faults.fault(FAULTS[1], 0.3):
            self._lose(world)
            if self._faults.chance.random() < 0.7:
                self._begin(world, lambda: self._recover(world))
            else:
                world.start_soon()

    def takes_up(self, world: World, halt: str) -> bool:
        """Whether the person resolves this halt."""
        if halt not in RESOLVED or not self._is_here(world) or world.hub.calm or not (self._left or self.busy):
            return False
        if not self.busy:
            verdict = self._faults.chance.choice(list(TableVerdict))
            self._begin(world, lambda: self._resolve(world, verdict))
        return True

    def _lose(self, world: World) -> None:
        """The catalog was restored without properties, and rewrites left none of the mirror's snapshots; Kafka lost the
        groups and the control topic.
        """
        self._stop(world)
        for name in list(world.catalog.tables):
            snaps = sorted(world.catalog.tables[name].snaps)
            earlier = self._faults.chance.choice(snaps) if snaps else None
            world.catalog.rewrite(name, earlier)
        world.floors.clear()
        world.broker.groups.clear()
        world.broker.notes.clear()
        world.broker.recreate()
        world.reasons |= {"chain lost", "group lost", "control topic lost"}
        world.reasons |= {"rollback hidden"} if "rolled back" in world.reasons else set()

    # --- the command --------------------------------------------------------------------------------------------------

    def _stop(self, world: World) -> None:
        mine = world.hub.current and world.hub.current.group  # it has just ended, with the halt
        for group in [*world.drivers, *(attempt.group for attempt in world.executors.values())]:
            if group is not mine:
                world.hub.kill(group)
            world.gone(group)

    def _begin(self, world: World, act: Callable[[], str]) -> None:
        self.busy, self._act, self._tries = True, act, TRIES
        self._left -= 1
        self._stop(world)
        self._run(world)

    def _run(self, world: World) -> None:
        self._group = Group("decider")
        world.hub.spawn(self._group, lambda: self._body(world))

    def died(self, world: World, group: Group) -> bool:
        """Whether it was the person's command that was killed."""
        if group is not self._group:
            return False
        if self.busy:
            world.hub.counts["outcome decision killed"] += 1
            world.hub.after(1_000, lambda: self._run(world))
        return True

    def _body(self, world: World) -> None:
        said = ""
        while not said and self._tries:
            self._tries -= 1
            try:
                said = self._act()
            except (ControlUnanswered, Fenced, NotSent, CatalogFailed, OSError):
                world.hub.sleep(1)
            except (ChsinkError, Halted) as error:
                said = self._refused(world, error)
        if said:
            world.hub.counts[f"outcome {said}"] += 1
            roll_back(world, said, self._faults)
        self.busy = False
        world.start_soon()

    def _refused(self, world: World, error: ChsinkError | Halted) -> str:
        name = error.name if isinstance(error, ChsinkError) else error.why.name
        world.hub.counts[f"outcome decision {name}"] += 1
        if name == halts.MIRROR_ROWS_UNKNOWN.name:
            self._act = lambda: self._resolve(world, TableVerdict.SKIP)
        elif name in RECOVERY_REFUSED:
            self._tries = 0
        else:
            world.hub.sleep(1)
        return ""

    def _resolve(self, world: World, verdict: TableVerdict) -> str:
        mirror = opened(world, world.known_routes())
        decision = resolve.decide(mirror.names, mirror.targets, sorted(mirror.targets), mirror.kafka, verdict)
        for change in decision.changes:
            self._note(world, change)
            until = change.decided.chain.links[change.tp].until  # the next start sets the group to there
            self.moves |= {*change.decided.group.items(), (change.tp, until)}
        self.passed = {TopicPartition(CONTROL, n): log.stable for n, log in enumerate(world.broker.logs)}
        resolve.carry_out(mirror.names, decision)
        if decision.moved:
            world.checkpoint = Checkpoint()
        return f"resolve --{verdict}"

    def _note(self, world: World, change: resolve.LinkChange) -> None:
        """What the table lacks of its link may be gone for good, if the person was told."""
        tp, link, table = change.tp, change.decided.chain.links.get(change.tp), change.table
        if link is None:
            return
        lacks = oracle.uids(world, tp, link.topic_id, link.origin, link.until) - world.catalog.tables[table].held
        known, told = self.given_up.get(table, frozenset()), change.decided.given_up[tp]
        start = world.kafka.log(tp).start  # what lies below is gone, whatever a person decides
        offsets = sorted(uid % PARTITION for uid in lacks - known)
        untold = [at for at in offsets if at >= start and not told.start <= at < told.end]
        metadata, mine = world.catalog.tables[table], (tp.topic, tp.partition)
        chain = oracle.chain_of(metadata)
        if change.decided.because[tp] in BY_ROWS and (chain is None or tp not in chain.links):
            # rows of an earlier topic have these offsets, and offsets are all that `resolve` sees where no chain is left:
            # `recover`, which the halt names, compares timestamps and says so
            taken = {uid % PARTITION for uid in metadata.held if world.catalog.place(uid) == mine}
            untold = [at for at in untold if at not in taken]
        if untold and link.topic_id == world.kafka.topics[tp.topic].id:
            raise Violation("decision_is_told", f"{table} {tp}: gives up {untold}, and says {told}")
        if change.decided.because[tp] is Because.RECREATED:
            # the person is told that the topic was created again: what it held before and the table lacks is gone with it
            lives = [life for life in world.kafka.lives if life.name == tp.topic and tp.partition < len(life.logs)]
            lacks = lacks.union(
                *(oracle.uids(world, tp, life.id, 0, 1 << 40) for life in lives if life.id != link.topic_id)
            )
            lacks -= metadata.held
        self.given_up[table] = known | lacks

    def _recover(self, world: World) -> str:
        routes = world.known_routes()
        mirror = cast("Any", SimpleNamespace(**vars(opened(world, routes)), feeds=lambda: feeds_of(world, routes)))
        rows = recover.survey(mirror, cast("Any", SimExactReader(world)))
        if any(one.link.until < world.kafka.log(one.tp).start for one in rows.found):
            # offsets without a record, which Kafka deleted since: no row tells that the mirror has passed them
            world.reasons.add("rows end below the log")
        recover.carry_out(mirror.names, rows)
        return "recover"


def roll_back(world: World, after: str, faults: OwnFaults) -> None:
    """Perhaps make any other snapshot of a table its current one, after this has happened to the table."""
    if not faults.fault(ROLLED_BACK, 0.5):
        return
    name = faults.chance.choice(sorted(world.catalog.tables))
    table = world.catalog.tables[name]
    others = sorted(table.snaps.keys() - {table.head})
    if others and table.branch == MAIN_BRANCH:
        world.catalog.set_head(name, faults.chance.choice(others))
        world.reasons.add("rolled back")
        world.hub.counts[f"outcome rolled back after {after}"] += 1


RECOVERY_REFUSED = {
    halts.MIRROR_ROWS_LACK.name,
    halts.MIRROR_ROWS_OF_OTHERS.name,
    halts.MIRROR_ROWS_BEYOND_LOG.name,
    halts.MIRROR_ROWS_TELL_NOTHING.name,
}
"""What the rows do not say: the mirror is started, and halts for it."""


class SimExactReader:
    """In place of :class:`chsink.kafka.exact.ExactReader`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read(self, tp: TopicPartition, offsets: OffsetRange) -> Iterator[Part]:
        """What the log holds of a range."""
        self._world.hub.pause()
        found = self._world.kafka.log(tp).between(offsets.start, offsets.end)
        yield Part(offsets, batch_of(self._world, tp, found))
