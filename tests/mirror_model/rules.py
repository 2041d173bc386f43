"""The production functions under the model's names, and what a control may get wrong.  A world, and the invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chsink.statemachine.commit import chain, handover, plan, rounds, units
from chsink.statemachine.commit.chain import Chain, Link, Links, Reading, TableView
from chsink.statemachine.commit.handover import Beginning, HandOver
from chsink.statemachine.commit.plan import TablePlan
from chsink.statemachine.commit.units import Unit, UnitPart
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.mirror_model.space import State
from tests.model.explored import Bounds

INVARIANTS = {
    "at_most_once": "no record is in a table twice",
    "chain_is_content": "a table holds exactly the records of its chain",
    "group_follows": "what is handed over begins where the group stands",
    "nothing_forgotten": "no event is passed over that a table still needs",
    "repair_justified": "a range is read again only after a fault that can lose or double events",
    "halt_justified": "a halt has a reason in the world",
    "complete_at_rest": "when nothing is left to do, every table holds every record",
    "no_defect": "production code raises nothing that it does not declare",
}


def begin_whole(topic_id: str, committed: int | None, links: Iterable[Link | None], starting: int) -> Beginning:
    """``handover.begin`` for tables of which each takes all records."""
    return handover.begin(topic_id, committed, map(handover.TablePlace, links), starting)


@dataclass(frozen=True)
class Rules:
    """The functions that decide; ``skip`` names precautions that a control leaves out."""

    read_chain: Callable[[TableView], Reading] = chain.read_chain
    plan_commit: Callable[[TableView, Chain, Iterable[Unit]], TablePlan] = plan.plan_commit
    holes: Callable[[Links, Iterable[Unit], Mapping[TopicPartition, int]], dict[TopicPartition, OffsetRange]] = (
        plan.holes
    )
    hand_over: Callable[[OffsetRange, int | None], HandOver] = handover.hand_over
    begin: Callable[[str, int | None, Iterable[Link | None], int], Beginning] = begin_whole
    low_watermark: Callable[[Mapping[int, int], Iterable[Unit], Mapping[int, int]], dict[int, int]] = (
        rounds.low_watermark
    )
    assemble: Callable[[Iterable[UnitPart]], tuple[Unit, ...]] = units.assemble
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True)
class World(Bounds):
    """Bounds: offsets ``[0, end)`` of each topic-partition, of which ``records`` (bits) are records; tables; parts of a
    unit; attempts.
    """

    end: int = 3
    records: int = 0b101
    tps: int = 1
    tables: int = 1
    parts: int = 1
    attempts: int = 1


@dataclass
class Model:
    """A world under rules, and what was counted."""

    world: World
    rules: Rules
    counts: Counter[str] = field(default_factory=Counter)
    remembered: dict[Hashable, Any] = field(default_factory=dict)

    def left(self, state: State, fault: str) -> bool:
        """Whether the fault may still happen."""
        names = list(self.world.faults)
        return fault in names and state.any_left > 0 and state.left[names.index(fault)] > 0

    def spend(self, state: State, fault: str) -> State:
        """The state in which it was used."""
        self.counts[f"fault {fault}"] += 1
        at = list(self.world.faults).index(fault)
        left = (*state.left[:at], state.left[at] - 1, *state.left[at + 1 :])
        return state._replace(left=left, any_left=state.any_left - 1)

    def happened(self, state: State, *faults: str) -> bool:
        """Whether one of them did."""
        pairs = zip(self.world.faults.items(), state.left, strict=True)
        return any(left < had for (name, had), left in pairs if name in faults)
