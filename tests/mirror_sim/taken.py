"""Worlds whose tables a Kafka Connect sink filled: a person takes them over, and then they go on as all others do:
``python -m tests.mirror_sim.taken``.

The takeover is the production one.  It may be killed anywhere, its commits may be refused, lost or late, and somebody may
start the mirror too early: the production check has to refuse that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from pyiceberg.table.refs import MAIN_BRANCH

from chsink.errors import ChsinkError
from chsink.mirror import checks, connector, takeover
from chsink.mirror.connector import marks
from chsink.mirror.control import ControlUnanswered
from chsink.mirror.opening import OpenMirror
from chsink.mirror.tables import CatalogFailed
from tests.mirror_sim.broker import CONTROL, Broker, SimNames, SimReader
from tests.mirror_sim.catalog import SimTable
from tests.mirror_sim.connector import Past, names_in
from tests.mirror_sim.decider import roll_back
from tests.mirror_sim.job import opened
from tests.mirror_sim.own_faults import OwnFaults
from tests.mirror_sim.shared import TABLES, Routes
from tests.mirror_sim.world import World as Plain
from tests.mirror_sim.world import replaced
from tests.sim.__main__ import main
from tests.sim.hub import Group, Violation
from tests.sim.runs import Runs

ROLLED_BACK_FIRST = 4_000_000
"""The number of the opportunity to roll a table back after the takeover."""
WORLD_STEPS = 400
"""After the takeover."""
TAKEOVER_STEPS = 20_000
OFTEN: Final = {"killed before a table's commit": 10.0, "killed after a table's commit": 15.0, "table commit lost": 3.0}
"""A takeover has few commits.  Most of its faults befall these."""
AGAIN: Final = {"MIRROR_COMMITS_FAIL", "KAFKA_UNAVAILABLE"}
"""What ends a takeover that is begun again."""


@dataclass(frozen=True)
class TakenNames(SimNames):
    """Which broker's log is a control topic."""

    theirs: Mapping[str, Broker] = field(default_factory=dict, repr=False)
    chance: Random = field(default_factory=Random, repr=False)

    def reader(self) -> SimReader:
        """See :class:`chsink.mirror.control.Names`."""
        return AnyOrder(self.theirs[self.topic], self.chance)


class AnyOrder(SimReader):
    """Partitions are read in any order, as Kafka's clients do."""

    def __init__(self, broker: Broker, chance: Random) -> None:
        super().__init__(broker)
        self._chance = chance

    def poll(self, timeout_s: float) -> list[tuple[int, int, bytes]]:
        """See :class:`chsink.mirror.ports.EventReader`."""
        numbers = self._chance.sample([*self.at], len(self.at))
        self.at = {number: self.at[number] for number in numbers}
        return super().poll(timeout_s)


