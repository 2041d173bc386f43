"""``chsink status``: what is recorded, and how far behind Kafka it is."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, print_json, print_table
from chsink.config import Config

if TYPE_CHECKING:
    from chsink.connect import Services
    from statemachine.ranges import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One topic-partition.  ``age_s``: since BEFORE was written; ``lag`` counts offsets, None when unknown."""

    topic: str
    partition: int
    table: str
    phase: str
    start: int
    end: int
    age_s: float | None
    lag: int | None
    epoch: int
    incarnation: int


def status(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the recorded state per topic-partition: range, phase, age and lag.  Changes nothing.

    \b
    chsink status -c job.toml
    chsink status -c job.toml --json | jq '.partitions[] | select(.phase == "BEFORE")'

    A partition at BEFORE is in doubt: a running job confirms it, a stopped job settles it at its next start.
    The lag is left out where Kafka does not answer, and of partitions that it does not have any more.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    found = read_status(load_config(config, assignments))
    if found["lag_unknown"]:
        typer.echo(f"warning: the lag is not known: {found['lag_unknown']}", err=True)
    if as_json:
        print_json(found)
        return
    owner = found["owner"]
    typer.echo(
        f"sink {found['sink']}: "
        + (f"owned by {owner['driver']}, epoch {owner['epoch']}, since {owner['since']}" if owner else "never claimed")
    )
    rows = [[str(v) if v is not None else "-" for v in p.values()] for p in found["partitions"]]
    print_table(list(PartitionStatus.__dataclass_fields__), rows)


def read_status(config: Config) -> dict[str, Any]:
    """The status as one JSON object; ``lag_unknown`` says why there is no lag, None where there is."""
    from chsink.batch.ledger import read_owner, read_records
    from chsink.connect import connected
    from chsink.observe.logs import configure

    configure(config.observe.log_format, "error")
    with connected(config) as services:
        owner = read_owner(services.store, config.sink.name)
        records = read_records(services.store, config.sink.name)
        ends, lag_unknown = _log_ends(services, {k.topic_partition for k in records})
    now = time.time()
    partitions = [
        PartitionStatus(
            key.topic,
            key.partition,
            key.table,
            str(record.phase),
            record.start,
            record.end,
            round(now - record.before_at / 1000, 1) if record.before_at else None,
            max(0, ends[key.topic_partition] - record.end) if key.topic_partition in ends else None,
            record.epoch,
            record.incarnation,
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
        "lag": None if lag_unknown else sum(p.lag or 0 for p in partitions),
        "lag_unknown": lag_unknown,
    }


def _log_ends(services: Services, recorded: Collection[TopicPartition]) -> tuple[dict[TopicPartition, int], str | None]:
    """Log ends of those partitions that Kafka still has; why none is known, where Kafka does not answer."""
    from chsink.errors import PreflightError, UnavailableError

    existing: set[TopicPartition] = set()
    try:
        for topic in sorted({tp.topic for tp in recorded}):
            with suppress(PreflightError):  # a topic that was deleted
                existing.update(services.kafka.partitions([topic]))
        return services.kafka.log_ends(existing.intersection(recorded)), None
    except UnavailableError as error:
        return {}, error.message
