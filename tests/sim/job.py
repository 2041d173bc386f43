"""One driver process: the production start, loop, driver and deduplication window, wired to the simulated services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from chsink.batch.loop import BatchLoop
from chsink.batch.model import Ack, PlannedBatch
from chsink.batch.roles import Landing
from chsink.clickhouse.checks.existing_rows import existing_rows_findings
from chsink.connect import Services
from chsink.driver.lanes import Lanes
from chsink.driver.ledger import read_records
from chsink.driver.pace import Pace
from chsink.driver.roles import Assignment
from chsink.findings import guarded, raise_first
from chsink.formats.pipeline import Untouched
from chsink.ports import StreamShape
from chsink.spark.opening import check_checkpoint, open_for, source_offsets
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.table import Decision, StepKind
from tests.sim.checkpoint import Query
from tests.sim.services import LOG, STREAM, clock_of, services_of
from tests.sim.spark import Runner

if TYPE_CHECKING:
    from tests.sim.world import World

IDLE_S = 5


@dataclass(frozen=True, slots=True)
class Watcher:
    """:class:`chsink.driver.roles.Observer`: counts the cells of the decision table that were reached."""

    world: World

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Not timed."""
        return nullcontext()

    def landed(self, by_table: Mapping[str, Sequence[Ack]]) -> None:
        """Records without a row are counted here, and only here."""
        counts, chunks = self.world.hub.counts, [c for acks in by_table.values() for a in acks for c in a.chunks]
        counts["outcome record skipped"] += sum(c.skipped for c in chunks)
        counts["outcome record kept as a dead letter"] += sum(c.dead_letters for c in chunks)

    def decided(self, batch: PlannedBatch, decisions: Mapping[StateKey, Decision]) -> None:
        """Which cells decided."""
        for key, decision in decisions.items():
            planned = batch.ranges[key.topic_partition]
            self.world.hub.counts[f"cell {decision.because}"] += 1
            if decision.steps and decision.steps[0].range.end < planned.end and len(decision.steps) > 1:
                self.world.hub.counts["cell cropped"] += decision.steps[0].kind is StepKind.SKIP

    def settling(self, records: Iterable[StateRecord]) -> None:
        """Not shown."""

    def state(self, records: Mapping[StateKey, StateRecord]) -> None:
        """Not shown."""


@dataclass(frozen=True, slots=True)
class Batch:
    """:class:`chsink.batch.loop.MicroBatch` of the query of one process, which has one run."""

    planned: PlannedBatch
    runner: Runner
    run: object = "run"

    def stream(self) -> Untouched:
        """Kafka's source."""
        return STREAM

    def tasks(self, landing: Landing[Assignment], stream: Untouched) -> Runner:
        """Tasks over this batch."""
        return self.runner


def drive(world: World, skew_ms: int, limit: int) -> bool:
    """Run the sink until there is nothing new (in a calm world), it fails or is killed.

    Returns whether all is settled: a sink handed to foreachBatch claims and settles nothing before its first batch.
    """
    hub, services = world.hub, services_of(world, clock_of(world.hub, skew_ms))
    runner = Runner(world)
    loop: BatchLoop[Assignment, Untouched] = BatchLoop(
        partial(_open, world, services), lambda _: None, lambda: services.config.topics, LOG, failed=lambda _: None
    )
    query = Query(hub, world.kafka, world.checkpoint, limit)
    settled = hub.calm or hub.random.random() < 0.5
    starting = source_offsets(services)
    if settled:  # as `Sink.start` does; a sink that is handed to foreachBatch claims with its first batch
        check_checkpoint(services, world.checkpoint)
        loop.start(STREAM, lambda _landing, _stream: runner)
    query.start(starting)
    while True:
        batch = query.next_batch()
        if batch is not None:
            loop.land(partial(Batch, batch, runner))
            settled = True
            query.commit()
            hub.counts["batches"] += 1
        elif hub.calm:
            return settled
        else:
            hub.sleep(IDLE_S)


def _open(world: World, services: Services, stream: StreamShape) -> Landing[Assignment]:
    landing = open_for(services, stream, Watcher(world), _check_existing_rows)
    lanes = landing.lander
    assert isinstance(lanes, Lanes)
    for driver in lanes.drivers:
        driver.pace = Pace(world.round_offsets)
        for route in driver.routes.values():
            world.versions_of[route.pipeline] = world.servers[0].tables[route.table].version
    return landing


def _check_existing_rows(services: Services, _stream: StreamShape) -> None:
    """Of the checks of a start, the one that keeps a sink without its state from landing everything again."""

    def records() -> Mapping[StateKey, StateRecord]:
        return read_records(services.store, services.config.sink.name)

    found = records()
    for target in services.clickhouse.targets.values():
        raise_first(guarded("rows", partial(existing_rows_findings, found, target, records, services.clock)))
