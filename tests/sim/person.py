"""An operator at a terminal: runs chsink's own commands (``chsink.recovery``) and does what their messages say.

Every command is a process of its own that uses the simulated services, takes time, and may be killed.  Meanwhile the
job is stopped: nothing starts it.  This operator sees in the tables and in Kafka what a real one could see.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed
from functools import partial
from typing import TYPE_CHECKING

from chsink.clickhouse.landing import present_fingerprint
from chsink.driver.ledger import parse_key
from chsink.errors import ChsinkError, FencedError, UnavailableError
from chsink.errors.several import raise_all
from chsink.ports import ServerRefused, Unanswered
from chsink.recovery import recover, survey
from chsink.recovery.accepted import Accepted, read_holes
from chsink.recovery.change import Change, carry_out
from chsink.recovery.decide import Verdict, plan_reset, plan_resolve
from chsink.statemachine.codec import decode
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateRecord
from tests.sim.checkpoint import Checkpoint
from tests.sim.clickhouse import LETTERS, REQUEST_TIMEOUT_S, URLS
from tests.sim.hub import Group, Violation
from tests.sim.kafka import PARTITION, serial_of
from tests.sim.oracle import LISTS
from tests.sim.services import STREAM, clock_of, services_of
from tests.sim.sql import BEYOND
from tests.sim.sql import delete as remove

if TYPE_CHECKING:
    from chsink.connect import Services
    from tests.sim.world import World

_PARTITION = re.compile(r"\w+-\d+")
PATIENCE = 12
"""How often an operator types a command before giving up on it."""
PAUSE_S = 20
_DELETE = re.compile(r"DELETE FROM .*_kafka_offset >= \d+( AND _kafka_offset < \d+)?[)]*")
_COMMAND = re.compile(r"`chsink state (?:resolve|reset) (\w+)((?: \d+)+)")


class CannotHelp(Exception):
    """No message names a fix: the world ends at this halt."""


def at_work(world: World, halt: str, acts: Sequence[Callable[[], None]]) -> None:
    """Stop the job's supervisor, let the operator act, and start the job again."""
    world.hands_on = True
    group = Group("operator")

    def run() -> None:
        try:
            for act in acts:
                act()
        except CannotHelp:
            world.over = halt
        world.hands_on = False
        if not world.drivers and world.over is None:
            world.start_soon()

    world.hub.counts["operator acts"] += 1
    world.hub.spawn(group, run)
    if world.hub.fault("operator interrupted", 0.1):
        world.hub.after(int(world.hub.chance.random() * 100), partial(_interrupt, world, group))


def _interrupt(world: World, group: Group) -> None:
    if world.hands_on and group.alive:
        world.hub.kill(group)
        world.hands_on = False
        world.start_soon()


# --- commands ------------------------------------------------------------------------------------------------------


def typed(
    world: World, command: Callable[[Services], None], follow: Callable[[ChsinkError], bool], *, whole: bool = False
) -> None:
    """Type a command until it succeeds.  ``follow`` does what a refusal says, and returns whether to type the command
    again; with ``whole``, it gets several refusals as one error.
    """
    for _ in range(PATIENCE):
        try:
            command(services_of(world, clock_of(world.hub, world.hub.random.randint(-500, 500))))
        except UnavailableError:
            world.hub.sleep(PAUSE_S)
        except FencedError:
            world.stop_drivers()  # a driver that the operator did not see
        except ChsinkError as error:
            world.hub.counts.update(f"command {part.id}" for part in error.parts or (error,))
            if False in [follow(part) for part in ((error,) if whole else error.parts or (error,))]:
                return
        else:
            return
    raise Violation("progress", f"an operator typed a command {PATIENCE} times")


def _done(world: World, name: str, change: Change) -> None:
    world.hub.counts[f"command {name}"] += len(change.make)


