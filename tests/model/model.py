"""A world's bounds, and the context in which its states are explored: production functions, counts, faults left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.table import TargetTable
from tests.model.events import Event, events_of
from tests.model.explored import Bounds
from tests.model.protocol import Protocol, Rules
from tests.model.space import Checkpoint, Kafka, State, Store, Target, mask
from tests.sim.hub import Violation

NEVER = 1 << 62
GENEROUS = 100
"""Blocks that a table remembers where its window is not the subject."""


@dataclass(frozen=True, slots=True)
class World(Bounds):
    """What one small world is made of.

    ``eager``: a driver claims and settles at its start; else with its first batch.
    ``claims_only``: and does no more.  ``limits``: offsets a batch, the usual first; ``round_offsets``: offsets a round.  ``holes``: offsets without a record.
    ``window`` (of a replicated table) and ``margin`` are in ticks; ``known``: whether brokers tell topic ids at first; ``split``: which port calls are taken apart (loads of the store, questions to Kafka, reads and sends).
    """

    end: int = 4
    holes: int = 0
    start: int = 0
    chunk_offsets: int = 2
    shards: int = 1
    limits: tuple[int, ...] = (2,)
    round_offsets: int | None = None
    starts: int = 2
    replicated: bool = False
    window_blocks: int = GENEROUS
    window: int | None = None
    margin: int = 1
    can_probe: bool = True
    on_gap: Literal["halt", "record"] = "halt"
    on_rewind: Literal["halt", "skip"] = "skip"
    eager: bool = True
    claims_only: bool = False
    split: frozenset[str] = frozenset()
    known: bool = True

    def table(self) -> TargetTable:
        """The target as production code describes it."""
        blocks = str(self.window_blocks)
        settings = {"non_replicated_deduplication_window": blocks, "replicated_deduplication_window": blocks}
        engine = "ReplicatedMergeTree" if self.replicated else "MergeTree"
        return TargetTable("db", "t", "uuid", engine, (), "", Ttl(), settings, "UTC")


@dataclass(slots=True)
class Model:
    """One world under one set of rules.  ``counts``: what was reached, by label."""

    world: World
    rules: Rules = field(default_factory=Rules)
    counts: Counter[str] = field(default_factory=Counter)
    protocol: Protocol = field(init=False)
    index: dict[str, int] = field(init=False)
    events: tuple[Event, ...] = field(init=False)

    def __post_init__(self) -> None:
        world = self.world
        table = world.table()
        self.protocol = Protocol(self.rules, world.chunk_offsets, table, world.on_gap, world.on_rewind)
        self.index = {name: n for n, name in enumerate(world.faults)}
        self.events = events_of(world.faults)

    def first(self) -> State:
        """Everything written, nothing started."""
        world = self.world
        visible = mask(world.start, world.end) & ~world.holes
        kafka = Kafka(0, world.start, world.end, visible, (visible,), world.known)
        target = Target((0,), (0,) * max(world.shards, 2))
        left = tuple(world.faults.values())
        return State(0, kafka, target, Store(), Checkpoint(world.start), (), (), (), world.starts, left, world.any)

    def skips(self, rule: str) -> bool:
        """Whether a control leaves this rule out."""
        return rule in self.rules.skip

    def spend(self, state: State, fault: str) -> State | None:
        """The state with one fault less to come, None when there is none left."""
        if not state.any_left:
            return None
        at = self.index.get(fault)
        if at is None or not state.left[at]:
            return None
        left = tuple(n - (fault == at) for fault, n in enumerate(state.left))
        return state._replace(left=left, any_left=state.any_left - 1)

    def happened(self, state: State, *faults: str) -> bool:
        """Whether one of the faults was spent on the way to this state."""
        return any(f in self.index and state.left[self.index[f]] < self.world.faults[f] for f in faults)

    # --- time -----------------------------------------------------------------------------------------------------

    @property
    def can_probe(self) -> bool:
        """Whether rows can be looked for by offset: never in a replicated table, whose replicas may lag."""
        return self.world.can_probe and not self.world.replicated

    def deadline(self, before_at: int) -> int:
        """The tick from which no piece of a range is sent any more."""
        return NEVER if self.world.window is None else before_at + self.world.window - self.world.margin

    def late(self, before_at: int, now: int) -> bool:
        """Whether that tick has come."""
        return now >= self.deadline(before_at)

    # --- halts ----------------------------------------------------------------------------------------------------

    def halted(self, state: State, why: str, *, in_doubt: bool = False) -> None:
        """Count the halt; Violation when nothing in the world gave a reason for it."""
        self.counts[why] += 1
        if why == "CHS-304" and not (in_doubt or self.happened(state, "kafka: ids hidden")):
            raise Violation("halt_justified", "brokers gained ids, and nothing is in doubt")
        if not self.happened(state, *REASONS[why]):
            raise Violation("halt_justified", f"{why}, and the world gave no reason")


REASONS: dict[str, tuple[str, ...]] = {
    "CHS-301": ("kafka: log shrinks", "kafka: topic recreated"),
    "CHS-302": ("store: state lost",),
    "CHS-303": ("kafka: topic recreated",),
    "CHS-304": ("kafka: ids hidden", "kafka: ids shown"),
    "CHS-305": ("checkpoint: anywhere", "checkpoint: rewound", "kafka: retention", "store: state lost"),
    "CHS-306": ("checkpoint: anywhere", "checkpoint: rewound"),
    "CHS-307": ("checkpoint: anywhere", "kafka: retention", "store: state lost"),
    "CHS-308": ("kafka: retention", "kafka: topic recreated"),
    "CHS-309": ("table altered",),
    "CHS-314": ("kafka: compaction", "kafka: retention"),
    "CHS-317": ("time passes", "others write", "server restarts", "server dies with an insert"),
    "CHS-318": ("kafka: topic recreated",),
    "data loss": ("kafka: retention", "kafka: log shrinks", "kafka: topic recreated"),
}
"""What must have happened for a halt to be right."""
