"""``chsink status``: what is recorded, and how far behind Kafka it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from chsink.as_typed import as_typed
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, print_json, print_owner, print_table
from chsink.errors.counts import counted
from chsink.status.model import PartitionStatus, SinkStatus

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
    """Show state, lag and skipped records per topic-partition. Changes nothing.

    \b
    chsink status -c job.toml
    chsink status -c job.toml --watch
    chsink status -c job.toml --json | jq '.partitions[] | select(.phase == "BEFORE")'

    `start` and `end` bound the last recorded range; `age_s` counts the seconds since it was announced.
    A partition at BEFORE is in doubt: a running job confirms it, a stopped job settles it at its next start.
    The lag counts from the end of that range, even if it is in doubt; for a partition that has never landed a record or
    whose topic was recreated, it is all that Kafka holds. It is unknown ("-") if Kafka does not answer or no longer has
    the partition, and before a first start at "latest". `lag_s` is the age of the oldest of these records, in seconds.
    `skipped` counts the records that were left out because they did not fit their table (errors.on_bad_value,
    errors.on_tombstone), `dead_letters` those that were kept as dead letters. Both count since the topic was first
    read, or last reset, recovered or recreated.
    Below the table, it lists the fields that have no column, and how many of the sampled records (the first 1,000 of
    each chunk) have each of them. These counts start again when the table's columns or the job's settings change.
    It names a replay of dead letters that is in doubt, and says what `chsink verify` found last, and when.
    If the state and Kafka show that the next start or batch will halt, that halt is printed with its fix.

    --watch shows, for each topic and table, how many offsets land per second, how many are produced to Kafka per
    second, and how long it takes at this pace until the lag is gone. If the output is not a terminal, it prints one
    line for each table; with --json, one JSON object per line.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = load_config(config, assignments)
    from chsink.status.reader import read_status

    if watching:
        from chsink.cli.watch import watch

        watch(lambda: read_status(loaded), every, as_json=as_json)
        return
    found = read_status(loaded)
    if found.lag_unknown:
        typer.echo(f"warning: the lag is not known: {found.lag_unknown}", err=True)
    if as_json:
        print_json(found.as_dict())
        return
    print_owner(f"sink {found.sink}", found.owner)
    print_table(SHOWN, [[_cell(getattr(p, name)) for name in SHOWN] for p in found.partitions])
    _print_lines(found)


def _print_lines(found: SinkStatus) -> None:
    """What the table has no column for."""
    for line in _unknown_lines(found.partitions):
        typer.echo(line)
    for one in found.replays:
        what = f"{counted(one.dead_letters, 'dead letters')} of {one.topic}-{one.partition} into {one.table}"
        typer.echo(f"a replay of {what} is in doubt: if none is running, {as_typed('`chsink dlq replay`')} settles it")
    if found.verified is not None:
        typer.echo(f"last verified {found.verified.sentence}")
    for halt in found.halts:
        typer.echo(f"will halt: {halt.id} {halt.message}\n  fix: {as_typed(halt.fix)}", err=True)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _unknown_lines(partitions: Iterable[PartitionStatus]) -> Iterator[str]:
    """One line for each topic and table whose records have fields without a column, the most frequent field first."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for partition in partitions:
        counts.setdefault((partition.topic, partition.table), Counter()).update(partition.unknown_fields)
    for (topic, table), found in counts.items():
        if found:
            fields = ", ".join(f"{_shown(name)} ({count})" for name, count in found.most_common())
            yield f"fields of topic {topic!r} without a column in {table}: {fields}"


def _shown(name: str) -> str:
    """A field's name, safe to print: it may contain control characters of a terminal."""
    return name if name and name.isprintable() else ascii(name)
