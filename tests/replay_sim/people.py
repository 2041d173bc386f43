"""The people of a world: they replay, reset, and answer the halts of a replay as its message says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chsink.clickhouse.landing import new_ledger
from chsink.clickhouse.pieces import Piece, Prepared
from chsink.clickhouse.shards import ShardTable
from chsink.connect import Services
from chsink.dlq.place import LettersTopic, replay_sink
from chsink.dlq.where import where
from chsink.driver.ledger import read_records
from chsink.driver_name import driver_name
from chsink.errors import ChsinkError, FencedError, HaltError, PreflightError, UnavailableError
from chsink.ports import BadValue
from chsink.recovery.change import carry_out
from chsink.recovery.decide import plan_reset
from chsink.replay.choose import LetterChooser
from chsink.replay.in_topic import InTopic
from chsink.replay.land import ListSender
from chsink.replay.report import ReplayReport
from chsink.replay.routes import LetterRoutes, routes_of
from chsink.replay.run import Replay, ReplayVerdict
from chsink.replay.source import InTable, LetterSource
from chsink.statemachine.records import StateRecord, TopicTable
from tests.replay_sim.letters import BAD
from tests.sim.clickhouse import LETTERS, REQUEST_TIMEOUT_S, URLS, Client
from tests.sim.hub import Violation
from tests.sim.kafka import PARTITION
from tests.sim.letters import TOPIC
from tests.sim.services import clock_of, services_of, shards_of

if TYPE_CHECKING:
    from tests.replay_sim.world import World

PATIENCE = 40
ANSWERS = ("CHS-336", "CHS-337")
"""What a person decides about: a list in doubt, and one that another replay settled while the person's ran."""


class SimRoutes(LetterRoutes):
    """The production routes, except that a record's row is its uid, and the uid decides the shard."""

    def is_transformed(self, leads: TopicTable, record: StateRecord) -> bool:
        """Never: the simulated job's pipeline is a name only."""
        return False

    def prepare(
        self, leads: TopicTable, records: pa.RecordBatch, layout: tuple[str, str], pipeline: str
    ) -> tuple[Prepared, frozenset[int]]:
        """See :class:`chsink.replay.routes.LetterRoutes`."""
        values = records.column("value").to_pylist()
        fit = np.array([value != BAD for value in values], np.bool_)
        uids = np.array([0 if value == BAD else int(value) for value in values], np.int64)
        pieces = []
        shards = shards_of(layout[1])
        for shard in range(shards):
            mine = uids[fit & (uids % shards == shard)]
            if len(mine):
                columns = [pa.array(mine), pa.array(mine % PARTITION)]
                pieces.append(Piece(shard, pa.RecordBatch.from_arrays(columns, names=["uid", "_kafka_offset"])))
        rejected = tuple(BadValue(int(row), "c", "r") for row in np.flatnonzero(~fit))
        return Prepared(tuple(pieces), rejected), frozenset(np.flatnonzero(fit).tolist())


def replay_of(world: World, services: Services) -> Replay:
    """A replay as :func:`chsink.replay.opening.open_replay` makes it, over the world's dead letters."""
    clickhouse, store, source = services.clickhouse, services.store, _source(world, services)
    kept = source.kept if isinstance(source, InTable) else None
    name = f"`chsink dlq replay` on {driver_name()}"
    ledger = new_ledger(clickhouse, store, name, replay_sink(world.sink))
    window = replace(clickhouse.window(ledger.layout), letters=kept)
    routes = SimRoutes(clickhouse, routes_of(clickhouse, window).pipelines)
    marks = source if isinstance(source, InTopic) else None
    chooser = LetterChooser(clickhouse, store, routes, source)
    sender = ListSender(clickhouse, services.kafka, routes, source, window, marks)
    return Replay(clickhouse, store, ledger, routes, source, window, chooser, sender)


def _source(world: World, services: Services) -> LetterSource:
    if world.table is not None:
        server = world.servers[0]
        kept = ShardTable(Client(server), server.describe(LETTERS), (URLS[0],))
        return InTable(world.table, kept, services.clock)  # type: ignore[arg-type]
    return InTopic(LettersTopic(services.config.kafka.client_options(), TOPIC, world.sink, 20))


def replay(world: World, verdict: ReplayVerdict | None = None) -> ReplayReport | None:
    """``chsink dlq replay [--landed | --resend]``; None if it failed with an error."""
    ended = _replay(world, verdict)
    return ended if isinstance(ended, ReplayReport) else None