def resolve(world: World, topic: str, partitions: Sequence[int], verdict: Verdict) -> None:
    """``chsink state resolve TOPIC PARTITION… --verdict``, after checking the table as its help asks."""
    world.stop_drivers()
    if verdict == "resend":
        world.stop_executors()
    unreadable: list[TopicPartition] = []

    def planned(services: Services) -> Change:
        return plan_resolve(
            services.clickhouse,
            services.store,
            services.kafka,
            topic,
            partitions,
            verdict,
            pipeline=lambda topic: present_fingerprint(services.clickhouse, topic, STREAM),
            senders_gone=verdict == "resend",
        )

    def command(services: Services) -> None:
        change = planned(services)
        if verdict == "landed" and any("leave one copy" in line for line in change.says):
            for key, record in change.found.items():
                delete_second_copies(world, key.topic_partition, record.range)
            change = planned(services)
        if verdict == "landed" and any("dependent views" in line for line in change.says):
            end_senders(world)
            for key, record in change.found.items():
                complete_views(world, key.topic_partition, record.range)
        if any("dependent views receive" in line for line in change.says):
            for key, record in change.found.items():
                for server in world.servers:
                    server.remove_from_views(key.table, key.topic_partition, record.range)
        with world.oracle.consent(change.found, given_up=verdict == "lost"):
            carry_out(services.clickhouse, services.store, change, f"resolve --{verdict}")
        _done(world, f"resolve {verdict}", change)

    def follow(error: ChsinkError) -> bool:
        if error.name in ("RESEND_WOULD_DOUBLE", "RESEND_MAY_DOUBLE", "RESEND_LETTERS_DOUBLE"):
            delete(world, error)
        elif error.name in ("RESEND_NOT_READABLE", "EXPIRED_NOT_HELD"):
            names = error.params.get("tp") or error.params["ranges"]
            unreadable.extend(_named(name) for name in _PARTITION.findall(names))
            return False
        elif error.name == "RESEND_NOT_COUNTED":
            world.hub.sleep(PAUSE_S)
        elif error.id not in ("CHS-304", "CHS-320", "CHS-323"):
            raise Violation("halt_justified", f"resolve --{verdict}: {error}")
        # the next start says what is left; and whoever sees rows come looks at the table again before deciding
        return error.id not in ("CHS-304", "CHS-320") and error.name != "ROWS_CHANGED"

    typed(world, command, follow)
    for tp in unreadable:
        record = world.records().get(tp)
        if record is not None and record.in_doubt:
            resolve(world, tp.topic, [tp.partition], _without_kafka(world, tp, record))


def reset(world: World, topic: str, partitions: Sequence[int]) -> None:
    """``chsink state reset TOPIC PARTITION…``.  The job's executors are stopped, too."""
    world.stop_drivers()
    world.stop_executors()

    def command(services: Services) -> None:
        change = plan_reset(services.clickhouse, services.store, topic, partitions)
        with world.oracle.consent(change.found):
            carry_out(services.clickhouse, services.store, change, "reset")
        _done(world, "reset", change)

    def follow(error: ChsinkError) -> bool:
        if error.id not in ("CHS-323", "CHS-320"):
            raise Violation("halt_justified", f"reset: {error}")
        return error.id != "CHS-320"

    typed(world, command, follow)


