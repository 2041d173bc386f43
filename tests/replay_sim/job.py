"""A simplified job beside the replays: it owns the sink through the production ledger, and its rows land at once.

It announces a range, lands its rows and dead letters, and writes AFTER.  It may be killed in between.  Then the range
is settled as it was announced, or a person has it sent again: under a new nonce, by a job file that takes its records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chsink.clickhouse.landing import new_ledger
from chsink.dlq.kept import KeptLetters
from chsink.driver.ledger import Ledger
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.replay_sim.letters import BAD
from tests.sim.kafka import id_of
from tests.sim.services import services_of

if TYPE_CHECKING:
    from tests.replay_sim.world import World

SOME = 6
"""How many offsets a range has."""
GROWS = 0.5


def run(world: World) -> None:
    """Run until the job is killed; in a calm world, until nothing is left to do."""
    hub, services = world.hub, services_of(world)  # type: ignore[arg-type]
    ledger = new_ledger(services.clickhouse, services.store, f"job {next(world.ids)}")
    ledger.claim(world.keys, services.clickhouse.layouts)
    while True:
        for key in world.keys:
            record = ledger.records[key]
            if record.in_doubt:
                _settle(world, ledger, key)
            elif record.phase is Phase.EMPTY or record.life.topic_id != id_of(world.life):
                _land(world, ledger, key, OffsetRange(0, world.ends[key.partition]), fits=world.life == 0)
            elif record.end < world.ends[key.partition]:
                _land(world, ledger, key, OffsetRange(record.end, world.ends[key.partition]), fits=False)
        if hub.calm:
            return
        hub.sleep(5)
        if hub.random.random() < GROWS:
            partition = int(hub.random.random() * world.partitions)
            world.ends[partition] = min(world.ends[partition] + SOME, 10 * SOME)


def _said(world: World, ledger: Ledger) -> writes.Announcement:
    return writes.Announcement(
        id_of(world.life), Sending(5, next(iter(dict(ledger.owner.layouts))), "P"), Seen(world.hub.now)
    )


def _land(world: World, ledger: Ledger, key: StateKey, asked: OffsetRange, *, fits: bool) -> None:
    record, attempt = ledger.records[key], ledger.attempt()
    fresh = record.phase is Phase.EMPTY or record.life.topic_id != id_of(world.life)
    ledger.write(
        {key: writes.before(record, asked, _said(world, ledger), epoch=ledger.epoch, attempt=attempt, fresh=fresh)}
    )
    land(world, key, ledger.records[key], fits=fits)
    _confirm(world, ledger, key)


def _settle(world: World, ledger: Ledger, key: StateKey) -> None:
    """Settle the range as it was announced, or have it sent again.  The latter only without a table of dead letters,
    from which a person would have to delete them first.
    """
    if world.table is None and world.hub.random.random() < 0.3:
        world.hub.counts["outcome range sent again"] += 1
        record, said = ledger.records[key], _said(world, ledger)
        ledger.write({key: writes.resend(record, said, most=1000, epoch=ledger.epoch, attempt=ledger.attempt())})
        land(world, key, ledger.records[key], fits=True)
    else:
        land(world, key, ledger.records[key], fits=False)
    _confirm(world, ledger, key)


def _confirm(world: World, ledger: Ledger, key: StateKey) -> None:
    world.hub.pause()
    if world.hub.fault("job killed in a range", 0.1):
        world.hub.die()
    ledger.write({key: writes.after(ledger.records[key], epoch=ledger.epoch, attempt=ledger.attempt())})


def land(world: World, key: StateKey, record: StateRecord, *, fits: bool) -> None:
    """Land a row for each record of the range, or a dead letter if it does not ``fit``; existing ones stay."""
    for offset in range(record.start, record.end):
        uid = world.uid(key.partition, offset)
        done = key.table, uid
        if done in world.by_job:
            continue
        if offset % 3 and not (fits and offset % 4):
            name = (*done, record.life.nonce)
            if name not in world.delivered:
                world.delivered.add(name)
                world.keep(_letter(key, offset, record.life.nonce, uid))
        else:
            world.by_job.add(done)
            world.put(key.table, uid)


def _letter(key: StateKey, offset: int, nonce: str, uid: int) -> KeptLetters:
    value = str(uid).encode() if offset % 4 else BAD
    return KeptLetters(
        key.topic, key.partition, offset, key.table, "c", "CHS-501", "r", 1, 0, False, None, value, (), nonce
    )
