"""``chsink status``: what is recorded, and how far behind Kafka it is."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, print_json, print_owner, print_table
from chsink.config import Config

if TYPE_CHECKING:
    from chsink.connect import Services
    from chsink.statemachine.ranges import TopicPartition
    from chsink.statemachine.records import StateKey, StateRecord

Log = tuple[int, int]
"""First offset and next offset of a partition's log."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One topic-partition.  ``age_s``: since BEFORE was written; ``lag`` counts offsets, None when unknown; ``skipped``
    and ``dead_letters`` count the records of this incarnation without a row, ``unknown_fields`` by name the sampled
    records that have a field without a column.
    """

    topic: str
    partition: int
    table: str
    phase: str
    start: int
    end: int
    age_s: float | None
    lag: int | None
    skipped: int
    dead_letters: int
    epoch: int
    incarnation: int
    unknown_fields: dict[str, int]


SHOWN = tuple(name for name in PartitionStatus.__dataclass_fields__ if name != "unknown_fields")
"""The columns of the table."""


def status(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    watching: Annotated[
        bool, typer.Option("--watch", help="Show each table's lag and speed, and refresh them until interrupted.")
    ] = False,
    every: Annotated[float, typer.Option(help="With --watch: seconds between refreshes.", metavar="S", min=0.1)] = 5,
    as_json: JsonOption = False,
) -> None:
    """Show state, lag and skipped records per topic-partition.  Changes nothing.

    \b
    chsink status -c job.toml
    chsink status -c job.toml --watch
    chsink status -c job.toml --json | jq '.partitions[] | select(.phase == "BEFORE")'

    `start` and `end` bound the last recorded range; `age_s` counts the seconds since it was announced.
    A partition at BEFORE is in doubt: a running job confirms it, a stopped job settles it at its next start.
    The lag of a partition that has never landed a record is everything that Kafka holds of it. The lag is unknown ("-")
    if Kafka does not answer or no longer has the partition, and before a first start at "latest".
    `skipped` counts the records that were left out because they did not fit their table (errors.on_bad_value,
    errors.on_tombstone), `dead_letters` those that were kept as dead letters. Both count since the topic was first
    read, or last reset, recovered or recreated.
    Below the table, it lists the fields that have no column, and how many of the sampled records (the first 1,000 of
    each chunk) have each of them. These counts start again when the table's columns or the job's settings change.

    --watch shows, for each topic and table, how many offsets land per second, how many are produced to Kafka per
    second, and how long it takes at this pace until the lag is gone. If the output is not a terminal, it prints one
    line for each table; with --json, one JSON object per line.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = load_config(config, assignments)
    if watching:
        from chsink.cli.watch import watch

        watch(lambda: read_status(loaded), every, as_json=as_json)
        return
    found = read_status(loaded)
    if found["lag_unknown"]:
        typer.echo(f"warning: the lag is not known: {found['lag_unknown']}", err=True)
    if as_json:
        print_json(found)
        return
    print_owner(f"sink {found['sink']}", found["owner"])
    rows = [[str(p[name]) if p[name] is not None else "-" for name in SHOWN] for p in found["partitions"]]
    print_table(list(SHOWN), rows)
    for line in _unknown_lines(found["partitions"]):
        typer.echo(line)


def _unknown_lines(partitions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each topic and table whose records have fields without a column, the most frequent field first."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for partition in partitions:
        counts.setdefault((partition["topic"], partition["table"]), Counter()).update(partition["unknown_fields"])
    for (topic, table), found in counts.items():
        if found:
            fields = ", ".join(f"{_shown(name)} ({count})" for name, count in found.most_common())
            yield f"fields of topic {topic!r} without a column in {table}: {fields}"


def _shown(name: str) -> str:
    """A field's name, safe to print: it may contain control characters of a terminal."""
    return name if name and name.isprintable() else ascii(name)


def read_status(config: Config) -> dict[str, Any]:
    """The status as one JSON object; ``lag_unknown`` says why there is no lag, None where there is."""
    from chsink.batch.ledger import read_sink
    from chsink.connect import connected
    from chsink.observe.logs import configure

    configure(config.observe.log_format, "error")
    with connected(config) as services:
        owner, records = read_sink(services.store, config.sink.name)
        logs, lag_unknown = _logs(services, {k.topic_partition for k in records})
    now = time.time()
    partitions = [
        PartitionStatus(
            key.topic,
            key.partition,
            key.table,
            str(record.phase),
            record.start,
            record.end,
            round(now - record.seen.before_at / 1000, 1) if record.seen.before_at else None,
            _lag(record, logs.get(key.topic_partition), config.kafka.starting_offsets),
            record.tally.skipped,
            record.tally.dead_letters,
            record.epoch,
            record.life.incarnation,
            dict(record.tally.unknown),
        )
        for key, record in sorted(records.items())
    ]
    since = (
        None if owner is None else datetime.fromtimestamp(owner.claimed_at / 1000, UTC).isoformat(timespec="seconds")
    )
    return {
        "sink": config.sink.name,
        "owner": None if owner is None else {"driver": owner.driver, "epoch": owner.epoch, "since": since},
        "partitions": [asdict(p) for p in partitions],
        "in_doubt": sum(p.phase == "BEFORE" for p in partitions),
        "lag": None if lag_unknown else sum(p.lag or 0 for p in partitions) + _unrecorded(logs, records, config),
        "lag_unknown": lag_unknown,
        "skipped": sum(p.skipped for p in partitions),
        "dead_letters": sum(p.dead_letters for p in partitions),
    }


def _lag(record: StateRecord, log: Log | None, configured: str) -> int | None:
    """Offsets that are to be read; None where Kafka does not say, or where a first start at ``latest`` decides."""
    if log is None:
        return None
    start, end = log
    if record.phase != "EMPTY":
        return max(0, end - record.end)
    return end - start if record.life.late or configured == "earliest" else None


def _unrecorded(logs: Mapping[TopicPartition, Log], records: Collection[StateKey], config: Config) -> int:
    """Offsets of the job's partitions that the sink never saw: all that Kafka holds, unless it starts at ``latest``."""
    recorded = {k.topic_partition for k in records}
    ran = {k.topic for k in records}
    to_read = [tp for tp in logs if tp.topic in ran or config.kafka.starting_offsets == "earliest"]
    return sum(logs[tp][1] - logs[tp][0] for tp in to_read if tp not in recorded)


def _logs(services: Services, recorded: Collection[TopicPartition]) -> tuple[dict[TopicPartition, Log], str | None]:
    """First and next offset of the job's and the recorded partitions that Kafka has; why none is known, if it does not
    answer.
    """
    from chsink.errors import PreflightError, UnavailableError

    existing: set[TopicPartition] = set()
    try:
        services.take_up_topics()
        for topic in sorted({*services.config.topics, *(tp.topic for tp in recorded)}):
            with suppress(PreflightError):  # a topic that was deleted
                existing.update(services.kafka.partitions([topic]))
        starts, ends = services.kafka.log_starts(existing), services.kafka.log_ends(existing)
        return {tp: (starts[tp], ends[tp]) for tp in existing}, None
    except UnavailableError as error:
        return {}, error.message