def rebuild(world: World, *, replace: bool) -> None:
    """``chsink state recover [--replace]``, and the steps that its refusals name."""
    world.stop_drivers()
    world.stop_executors()
    world.shards = max([world.shards, *(server.number + 1 for server in world.servers if server.holds_rows)])
    accepted = Accepted(senders_gone=True)

    def command(services: Services) -> None:
        said: list[str] = []
        found = survey.survey(
            services.clickhouse, services.store, services.kafka, said.append, accepted, replace=replace
        )
        raise_all([one.refusal for one in found if one.refusal is not None])  # all of them are printed
        with world.oracle.consent([one.key for one in found], letters_again=False):
            recover.write(services.clickhouse, services.store, found)
        for tp, end in re.findall(r"(\S+): only dead letters follow from offset (\d+) on", "\n".join(said)):
            world.oracle.letters_again(_named(tp), OffsetRange(int(end), BEYOND))
        for one in found:  # behind a record that lacks its dead letter, all are delivered again
            world.oracle.letters_again(one.key.topic_partition, OffsetRange(one.delivered, one.landed.end))
        if any("dependent views" in line for line in said):
            for one in found:
                complete_views(world, one.key.topic_partition, one.landed)
        if any(one.doubt is not None for one in found):
            world.hub.counts["recovered in doubt"] += 1
            world.reasons.add("recovered in doubt")  # of its rows that are there, nobody knows whether a view has them
        world.hub.counts["command recover --replace" if replace else "command recover"] += len(found)

    def follow(error: ChsinkError) -> bool:
        """All refusals are read before anything is done."""
        nonlocal accepted
        refused = error.parts or (error,)
        of_rows = [part for part in refused if part.name == "ROWS_PROVE_NOTHING"]
        for part in refused:
            if part.name == "TABLE_PROVES_NOTHING" and "--accept-removed" in part.hint:
                accepted = changed(accepted, removed=True)  # what was removed beyond the last row is inserted again
            elif part not in of_rows and part.id != "CHS-323":
                raise CannotHelp
        for part in of_rows:
            accepted = _follow_rows(world, part, accepted)
        return True

    typed(world, command, follow, whole=True)


def _follow_rows(world: World, error: ChsinkError, accepted: Accepted) -> Accepted:
    """What Kafka no longer holds is accepted by its offsets.  Where records are missing, rows are deleted from there on."""
    if "chsink cannot recover a recreated topic" in error.hint:
        raise CannotHelp
    if "nothing can land them any more" in error.hint:
        words = re.findall(r"--accept-holes (\S+?)`", error.hint)
        return changed(accepted, holes={**accepted.holes, **read_holes(words)})
    found = _DELETE.search(error.hint)
    if found is None or "--accept-removed" not in error.hint:
        raise CannotHelp
    offset = int(re.findall(r"_kafka_offset >= (\d+)", found[0])[0])
    _remove(world, _named(error.params["tp"]), OffsetRange(offset, BEYOND), views="view" in error.hint)
    return changed(accepted, removed=True)


def delete(world: World, error: ChsinkError) -> None:
    """Run the statement that a message names, on each shard; on views, too, where it names them."""
    found = _DELETE.search(error.hint)
    assert found is not None, error
    on_each_shard(world, found[0], views="views" in error.hint)


def _remove(world: World, tp: TopicPartition, gone: OffsetRange, *, views: bool) -> None:
    """An operator removes the rows of these offsets, and their dead letters."""
    which = (
        f"WHERE _kafka_topic = '{tp.topic}' AND _kafka_partition = {tp.partition} "
        f"AND _kafka_offset >= {gone.start} AND _kafka_offset < {gone.end}"
    )
    on_each_shard(world, f"DELETE FROM `{world.routes[tp.topic].replace('.', '`.`')}` {which}", views=views)
    if world.letters == "table":  # nobody deletes from a topic
        on_each_shard(world, f"DELETE FROM `{LETTERS.replace('.', '`.`')}` {which}", views=False)


def delete_in_doubt(world: World) -> None:
    """An operator removes the rows of ranges in doubt, and does not run ``--resend`` before the start."""
    for key, row in world.store.rows.items():
        record = decode(row.body) if key.startswith(f"{world.sink}/") else None
        if record is None or not record.in_doubt:
            continue
        of = parse_key(key)
        for server in world.servers:
            server.remove(of.table, of.topic_partition, record.range)
            server.remove_from_views(of.table, of.topic_partition, record.range)
            if world.letters == "table":
                server.remove(LETTERS, of.topic_partition, record.range, letters_of=of.table)


