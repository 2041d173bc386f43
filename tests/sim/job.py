"""One driver process: the production ledger, driver and deduplication window, wired to the simulated services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chsink.batch.driver import Destination, Driver
from chsink.batch.ledger import Ledger, read_records
from chsink.batch.model import Ack, PlannedBatch
from chsink.batch.rounds import Pace
from chsink.clickhouse.retry import RetryingQueries
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.window import DedupWindow
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.table import Decision, Policy, StepKind
from tests.sim.checkpoint import Query
from tests.sim.clickhouse import REQUEST_TIMEOUT_S, Client
from tests.sim.hub import Hub
from tests.sim.spark import Runner, shards_of
from tests.sim.store import StoreClient

if TYPE_CHECKING:
    from tests.sim.world import World

IDLE_S = 5


@dataclass(frozen=True, slots=True)
class HubClock:
    """:class:`chsink.ports.Clock` of one machine, a little off."""

    hub: Hub
    skew_ms: int

    def now_ms(self) -> int:
        """The hub's time, skewed."""
        return self.hub.now + self.skew_ms

    def sleep(self, seconds: float) -> None:
        """Let others go on meanwhile."""
        self.hub.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Watcher:
    """:class:`chsink.batch.roles.Observer`: counts the cells of the decision table that were reached."""

    world: World

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Not timed."""
        return nullcontext()

    def landed(self, acks: Sequence[Ack]) -> None:
        """Skipped records are counted here, and only here."""
        self.world.hub.counts["outcome record skipped"] += sum(c.skipped for a in acks for c in a.chunks)

    def decided(self, batch: PlannedBatch, decisions: Mapping[TopicPartition, Decision]) -> None:
        """Which cells decided."""
        for tp, decision in decisions.items():
            self.world.hub.counts[f"cell {decision.because}"] += 1
            if decision.steps and decision.steps[0].range.end < batch.ranges[tp].end and len(decision.steps) > 1:
                self.world.hub.counts["cell cropped"] += decision.steps[0].kind is StepKind.SKIP

    def state(self, records: Mapping[StateKey, StateRecord]) -> None:
        """Not shown."""


def drive(world: World, name: str, skew_ms: int, limit: int) -> bool:
    """Run the sink until there is nothing new (in a calm world), it fails or is killed.

    Returns whether all is settled: a sink handed to foreachBatch claims and settles nothing before its first batch.
    """
    hub, clock = world.hub, HubClock(world.hub, skew_ms)
    store = StoreClient(world.store)
    attempts = iter(range(1 << 30))
    ledger = Ledger(store, world.sink, name, clock, lambda: f"{name}.{next(attempts)}", retry_for_ms=5_000)
    driver = _driver(world, ledger, clock)
    layout = str(world.shards)
    query = Query(hub, world.kafka, world.checkpoint, limit)
    runner, claimed = Runner(world, clock), hub.calm or hub.random.random() < 0.5
    starting = _starting_offsets(world, store)
    if claimed:  # as `Sink.start` does; a sink that is handed to foreachBatch claims with its first batch
        driver.claim({layout: layout})
        driver.settle_all(runner)
    query.start(starting)
    while True:
        batch = query.next_batch()
        if batch is not None:
            if not claimed:
                driver.claim({layout: layout})
                claimed = True
            driver.process(batch, runner)
            query.commit()
            hub.counts["batches"] += 1
        elif hub.calm:
            return claimed
        else:
            hub.sleep(IDLE_S)


def _driver(world: World, ledger: Ledger, clock: HubClock) -> Driver:
    tables = {table: kind.describe(table) for table, kind in world.kinds.items()}
    shards = world.shards

    def shard_tables(table: str, layout: str | None) -> list[ShardTable]:
        servers = world.servers[: shards if layout is None else shards_of(layout)]
        return [ShardTable(RetryingQueries(Client(s), clock, ASK_FOR_S), tables[table]) for s in servers]

    window = DedupWindow(shard_tables, clock, MARGIN_S, REQUEST_TIMEOUT_S)
    routes = {
        topic: Destination(topic, table, world.chunk_offsets, str(world.shards), world.pipelines[topic])
        for topic, table in world.routes.items()
    }
    policy = Policy(world.on_gap, world.on_rewind)

    def pipeline_of(topic: str, _layout: str) -> str:
        return world.pipelines[topic]

    pace = Pace(world.round_offsets)
    return Driver(ledger, routes, world.kafka, window, clock, policy, Watcher(world), pipeline_of, pace)


MARGIN_S = 30
ASK_FOR_S = 20


def _starting_offsets(world: World, store: StoreClient) -> dict[TopicPartition, int]:
    """Where a new checkpoint begins: the recorded end, 0 where there is no record or the topic is another one."""
    ids = world.kafka.topic_ids(world.routes)
    records = {k.topic_partition: r for k, r in read_records(store, world.sink).items() if r.phase is not Phase.EMPTY}
    starting = {}
    for tp in world.kafka.partitions(world.routes):
        record = records.get(tp)
        same = record is not None and record.may_belong_to(ids[tp.topic])
        starting[tp] = record.end if record is not None and same else 0
    return starting
