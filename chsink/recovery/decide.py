"""``resolve`` and ``reset``: what a person decides about ranges that the sink must not decide about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from chsink.batch.halts import asking_target
from chsink.batch.ledger import read_owner
from chsink.clickhouse.shards import Target
from chsink.connect import Services
from chsink.errors import ChsinkError, halts
from chsink.notation.metadata_columns import PROBE_COLUMNS
from chsink.notation.sql import quote_string, quote_table
from chsink.recovery.change import Change, Make, find
from chsink.statemachine import writes
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord

GAP_IN_BATCH = (
    "if a later start halts with CHS-305, start with a new checkpoint: the sink continues from its recorded state"
)
Verdict = Literal["landed", "resend", "lost", "expired"]


def plan_reset(services: Services, topic: str, partition: int | None) -> Change:
    """Start over: EMPTY rows of the next incarnation."""
    found = find(services, topic, partition)
    in_doubt = [f"{k.topic_partition} {r.range}" for k, r in found.items() if r.in_doubt]
    doubtful = [f"these ranges are in doubt and are forgotten, too: {', '.join(in_doubt)}"] if in_doubt else []
    says = (
        f"the recorded ranges of {topic} ({len(found)} partitions) are forgotten; rows in the tables stay as they are",
        (
            "start with a new checkpoint: it reads these partitions from kafka.starting_offsets = "
            f"{services.config.kafka.starting_offsets!r}"
        ),
        "records whose rows are in the table are inserted again, unless you remove the rows first",
        "a job that runs on this sink is fenced: it stops with CHS-801",
        "stop its executors first: a task that still runs may insert another piece of a range in doubt",
        *doubtful,
    )
    return Change(found, says, dict.fromkeys(found, _reset))


def _reset(record: StateRecord, epoch: int, attempt: str) -> StateRecord:
    return writes.reset(record, epoch=epoch, attempt=attempt)


def plan_resolve(
    services: Services,
    topic: str,
    partition: int | None,
    verdict: Verdict,
    *,
    table: str | None = None,
    pipeline: Callable[[str], str],
    senders_gone: bool = False,
) -> Change:
    """Decide about the range in doubt of a partition, or, without one, about all that are in doubt of the topic.

    ``pipeline`` gives the fingerprint under which the next start will send.  Raises PreflightError CHS-320 when nothing
    is in doubt there, or one partition is for several tables; with ``resend`` CHS-321 while a task may still send a
    range, and CHS-322 when one cannot or must not be sent again, or its rows cannot be counted.  The other verdicts are
    a person's word, and hold where a server of the range is gone.
    """
    doubtful = {k: r for k, r in find(services, topic, partition, table).items() if r.phase is Phase.BEFORE}
    what = topic if partition is None else TopicPartition(topic, partition)
    if not doubtful:
        raise halts.NOTHING_IN_DOUBT(tp=what)
    if len({k.table for k in doubtful}) > 1:
        raise halts.SEVERAL_IN_DOUBT(tp=what, tables=", ".join(sorted({k.table for k in doubtful})))
    says: list[str] = []
    make: dict[StateKey, Make] = {}
    for key, record in doubtful.items():
        seen = seen_rows(services, key, record)
        name = f"{key.topic_partition} {record.range}"
        match verdict:
            case "landed":
                says.append(f"{name} will be recorded as landed: nothing of it is sent again; {seen.sentence}")
                make[key] = _landed
            case "lost":
                says.append(f"{name} will be recorded as a gap: its missing rows are never sent; {seen.sentence}")
                says.append(GAP_IN_BATCH)
                make[key] = _lost
            case "expired":
                says.append(f"{name}: the part that Kafka no longer holds becomes a gap; the next start lands the rest")
                says.append(GAP_IN_BATCH)
                make[key] = _expired
            case "resend":
                _check_resend(services, key, record, seen, senders_gone=senders_gone)
                says.append(f"{name} will be sent again in full by the next start, under new tokens; {seen.sentence}")
                make[key] = partial(_resend, services, key, pipeline(topic))
    return Change(doubtful, (*says, "a job that runs on this sink is fenced: it stops with CHS-801"), make)


def _landed(record: StateRecord, epoch: int, attempt: str) -> StateRecord:
    return writes.after(record, epoch=epoch, attempt=attempt)


def _lost(record: StateRecord, epoch: int, attempt: str) -> StateRecord:
    return writes.lost(record, epoch=epoch, attempt=attempt)


def _expired(record: StateRecord, epoch: int, attempt: str) -> StateRecord:
    return writes.expired(record, epoch=epoch, attempt=attempt)


def _resend(  # noqa: PLR0917 - the last three are given by who carries it out
    services: Services, key: StateKey, pipeline: str, record: StateRecord, epoch: int, attempt: str
) -> StateRecord:
    _wait_for_inserts(services, key, record)  # after the claim: from now on no older driver begins one
    _check_no_rows(key, record, seen_rows(services, key, record))
    with asking_target():
        marks = services.clickhouse.window(lambda _: None).marks(key.table)
    return writes.resend(
        record,
        layout=services.clickhouse.layout(services.config.route_of(key.topic)).fingerprint(),
        pipeline=pipeline,
        before_at=services.clock.now_ms(),
        marks=marks,
        epoch=epoch,
        attempt=attempt,
    )


def _wait_for_inserts(services: Services, key: StateKey, record: StateRecord) -> None:
    """A server may still be busy with an insert whose sender is gone: its rows would come after they were counted."""
    owner = read_owner(services.store, key.sink)
    with asking_target():
        window = services.clickhouse.window(owner.layout if owner is not None else lambda _: None)
        urls = [url for shard in window.shards(key.table, record.layout) for url in shard.replicas or (shard.url,)]
        window.wait_for_inserts(key, record, [services.clickhouse.client((url,)) for url in urls])


def _check_resend(services: Services, key: StateKey, record: StateRecord, seen: Seen, *, senders_gone: bool) -> None:
    """A range may be resent only if it can be read, no other process can still send it, and none of it is there."""
    tp = key.topic_partition
    if not services.clickhouse.is_routed(key):
        raise halts.RESEND_NOT_ROUTED(tp=tp, table=key.table)
    topic_id = services.kafka.topic_ids([key.topic])[key.topic]
    start, end = services.kafka.log_starts([tp])[tp], services.kafka.log_ends([tp])[tp]
    if topic_id != record.topic_id or start > record.start or end < record.end:
        raise halts.RESEND_NOT_READABLE(tp=tp, range=record.range, topic_id=topic_id, start=start, end=end)
    _check_no_rows(key, record, seen)
    if not senders_gone:
        raise halts.SENDERS_MAY_LIVE(tp=tp, range=record.range)


def _check_no_rows(key: StateKey, record: StateRecord, seen: Seen) -> None:
    if seen.trouble is not None:
        raise halts.RESEND_NOT_COUNTED(
            tp=key.topic_partition, range=record.range, reason=seen.sentence
        ) from seen.trouble
    if seen.rows:
        refused = halts.RESEND_WOULD_DOUBLE if record.start >= record.older_end else halts.RESEND_MAY_DOUBLE
        raise refused(
            table=key.table,
            rows=seen.rows,
            tp=key.topic_partition,
            range=record.range,
            delete=f"DELETE FROM {quote_table(key.table)} WHERE {_where(key, record)}",
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """``rows`` of a range in its table, None where that is not known; ``trouble`` is what kept from looking."""

    table: str
    rows: int | None = None
    trouble: ChsinkError | None = None

    @property
    def sentence(self) -> str:
        if self.trouble is not None:
            return f"the rows in {self.table} could not be counted ({self.trouble.message})"
        if self.rows is None:
            return f"{self.table} cannot be searched by offset: you confirm what it holds"
        return f"{self.table} holds {self.rows} rows of it now"


def seen_rows(services: Services, key: StateKey, record: StateRecord) -> Seen:
    """Look for the range's rows on its recorded shards.  Nothing that is wrong there is raised."""
    if not services.clickhouse.is_routed(key):
        return Seen(key.table)
    try:
        target = services.clickhouse.target(services.config.route_of(key.topic))
        return Seen(key.table, _count(services, target, key, record))
    except ChsinkError as error:
        return Seen(key.table, trouble=error)


def _count(services: Services, target: Target, key: StateKey, record: StateRecord) -> int | None:
    """Rows of the range, None where the table, or the state, cannot tell."""
    owner = read_owner(services.store, key.sink)
    recorded = owner is not None and owner.layout(record.layout) is not None
    if not recorded or not {c.name for c in target.table.columns}.issuperset(PROBE_COLUMNS):
        return None
    assert owner is not None
    sql = f"SELECT count() FROM {quote_table(key.table)} WHERE {_where(key, record)}"
    with asking_target():
        shards = services.clickhouse.window(owner.layout).shards(key.table, record.layout)
        return sum(int(s.client.query(sql)[0][0]) for s in shards)


def _where(key: StateKey, record: StateRecord) -> str:
    return (
        f"_kafka_topic = {quote_string(key.topic)} AND _kafka_partition = {key.partition} "
        f"AND _kafka_offset >= {record.start} AND _kafka_offset < {record.end}"
    )