def delete_second_copies(world: World, tp: TopicPartition, offsets: OffsetRange) -> None:
    """OPTIMIZE TABLE … DEDUPLICATE, for instance: of each row of these offsets, one stays."""
    twice = set(world.oracle.there_twice(tp, offsets))
    for server in world.servers:
        for table in server.tables.values():
            rows = table.rows.get((tp.topic, tp.partition), [])
            for uid in twice.intersection(rows):
                while rows.count(uid) > 1:
                    rows.remove(uid)
    world.oracle.twice = {(table, uid) for table, uid in world.oracle.twice if uid not in twice}


def attach_again(world: World) -> None:
    """An operator detaches a partition of each table and attaches it again, while ranges are in doubt."""
    number = world.hub.random.randrange(6)
    for server in world.servers:
        for name, table in server.tables.items():
            if not name.startswith(LISTS):
                server.attach_again(name, number % table.kind.parts)


def on_each_shard(world: World, sql: str, *, views: bool) -> None:
    """A statement on every server that ever was a shard.  ``views``: also on the target of the view."""
    services = services_of(world)
    world.hub.counts["operator deletes"] += 1
    for number, url in enumerate(URLS):
        while True:
            try:
                services.clickhouse.client((url,)).command(sql)
            except (Unanswered, ServerRefused):
                world.hub.sleep(PAUSE_S)
            else:
                break
        if views:
            remove(world.servers[number], sql, views=True)


def end_senders(world: World) -> None:
    """End the job's executors, and wait until none of their inserts is under way."""
    world.stop_executors()
    world.hub.sleep(REQUEST_TIMEOUT_S + 1)


def complete_views(world: World, tp: TopicPartition, offsets: OffsetRange) -> None:
    """Insert what a view lacks of these offsets: INSERT INTO its target SELECT DISTINCT … FROM the table, which may have
    a row twice whose record was compacted since.
    """
    table = world.routes[tp.topic]
    for server in world.servers:
        rows = server.tables[table].rows.get((tp.topic, tp.partition), [])
        view = server.tables[table].view.setdefault((tp.topic, tp.partition), [])
        lacking = [uid for uid in rows if offsets.start <= uid % PARTITION < offsets.end and uid not in view]
        view.extend(dict.fromkeys(lacking))
        world.oracle.fed(table, dict.fromkeys(lacking))


# --- what an operator sees -------------------------------------------------------------------------------------------


def partitions_of(error: ChsinkError) -> list[TopicPartition]:
    """The topic-partitions that halted: the arguments of the command that the hint names."""
    found = _COMMAND.search(error.hint)
    if found is None:
        return [_named(error.params["tp"])]
    return [TopicPartition(found[1], int(number)) for number in found[2].split()]