class World(Plain):
    """``run`` begins with the sink's life and the takeover.  No tables share a topic here."""

    def __init__(self, seed: int, allowed: frozenset[int] | None = None) -> None:
        super().__init__(seed, allowed)
        self.person = Group("person")
        self.more = Random(f"connector {seed}")
        whole = {topic: names or ("db.a",) for topic, names in self.routes.whole.items()}
        self.routes, self.sharings = Routes(whole), {}
        self.named.topic = ""
        for name in TABLES:
            self.catalog.tables.pop(name, None)
        for name in self.routes.all_tables:
            self.catalog.add(name)
        self.past = Past(self, self.more)
        self.taken = False

    def run(self, steps: int) -> None:
        """See :class:`tests.mirror_sim.world.World`."""
        with self.watched(), self._their_kafka():
            self.past.live()
            self._person_comes()
            self._until_taken()
            roll_back(self, "takeover", OwnFaults(self.hub, "mirror taken back 1380", ROLLED_BACK_FIRST))
            if self.over is None:
                self.start_driver()
            self._run(self.hub.steps + steps)
            self._check_kept()

    def _check_kept(self) -> None:
        """What the sink wrote is in its tables, whatever their chains say, unless a halt told that it may not be, or nobody
        could tell it.
        """
        for _, _, name, file in self.past.events if self.over is None and "rollback hidden" not in self.reasons else ():
            lacks = set(self.catalog.files.get(file, ())) - self.catalog.tables[name].held
            lacks -= self.decider.given_up.get(name, frozenset())
            if lacks and name not in self.dropped:
                raise Violation("complete_at_rest", f"{name} lacks {sorted(lacks)[:5]}, which the sink had written")

    @contextmanager
    def _their_kafka(self) -> Iterator[None]:
        """What the takeover asks Kafka by clients of its own, and manifests."""
        ours: dict[tuple[Any, str], Any] = {
            (connector, "_group"): lambda _, group: dict(self.broker.groups.get(group, {})),
            (takeover, "members"): lambda *_: [],
            (takeover, "referred"): lambda metadata, _: SimpleNamespace(files=self._names_in(metadata.snapshots)),
        }
        try:
            with replaced(ours):
                yield
        finally:
            self.hub.kill(self.person)

    def _names_in(self, snaps: Iterable[Any]) -> frozenset[str]:
        found = {name for snap in snaps for name in names_in(self.catalog.files, snap)}
        return frozenset(name.rpartition("/")[2] for name in found)

    # --- the person ---------------------------------------------------------------------------------------------------

    def _until_taken(self) -> None:
        self.hub.factors |= OFTEN
        while not self.taken and self.over is None:
            if self.hub.random.random() < 0.03:
                self.kafka.produce(self.hub.random.choice(self.kafka.all()))
            if self.hub.fault("catalog away", 0.003):
                self.catalog.away_until = self.hub.now + 10_000
            if self.hub.fault("brokers away", 0.003):
                self.broker.away_until = self.hub.now + 10_000
            if self.hub.steps > TAKEOVER_STEPS:
                raise Violation("progress", f"no takeover within {TAKEOVER_STEPS} steps")
            self.hub.step()
        for name in OFTEN:
            del self.hub.factors[name]

    def _person_comes(self) -> None:
        self.person = Group("person")
        self.hub.spawn(self.person, self._takes_over)

    def died(self, group: Group) -> None:
        """The person's command, too, may be killed."""
        if group is not self.person:
            super().died(group)
        elif not self.taken:
            self.hub.counts["outcome takeover killed"] += 1
            self.hub.after(1_000, self._person_comes)

    def _takes_over(self) -> None:
        while not self.taken and self.over is None:
            try:
                self._takes_over_once()
            except ChsinkError as error:
                self._refused(error)
            except (CatalogFailed, ControlUnanswered, OSError):
                self.hub.counts["outcome takeover unanswered"] += 1
                self.hub.sleep(1)

    def _takes_over_once(self) -> None:
        mirror = self._mirror()
        if self._marked() and self.more.random() < 0.5 and self._starts(mirror):
            self.taken = True
            return
        shown = self._survey(mirror)
        if not shown.tables:
            self._taken()
            return
        self.hub.counts["outcome files waited"] += any(one.waiting for one in shown.tables)
        takeover.carry_out(mirror, shown, self._survey(mirror))

    def _mirror(self) -> OpenMirror:
        mirror, theirs = opened(self, self.routes), {CONTROL: self.broker}
        theirs[self.past.connector.control_topic] = self.past.broker
        names = mirror.names
        return replace(
            mirror, names=TakenNames(names.options, names.topic, names.group, 5.0, self.broker, theirs, self.more)
        )

    def _survey(self, mirror: OpenMirror) -> takeover.Takeover:
        """Where no snapshot of the sink is left, the person names it.  So is a table that is said to be left out, as the
        sink had no record for it yet: otherwise the mirror halts, because its topic was read before (CHS-342).
        """
        group, topic, chosen = self.past.connector.group, self.past.connector.control_topic, list[str]()
        if self.past.whole and self._marked():
            group = topic = ""
        if not self.past.whole:
            chosen = [name for name, at in self.catalog.tables.items() if at.snaps]
        topics = [*self.routes.whole, CONTROL, self.past.connector.control_topic]
        shown = takeover.survey(mirror, topics, chosen, group, topic, trust=False, landed={})
        if not shown.left_out:
            return shown
        self.hub.counts["outcome table named that was left out"] += 1
        return takeover.survey(mirror, topics, [*chosen, *shown.left_out], group, topic, trust=False, landed={})

    def _marked(self) -> bool:
        return any(marks(SimTable(name, at)) for name, at in self.catalog.tables.items())  # type: ignore[arg-type] # as production reads it

    def _starts(self, mirror: OpenMirror) -> bool:
        """Somebody starts the mirror before the takeover is said to be complete: whether the check lets it go on."""
        found = []
        for target in mirror.targets.values():
            table = target.table.load()
            assert table is not None
            found += list(checks._connectors(mirror, target, table))
        self.hub.counts[f"outcome early start {'refused' if found else 'went on'}"] += 1
        return not found

    def _taken(self) -> None:
        self.taken = True
        self.hub.counts["outcome taken over"] += 1
        if self.past.right:
            raise Violation("halt_justified", f"the sink's group was set back from {self.past.right}, unnoticed")
        if self.past.whole and self.main.branch == MAIN_BRANCH and self.more.random() < 0.3:
            self.past.poll()
            if again := self.past.commit():
                raise Violation("at_most_once", f"a coordinator of the sink that was suspended commits {again} again")
            self.hub.counts["outcome suspended coordinator woke"] += 1

    def _refused(self, error: ChsinkError) -> None:
        self.hub.counts[f"outcome takeover {error.name}"] += 1
        late = (
            error.name == "MIRROR_CONNECTOR_MOVED" and "table commit late" in self.reasons
        )  # applied between two looks
        if error.name in AGAIN or late:
            self.hub.sleep(1)
        elif error.name == "MIRROR_CONNECTOR_UNSURE" and self.past.is_unsure():
            self.over = error.name
        elif error.name == "MIRROR_CONNECTOR_SET_BACK" and self.past.right:
            self.past.group.update(self.past.right)
            self.past.right = {}
        else:
            raise Violation("halt_justified", f"the takeover ended: {error.name} {error}")


OUTCOMES = [
    *(f"outcome {what}" for what in ("taken over", "files waited", "suspended coordinator woke")),
    *(f"outcome early start {what}" for what in ("refused", "went on")),
    *(f"outcome takeover {what}" for what in ("killed", "unanswered", "MIRROR_COMMITS_FAIL")),
    *(f"outcome takeover MIRROR_CONNECTOR_{what}" for what in ("SET_BACK", "UNSURE")),
    *("outcome read again", "outcome published", "outcome late commit applied", "world at rest"),
    "outcome rolled back after takeover",
]
ENOUGH_STEPS = 60_000
RUNS = Runs("tests.mirror_sim.taken", World, WORLD_STEPS, OUTCOMES)

if __name__ == "__main__":
    sys.exit(main(RUNS, [("outcomes", OUTCOMES)], ENOUGH_STEPS))
