"""``resolve`` and ``reset``: what a person decides about ranges that the sink must not decide about itself.

One command is for all named partitions of a topic.  It is carried out for all of them or for none, and a refusal names
all that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from chsink.clickhouse.cluster import Cluster
from chsink.errors import ChsinkError, halts
from chsink.errors.counts import counted
from chsink.errors.several import raise_all
from chsink.kafka.admin import KafkaAdmin
from chsink.ports import StateStore
from chsink.recovery.change import Change, Make, find
from chsink.recovery.landed_rows import (
    LandedRows,
    also_from,
    count_landed_rows,
    delete_letters,
    delete_rows,
    letters_of,
    wait_for_inserts,
)
from chsink.recovery.partition_survey import Say
from chsink.recovery.replays import check_settled
from chsink.refusals import asking_target
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord, TopicTable
from chsink.statemachine.table import DEAD_LETTERS, TABLE_BY, changed_parts, choice_of, has_dead_letters

GAP_IN_BATCH = (
    "if a later start halts with CHS-305, start with a new checkpoint: the sink continues from its recorded state"
)
OTHER_PLACE = (
    "{} had another place for dead letters when announced, or its table was created again: if that place holds dead "
    "letters of these offsets, delete them there first, or they are kept twice"
)
VIEWS_MAY_LACK = (
    "these dependent views may lack rows: {}; make sure that the job's executors have stopped, because a running task "
    "may still insert these rows; wait for clickhouse.insert_timeout_s, at least 120 s, then compare the targets of "
    "the views with the table"
)
Verdict = Literal["landed", "resend", "lost", "expired"]
Doubtful = Mapping[StateKey, StateRecord]


def plan_reset(
    clickhouse: Cluster,
    store: StateStore,
    topic: str | None,
    partitions: Collection[int],
    *,
    table: str | None = None,
) -> Change:
    """Start over: EMPTY rows of the next incarnation.  Without ``partitions``, all of the topic; without ``table``, for
    all of its tables; without ``topic``, all topics.  PreflightError CHS-338 where a replay is in doubt.
    """
    sink = clickhouse.config.sink.name
    found = find(store, sink, topic, partitions, table)
    check_settled(store, sink, found)
    tables, topics = sorted({key.table for key in found}), sorted({key.topic for key in found})
    count = counted(len({key.topic_partition for key in found}), "partitions")
    in_doubt = [f"{k.topic_partition} {r.range}" for k, r in found.items() if r.in_doubt]
    doubtful = [f"these ranges are in doubt and are forgotten, too: {', '.join(in_doubt)}"] if in_doubt else []
    says = (
        f"the recorded ranges of {', '.join(topics)} ({count}) in {', '.join(tables)} are forgotten; rows stay there",
        "start with a new checkpoint: it reads these partitions from the first record that Kafka holds",
        *_says_chosen(found, find(store, sink, topic, partitions)),
        *_says_left({key.table for key in found if not clickhouse.is_routed(key)}),
        *_says_lands_again(clickhouse, found),
        "a job or a replay that runs on this sink is fenced: it stops with CHS-801",
        "stop its executors and replays first: one that still runs may insert another piece of a range in doubt",
        *doubtful,
    )
    return Change(found, says, {key: partial(_reset, clickhouse, store, key) for key in found}, resets=True)


def _says_lands_again(clickhouse: Cluster, found: Mapping[StateKey, StateRecord]) -> Iterator[str]:
    """Nothing lands again in a table to which no route leads: its rows stay."""
    routed = {k.table: k for k in found if clickhouse.is_routed(k)}
    letters = "; ".join(f"those of {key.table} have {letters_of(key)}" for key in routed.values())
    if routed:
        yield (
            f"records that Kafka still holds land again in {', '.join(routed)}: before the next start, delete their "
            f"rows, also in the targets of dependent views, and their dead letters and replay marks ({letters}), by "
            "topic, partition and offset; keep those of records that Kafka no longer holds (in a compacted topic, they "
            "lie between the others), and those of an earlier topic of this name"
        )


def _says_chosen(found: Mapping[StateKey, StateRecord], of_topic: Mapping[StateKey, StateRecord]) -> Iterator[str]:
    """Where the topic's records name their table, and not all of its tables start over."""
    topics = {k.topic for k in found}
    others = {k: r for k, r in of_topic.items() if k.topic in topics and k not in found}
    tables = sorted({k.table for k, r in others.items() if choice_of(r.sent.pipeline)})
    if tables:
        yield (
            f"the current table_by chooses the records: if it has changed since they landed in {', '.join(tables)}, "
            "some of them will be in two tables, or in none; to prevent this, reset the topic without --table"
        )