def _named(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def in_doubt(world: World, error: ChsinkError) -> dict[TopicPartition, StateRecord]:
    """The ranges that the halt names, as far as they still are in doubt."""
    records = world.records()
    return {tp: records[tp] for tp in partitions_of(error) if tp in records and records[tp].in_doubt}


def decide_all(world: World, verdicts: Mapping[TopicPartition, Verdict]) -> None:
    """One command for all partitions of a topic with the same verdict."""
    by: dict[tuple[str, Verdict], list[int]] = {}
    for tp, verdict in verdicts.items():
        by.setdefault((tp.topic, verdict), []).append(tp.partition)
    for (topic, verdict), partitions in by.items():
        resolve(world, topic, partitions, verdict)


def missing(world: World, tp: TopicPartition, record: StateRecord) -> bool:
    """Whether the table lacks a record of the range."""
    kafka = world.kafka
    held = kafka.alive(tp, record.range) if record.doubt.expired else kafka.held(tp, record.life.topic_id, record.range)
    return any(world.oracle.misses(world.routes[tp.topic], uid) for uid in held)


def _older_rows(world: World, tp: TopicPartition) -> bool:
    """Whether the table has rows of an earlier topic of this name."""
    tables = (server.tables[world.routes[tp.topic]] for server in world.servers)
    serial = world.kafka.topics[tp.topic].serial
    return any(serial_of(uid) != serial for table in tables for uid in table.rows.get((tp.topic, tp.partition), ()))


def _without_kafka(world: World, tp: TopicPartition, record: StateRecord) -> Verdict:
    """The verdict if Kafka does not hold all of the range: it landed, land what is left, or give the rest up."""
    delete_second_copies(world, tp, record.range)
    if not missing(world, tp, record):
        return "landed"
    same = record.may_belong_to(world.kafka.topics[tp.topic].id)
    log = world.kafka.log(tp)
    expired = same and not record.doubt.expired and record.start < log.start and record.end <= log.end
    return "expired" if expired else "lost"


# --- what helps --------------------------------------------------------------------------------------------------------


def decide_range(world: World, error: ChsinkError) -> None:
    """Landed, if all rows are there; else sent again, under new tokens."""
    world.stop_drivers()
    verdicts: dict[TopicPartition, Verdict] = {}
    if error.name == "VIEWS_DOUBTFUL":
        end_senders(world)
    for tp, record in in_doubt(world, error).items():
        if error.name == "VIEWS_DOUBTFUL":
            complete_views(world, tp, record.range)
        wrong = missing(world, tp, record) or world.oracle.there_twice(tp, record.range)
        verdicts[tp] = "resend" if wrong else "landed"
        if verdicts[tp] == "resend" and not world.tables_tell:  # chsink cannot count rows: --resend says there are none
            world.stop_executors()
            _remove(world, tp, record.range, views=True)
    decide_all(world, verdicts)


def changed_while_in_doubt(world: World, error: ChsinkError) -> None:
    """CHS-309: undo the change, or keep it and have the range sent again."""
    if world.hub.random.random() < 0.5:
        decide_range(world, error)
        return
    for tp, record in in_doubt(world, error).items():
        if record.sent.pipeline in world.versions_of:
            world.alter(world.routes[tp.topic], world.versions_of[record.sent.pipeline])


def recreated(world: World, error: ChsinkError) -> None:
    """CHS-303: a new checkpoint; where the first records are gone, these partitions start over."""
    gone = [tp for tp in partitions_of(error) if world.kafka.log(tp).start]
    if gone:
        reset(world, gone[0].topic, [tp.partition for tp in gone])
    world.checkpoint = Checkpoint()


def no_longer_read(world: World, error: ChsinkError) -> None:
    """CHS-308."""
    world.stop_drivers()
    decide_all(world, {tp: _without_kafka(world, tp, record) for tp, record in in_doubt(world, error).items()})


def log_shrank(world: World, error: ChsinkError) -> None:
    """CHS-301: read what the log holds now again, after removing the rows of these offsets."""
    if error.name == "LOG_SHRANK":  # else nothing of these offsets landed
        tps = partitions_of(error)
        reset(world, tps[0].topic, [tp.partition for tp in tps])
        for tp in tps:
            _remove(world, tp, OffsetRange(world.kafka.log(tp).start, BEYOND), views=True)
            world.forgiven.discard(tp)
            world.kafka.shrunk.discard(tp)
    world.checkpoint = Checkpoint()


def state_lost(world: World, error: ChsinkError) -> None:
    """CHS-229, CHS-302: rebuild the state; where there are no rows, a new checkpoint does.

    The rows do not say of which topic they are: for one that was recreated since, `recover` says not to use it.
    """
    if any(_older_rows(world, tp) for tp in world.kafka.all()):
        raise CannotHelp
    rebuild(world, replace=error.name == "STATE_IS_STALE")
    recorded = {tp for tp, record in world.records().items() if record.phase is not Phase.EMPTY}
    if error.name in ("CHECKPOINT_WITHOUT_STATE", "STATE_LOST") or not recorded:
        world.checkpoint = Checkpoint()
