"""``chsink verify``: do the tables hold what Kafka holds?"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, print_json, print_table
from chsink.config import Config
from chsink.errors.counts import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from chsink.statemachine.ranges import TopicPartition
    from chsink.verify.report import PartitionReport, Report, TableReport
    from chsink.verify.route import Selection

WORDS = {
    "missing": "missing: a record without its row",
    "duplicated": "duplicated: several rows of one record",
    "different": "different: the row differs from its record",
    "wrong_shard": "wrong_shard: the current layout puts the row on another shard",
    "unexpected": "unexpected: a row without a matching record",
    "letter_missing": "letter_missing: a record that does not fit has neither row nor dead letter",
    "letter_duplicated": "letter_duplicated: several dead letters of one record",
    "letter_different": "letter_different: the dead letter differs from its record",
    "unproven": "unproven: cannot be judged for this table or topic (see the notes)",
    "older": "older: further rows, perhaps from an earlier incarnation",
    "before_column": "before_column: the row landed before a column of --added, and has its default there",
}

AnyShardOption = Annotated[
    bool, typer.Option("--any-shard", help="Accept a row on any shard, for instance after the layout changed.")
]
AddedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--added",
        help="A column that was added after rows had landed: they may have its default. Repeat for several.",
        metavar="COLUMN",
    ),
]


def verify(  # noqa: PLR0917 - options of a command
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.", metavar="TOPIC")] = None,
    partition: Annotated[
        int | None, typer.Option(help="Only this partition. Needs --topic.", metavar="N", min=0)
    ] = None,
    start: Annotated[
        int | None, typer.Option("--from", help="Only offsets from this one on. Needs --partition.", metavar="N", min=0)
    ] = None,
    end: Annotated[
        int | None, typer.Option("--to", help="Only offsets before this one. Needs --partition.", metavar="N", min=0)
    ] = None,
    any_shard: AnyShardOption = False,
    added: AddedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the tables with Kafka, record by record.

    Each record must have its row once, with its values, on its shard. Changes nothing, and may run beside the job.

    \b
    chsink verify -c job.toml
    chsink verify -c job.toml --topic flights --partition 3 --from 120000 --to 130000
    chsink verify -c job.toml --json | jq '.partitions[] | select(.missing.offsets > 0)'

    \b
    It reports offsets that are
      missing       the record has no row
      duplicated    the record has several rows
      different     the row has other values than the record; the columns are named
      wrong_shard   the row is not on the shard that the current layout names
      unexpected    a row has no record, or one that does not fit the table
      letter_…      the same for dead letters: letter_missing, letter_duplicated, letter_different

    It judges only offsets that are recorded as landed, and lists the others. Records that do not fit have no row, as in
    the job. If the shard layout changed, add --any-shard: older rows are on their old shards. If a column was added
    after rows had landed, add --added COLUMN: they may have its default. `chsink status` shows the last result.

    Exit codes: 0 no difference, 1 a difference was found, 2 a table cannot be verified, 5 a service did not answer.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    _check_together(topic, partition, start, end)
    from chsink.verify.route import Selection

    selection = Selection(topic, partition, start, end, any_shard=any_shard, added=tuple(added or ()))
    report = read_report(loaded := load_config(config, assignments), selection)
    print_json(report.as_dict()) if as_json else _print(report)
    _keep(loaded, report, selection)
    if not report.ok:
        raise typer.Exit(1)


def _keep(config: Config, report: Report, selection: Selection) -> None:
    """Keep the result for ``chsink status`` and the page."""
    from chsink.status.last_verify import LastVerify
    from chsink.verify.report import DEFECTS

    if config.verify_result is None:
        return
    options = {"--topic": selection.topic, "--partition": selection.partition}
    options |= {"--from": selection.start, "--to": selection.end}
    options |= {"--added": " --added ".join(selection.added) or None}
    part = " ".join(f"{name} {value}" for name, value in options.items() if value is not None)
    found, at = report.as_dict(), datetime.now(UTC).isoformat(timespec="seconds")
    differences = {name: found[name] for name in DEFECTS if found[name]}
    counts = (found["offsets"], found["records"], found["rows"])
    try:
        LastVerify(report.sink, at, report.ok, part, *counts, differences).keep(config.verify_result)
    except OSError as error:
        typer.echo(f"warning: the result was not kept in {config.verify_result}: {error.strerror}", err=True)


def _check_together(topic: str | None, partition: int | None, start: int | None, end: int | None) -> None:
    """Offsets are of one partition, and a partition is of one topic."""
    if partition is not None and topic is None:
        raise typer.BadParameter("--partition needs --topic")
    if (start is not None or end is not None) and partition is None:
        raise typer.BadParameter("--from and --to need --partition")
    if start is not None and end is not None and start >= end:
        raise typer.BadParameter("--to must be greater than --from")


def read_report(config: Config, selection: Selection) -> Report:
    """Compare what is selected; draws a progress bar on a terminal."""
    from chsink.connect import connected
    from chsink.observe.logs import configure
    from chsink.verify.routes import plan

    configure(config.observe.log_format, "error")
    with connected(config) as services:
        audit = plan(services.clickhouse, services.store, services.kafka, selection)
        with _progress(audit.offsets) as progress:
            return audit.run(progress)


@contextmanager
def _progress(offsets: int) -> Iterator[Callable[[TopicPartition, int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _tp, _offsets: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying", total=offsets)
        yield lambda tp, done: bar.update(task, advance=done, description=f"verifying {tp}")


def _print(report: Report) -> None:
    columns = ("topic", "partition", "table", "offsets", "records", "rows", "result")
    whole = {table.table for table in report.tables}
    print_table(columns, [_row(p, whole=p.table in whole) for p in report.partitions])
    several = Counter(topic for topic, _ in {(p.topic_partition.topic, p.table) for p in report.partitions})
    for partition in report.partitions:
        tp = partition.topic_partition
        place = f"{tp} of {partition.table}" if several[tp.topic] > 1 else str(tp)
        for line in _lines(partition):
            typer.echo(f"{place}: {line}")
    for table in report.tables:
        typer.echo(f"{table.table}: {_whole(table)}")
    for note in report.notes:
        typer.echo(f"note: {note}")
    judged = sum(r.length for p in report.partitions for r in p.judged)
    verdict = "no difference" if report.ok else "differences found"
    said = f"{counted(judged, 'offsets')} judged, {verdict}"
    if report.ok and not judged:
        said = "nothing has landed yet to be judged"
    typer.echo(f"sink {report.sink}: {said}")


def _whole(table: TableReport) -> str:
    """What was found of a table that was compared as a whole."""
    words = [counted(table.rows, "rows")]
    if table.unexpected:
        words.append(f"{table.unexpected:,} unexpected: they match no record, or are there too often")
    if table.unproven:
        words.append(f"{table.unproven:,} unproven: Kafka no longer shows whether they match records")
    if table.more:
        words.append("more rows differ, but were not compared one by one")
    return "; ".join(words)


def _row(partition: PartitionReport, *, whole: bool) -> list[str]:
    """A topic-partition's line of the table; without a row count if only the whole table's is known."""
    judged = sum(r.length for r in partition.judged)
    result = ", ".join(f"{f.offsets:,} {name}" for name, f in partition.defects.items())
    tp = partition.topic_partition
    rows = "-" if whole else f"{partition.rows:,}"
    counts = [f"{judged:,}", f"{partition.records:,}", rows]
    return [tp.topic, str(tp.partition), partition.table, *counts, result or ("ok" if judged else "not judged")]


def _lines(partition: PartitionReport) -> Iterator[str]:
    """What was found of one topic-partition, and what was not judged."""
    for name, words in WORDS.items():
        folded = getattr(partition, name)
        if folded.offsets:
            yield f"{words}; {folded}"
    for column, first in partition.filled_from.items():
        filled = "no row has another value in it" if first is None else f"rows have other values from offset {first} on"
        yield f"column {column}: {filled}"
    if partition.different_columns:
        named = ", ".join(f"{name} ({count:,})" for name, count in partition.different_columns.most_common())
        some = (
            f" (of the first {counted(partition.named_rows, 'rows')})"
            if partition.different.offsets > partition.named_rows
            else ""
        )
        yield f"columns that differ{some}: {named}"
    if partition.without_row:
        yield (
            f"records without a row, because they do not fit the table or are skipped: {partition.without_row:,}; "
            f"dead letters: {partition.dead_letters:,}"
        )
    for left_out in partition.unjudged:
        yield f"not judged {left_out.range}: {left_out.why}"