def _replay(world: World, verdict: ReplayVerdict | None = None) -> ReplayReport | str:
    """Its report, or the id of its error."""
    services = services_of(world, clock_of(world.hub, world.hub.random.randint(-500, 500)))  # type: ignore[arg-type]
    try:
        report = replay_of(world, services).run(where([]), verdict)
    except (FencedError, UnavailableError) as error:
        world.hub.counts[f"outcome {type(error).__name__}"] += 1
        return error.id
    except (HaltError, PreflightError) as error:
        if error.id not in ANSWERS:
            raise Violation("halt_justified", str(error)) from error
        world.hub.counts[f"outcome {error.id}"] += 1
        world.doubtful = True
        return error.id
    world.hub.counts["outcome replay done"] += 1
    world.hub.counts["outcome replayed"] += report.landed
    return report


def decide(world: World) -> ReplayReport | None:
    """CHS-336: stop all replays, and replay again; look for the rows of the lists that are still named, and delete them
    if only some are there.
    """
    world.stop_replays()
    world.hub.sleep(REQUEST_TIMEOUT_S + 1)
    first = _decided(world)
    if first not in ANSWERS:
        return first if isinstance(first, ReplayReport) else None
    services = services_of(world)  # type: ignore[arg-type]
    try:
        recorded = read_records(services.store, replay_sink(world.sink))
    except UnavailableError:
        return None
    lists = {key: r for key, r in recorded.items() if r.in_doubt}
    rows = [(key.table, world.open_at(key, o)) for key, r in lists.items() for o in r.doubt.only]
    there = [at for at in rows if world.oracle.rows[at]]
    if rows and len(there) == len(rows):
        landed = _decided(world, "landed")
        if landed != "CHS-337":
            return landed if isinstance(landed, ReplayReport) else None
    for table, uid in there:
        if (table, uid) not in world.by_job:
            world.delete(table, uid)
    if any(world.oracle.rows[at] for at in rows):  # rows of the job: these dead letters have one
        return None
    resent = _decided(world, "resend")
    return resent if isinstance(resent, ReplayReport) else None


def _decided(world: World, verdict: ReplayVerdict | None = None) -> ReplayReport | str:
    """A replay by a person.  As the message says: nobody else replays before one has succeeded."""
    if verdict is not None:
        world.hub.counts[f"command replay --{verdict}"] += 1
    ended = _replay(world, verdict)
    world.doubtful = not isinstance(ended, ReplayReport)
    return ended


def delete_and_replay(world: World) -> None:
    """Delete the rows of lists in doubt, and replay without saying so.  Rows that are confirmed by a mark stay; so do all
    while a replay runs that somebody has begun meanwhile.
    """
    world.stop_replays()
    world.hub.sleep(REQUEST_TIMEOUT_S + 1)
    try:
        recorded = read_records(services_of(world).store, replay_sink(world.sink))  # type: ignore[arg-type]
    except UnavailableError:
        return
    if world.replays:
        return
    for key, record in recorded.items():
        rows = {(key.table, world.open_at(key, o)) for o in record.doubt.only if record.in_doubt}
        if not rows & world.oracle.marks:
            for table, uid in sorted(rows - world.by_job):
                world.delete(table, uid)
    replay(world)


def reset(world: World, partition: int) -> bool:
    """``chsink state reset t N``; then delete the rows before the next start, as it says.  Whether it was done."""
    world.stop_job()
    services = services_of(world)  # type: ignore[arg-type]
    for _ in range(PATIENCE):
        try:
            clickhouse, store = services.clickhouse, services.store
            carry_out(clickhouse, store, plan_reset(clickhouse, store, "t", [partition]), "reset")
        except ChsinkError as error:
            world.hub.counts[f"outcome reset {error.id}"] += 1
            if error.id == "CHS-338":
                replay(world)
                if world.doubtful:
                    decide(world)
            elif not isinstance(error, FencedError | UnavailableError) and error.id not in {"CHS-320", "CHS-323"}:
                raise Violation("halt_justified", f"reset: {error}") from error
            world.hub.sleep(5)
            continue
        world.hub.counts["command reset"] += 1
        world.forget(partition)
        return True
    return False


def create_again(world: World) -> bool:
    """Delete and create the topic, and delete its rows, while nothing is in doubt.  Returns whether it was done."""
    world.stop_job()
    services = services_of(world)  # type: ignore[arg-type]
    for _ in range(PATIENCE):
        replay(world)
        if world.doubtful:
            decide(world)
        world.stop_replays()
        try:
            recorded = {sink: read_records(services.store, sink) for sink in (world.sink, replay_sink(world.sink))}
        except UnavailableError:
            continue
        if not any(record.in_doubt for records in recorded.values() for record in records.values()):
            world.create_again()
            return True
        world.hub.sleep(5)
    return False