def _says_left(tables: Collection[str]) -> Iterator[str]:
    if tables:
        yield (
            f"no route leads to {', '.join(sorted(tables))}: the topic's other tables will no longer wait for it, and "
            "records that have not landed in it yet will be in no table; after the next batch, you can add it again "
            "only by resetting all tables of the topic"
        )


def _reset(  # noqa: PLR0917 - two ports, and what a Make takes
    clickhouse: Cluster, store: StateStore, key: StateKey, record: StateRecord, epoch: int, attempt: str
) -> StateRecord:
    if record.in_doubt:  # its rows would come after a person deleted those that are there
        wait_for_inserts(clickhouse, store, key, record, where_possible=True)
    return writes.reset(record, epoch=epoch, attempt=attempt, left=not clickhouse.is_routed(key))


def plan_resolve(  # noqa: PLR0917 - three ports, and what is decided about
    clickhouse: Cluster,
    store: StateStore,
    kafka: KafkaAdmin,
    topic: str,
    partitions: Collection[int],
    verdict: Verdict,
    *,
    table: str | None = None,
    pipeline: Callable[[TopicTable], str],
    senders_gone: bool = False,
    say: Say = lambda _: None,
) -> Change:
    """Decide about the ranges in doubt of these partitions, or, without any, about all that are in doubt of the topic.

    ``pipeline`` gives the fingerprint of the next start, as far as it is known.  ``say`` hears how far the counting is.

    Raises PreflightError CHS-320 when nothing is in doubt there, or one partition is for several tables; with
    ``resend`` CHS-321 while a task may still send a range, CHS-304 while brokers hide the recorded topic's id, and
    CHS-322 when a range cannot or must not be sent again, or its rows cannot be counted; with ``expired`` CHS-322 for a
    range of an earlier topic.  The other verdicts are a person's word, and hold where a server of the range is gone.
    """
    doubtful = _in_doubt(store, clickhouse.config.sink.name, topic, partitions, table)
    seen = dict(_count_all(clickhouse, store, doubtful, say))
    if verdict == "resend":
        _check_resend(clickhouse, kafka, doubtful, seen, pipeline, senders_gone=senders_gone)
    starts: Mapping[TopicPartition, int] = {}
    if verdict == "expired":
        _check_same_topic(kafka, doubtful)
        starts = kafka.log_starts([k.topic_partition for k in doubtful])
    says = [_says(verdict, key, record, seen[key], starts) for key, record in doubtful.items()]
    if verdict == "lost":
        says.append(GAP_IN_BATCH)
    views = sorted({view for one in seen.values() for view in one.may_lack})
    if verdict == "landed" and views:
        says.append(VIEWS_MAY_LACK.format(", ".join(views)))
    make: dict[StateKey, Make]
    if verdict == "resend":
        present = pipeline(next(iter(doubtful)).topic_table)
        most = max(1, _most(clickhouse, next(iter(doubtful)).table) // len(doubtful))
        says += _says_again(clickhouse, views, _with_other_letters(doubtful, present))
        resend = partial(_resend, clickhouse, store, kafka)
        make = {key: partial(resend, key, _named(clickhouse, key, present), most) for key in doubtful}
    elif verdict == "landed":
        make = {key: partial(_landed, clickhouse, store, key, seen[key]) for key in doubtful}
    else:
        make = dict.fromkeys(doubtful, _lost if verdict == "lost" else _expired)
    return Change(doubtful, (*says, "a job that runs on this sink is fenced: it stops with CHS-801"), make)


def _in_doubt(store: StateStore, sink: str, topic: str, partitions: Collection[int], table: str | None) -> Doubtful:
    doubtful = {k: r for k, r in find(store, sink, topic, partitions, table).items() if r.phase is Phase.BEFORE}
    settled = sorted(set(partitions) - {k.partition for k in doubtful})
    if settled or not doubtful:
        raise halts.NOTHING_IN_DOUBT(tp=", ".join(str(TopicPartition(topic, p)) for p in settled) or topic)
    tables = sorted({k.table for k in doubtful})
    if len(tables) > 1:
        raise halts.SEVERAL_IN_DOUBT(tp=_names(doubtful), tables=", ".join(tables))
    return doubtful


def _count_all(
    clickhouse: Cluster, store: StateStore, doubtful: Doubtful, say: Say
) -> Iterator[tuple[StateKey, LandedRows]]:
    for number, (key, record) in enumerate(doubtful.items(), 1):
        say(f"counting rows: {key.topic_partition} {record.range} ({number} of {len(doubtful)})")
        yield key, count_landed_rows(clickhouse, store, key, record)


def _says(
    verdict: Verdict, key: StateKey, record: StateRecord, seen: LandedRows, starts: Mapping[TopicPartition, int]
) -> str:
    name = f"{key.topic_partition} {record.range}"
    match verdict:
        case "landed":
            said = f"will be recorded as landed: nothing of it is sent again; {seen.sentence}"
            return f"{name} {said}; {seen.lacking(record.range)}"
        case "lost":
            said = f"will be recorded as a gap: its missing rows are never sent; {seen.sentence}"
            return f"{name} {said}; {seen.lacking(record.range)}"
        case "expired":
            gone = record.range.overlap(OffsetRange(0, starts[key.topic_partition]))
            said = f"{gone} becomes a gap: {seen.lacking(gone)}" if gone.length else "no part of it becomes a gap now"
            return f"{name}: the part that Kafka no longer holds becomes a gap; {said}; the next start lands the rest"
        case "resend":
            return f"{name} will be sent again by the next start, under new tokens; {seen.sentence}"


def _with_other_letters(doubtful: Doubtful, present: str) -> Doubtful:
    """The ranges whose dead letters were to go to another place than those of the next start."""
    return {
        k: r
        for k, r in doubtful.items()
        if has_dead_letters(r.sent.pipeline) and DEAD_LETTERS in changed_parts(r.sent.pipeline, present)
    }


def _says_again(clickhouse: Cluster, views: Sequence[str], moved: Doubtful) -> Iterator[str]:
    """What else receives a range again: dependent views, a topic of dead letters, from which nobody can delete, and
    another place of dead letters than the one that may hold those of the ranges ``moved``.
    """
    if moved:
        yield OTHER_PLACE.format(_ranges(moved))
    if views:
        yield f"these dependent views receive the rows again; delete what they hold of them first: {', '.join(views)}"
    topic = clickhouse.config.dead_letters.topic
    if topic is not None and clickhouse.config.keeps_dead_letters:
        yield f"dead letters of these ranges are delivered again to topic {topic}"


def _landed(  # noqa: PLR0917 - what was seen in the table, and what a Make takes
    clickhouse: Cluster,
    store: StateStore,
    key: StateKey,
    seen: LandedRows,
    record: StateRecord,
    epoch: int,
    attempt: str,
) -> StateRecord:
    """A person has looked: what was counted then must be there now, and nothing may be on its way."""
    wait_for_inserts(clickhouse, store, key, record, where_possible=True)
    if seen.rows is not None:
        now = count_landed_rows(clickhouse, store, key, record)
        if now.rows is not None and seen.count != now.count:
            where = {"tp": key.topic_partition, "range": record.range, "table": key.table}
            raise halts.ROWS_CHANGED(**where, before=seen.count, now=now.count)
    return writes.after(record, epoch=epoch, attempt=attempt)


def _lost(record: StateRecord, epoch: int, attempt: str) -> StateRecord:
    return writes.lost(record, epoch=epoch, attempt=attempt)


def _expired(record: StateRecord, epoch: int, attempt: str) -> StateRecord:
    return writes.expired(record, epoch=epoch, attempt=attempt)


def _resend(  # noqa: PLR0917 - the last three are given by who carries it out
    clickhouse: Cluster,
    store: StateStore,
    kafka: KafkaAdmin,
    key: StateKey,
    pipeline: str,
    chunks: int,
    record: StateRecord,
    epoch: int,
    attempt: str,
) -> StateRecord:
    wait_for_inserts(clickhouse, store, key, record)  # after the claim: from now on no older driver begins one
    one, ids = {key: record}, kafka.topic_ids([key.topic])  # before its log is asked: it may be recreated
    refused = list(_unreadable(kafka, one))
    refused = refused or _rows_refused(clickhouse, one, {key: count_landed_rows(clickhouse, store, key, record)})
    raise_all(refused)
    window = clickhouse.window()
    with asking_target():
        marks = window.marks([key.table])[key.table]
        if not pipeline:  # whoever names it adds the mark of the dead letters
            marks = marks[: len(window.shards(key.table, None))]
    chunk_offsets = clickhouse.config.clickhouse.chunk_offsets
    said = writes.Announcement(
        ids[key.topic],
        Sending(chunk_offsets, clickhouse.layout(clickhouse.routes[key.topic_table]).fingerprint(), pipeline),
        Seen(clickhouse.clock.now_ms(), marks),
    )
    return writes.resend(record, said, most=chunks * chunk_offsets, epoch=epoch, attempt=attempt)


def _named(clickhouse: Cluster, key: StateKey, present: str) -> str:
    """Nothing of the range is there, and its tokens will be new: the next start may send it by any pipeline, so none
    is named.  But tables that share a topic-partition are compared by theirs.
    """
    return present if clickhouse.routes[key.topic_table].choice else ""


def _most(clickhouse: Cluster, table: str) -> int:
    """How many chunks may be announced again: the chunk size may be smaller now, and the table remembers so many.

    Where it remembers nothing, its window must be raised before the next start, but not before this command: of the
    range as it is recorded, chsink would rely on tokens that are forgotten.
    """
    window = clickhouse.window()
    with asking_target():
        forgets = any(place.table.window_blocks == 0 for place in window.places(table, None))
        return 1 if forgets else window.limit(table).chunks


# --- what must not be done -------------------------------------------------------------------------------------------


def _check_resend(
    clickhouse: Cluster,
    kafka: KafkaAdmin,
    doubtful: Doubtful,
    seen: Mapping[StateKey, LandedRows],
    pipeline: Callable[[TopicTable], str],
    *,
    senders_gone: bool,
) -> None:
    """A range may be resent only if it can be read, no other process can still send it, and none of it is there."""
    refused = [
        halts.RESEND_NOT_ROUTED(tp=k.topic_partition, table=k.table) for k in doubtful if not clickhouse.is_routed(k)
    ]
    refused = refused or [
        halts.RESEND_OTHER_RECORDS(tp=k.topic_partition, range=r.range, table=k.table)
        for k, r in doubtful.items()
        if (TABLE_BY in r.sent.pipeline or clickhouse.routes[k.topic_table].choice)
        and TABLE_BY in changed_parts(r.sent.pipeline, pipeline(k.topic_table))
    ]
    refused = refused or list(_unreadable(kafka, doubtful))
    refused = refused or [
        halts.RESEND_LETTERS_UNKNOWN(tp=k.topic_partition, range=r.range)
        for k, r in doubtful.items()
        if has_dead_letters(r.sent.pipeline) and not clickhouse.config.keeps_dead_letters
    ]
    raise_all(refused)
    if not senders_gone:
        raise halts.SENDERS_MAY_LIVE(ranges=_ranges(doubtful))
    # last: nobody is to delete rows of what cannot be sent again, or of what is still being sent
    raise_all(_rows_refused(clickhouse, doubtful, seen))


def _unreadable(kafka: KafkaAdmin, doubtful: Doubtful) -> Iterator[ChsinkError]:
    tps = [k.topic_partition for k in doubtful]
    ids = kafka.topic_ids({tp.topic for tp in tps})
    starts, ends = kafka.log_starts(tps), kafka.log_ends(tps)
    for key, record in doubtful.items():
        tp = key.topic_partition
        if record.life.topic_id is not None and ids[key.topic] is None:
            detail = f"recorded topic id {record.life.topic_id}, now None"
            yield halts.TOPIC_ID_KNOWN_UNKNOWN(tp=tp, detail=detail)
        elif not record.may_belong_to(ids[key.topic]) or starts[tp] > record.start or ends[tp] < record.end:
            yield halts.RESEND_NOT_READABLE(
                tp=tp, range=record.range, topic_id=ids[key.topic], start=starts[tp], end=ends[tp]
            )


def _rows_refused(clickhouse: Cluster, doubtful: Doubtful, seen: Mapping[StateKey, LandedRows]) -> list[ChsinkError]:
    """The errors for ranges that must not be sent again, because the table holds rows of them."""
    refused: list[ChsinkError] = []
    for key, record in doubtful.items():
        if seen[key].trouble is not None:
            error = halts.RESEND_NOT_COUNTED(tp=key.topic_partition, range=record.range, reason=seen[key].sentence)
            error.__cause__ = seen[key].trouble
            refused.append(error)
    there = {k: r for k, r in doubtful.items() if seen[k].rows}
    own = {k: r for k, r in there.items() if r.start >= r.life.older_end}
    for entry, keys in ((halts.RESEND_WOULD_DOUBLE, own), (halts.RESEND_MAY_DOUBLE, there.keys() - own.keys())):
        those = {k: r for k, r in there.items() if k in keys}
        if those:
            rows = sum(seen[k].rows or 0 for k in those)
            views = sorted({view for k in those for view in seen[k].views})
            delete = delete_rows(clickhouse, those) + also_from(views)
            urls = {url for k in those for url in seen[k].urls}
            table, moved = next(iter(those)).table, urls - {client.url for client in clickhouse.clients}
            where = f"on each of {', '.join(sorted(urls))}" if moved else "on each shard"
            refused.append(entry(table=table, rows=rows, ranges=_ranges(those), where=where, delete=delete))
    return [*refused, *_letters_refused(clickhouse, doubtful, seen)]


def _letters_refused(
    clickhouse: Cluster, doubtful: Doubtful, seen: Mapping[StateKey, LandedRows]
) -> Iterator[ChsinkError]:
    """The errors for ranges that have dead letters already: under new tokens, these would be there twice."""
    kept = clickhouse.letters
    those = {k: r for k, r in doubtful.items() if seen[k].letters}
    if kept is not None and those:
        table = kept.table.canonical
        yield halts.RESEND_LETTERS_DOUBLE(
            table=table,
            letters=sum(seen[k].letters for k in those),
            ranges=_ranges(those),
            url=kept.url,
            delete=delete_letters(kept.table, those),
        )


def _check_same_topic(kafka: KafkaAdmin, doubtful: Doubtful) -> None:
    """Kafka holds nothing of a range whose topic was deleted: the next start would halt again."""
    ids = kafka.topic_ids({k.topic for k in doubtful})
    other = {k: r for k, r in doubtful.items() if r.is_of_another(ids[k.topic])}
    if other:
        raise halts.EXPIRED_NOT_HELD(ranges=_ranges(other))


def _ranges(doubtful: Doubtful) -> str:
    return ", ".join(f"{k.topic_partition} {r.range}" for k, r in doubtful.items())


def _names(doubtful: Sequence[StateKey] | Doubtful) -> str:
    return ", ".join(sorted({str(k.topic_partition) for k in doubtful}))
