"""``chsink dlq``: the dead letters that a sink kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import (
    JsonOption,
    YesOption,
    check_answerable,
    command_group,
    confirm,
    print_json,
    print_table,
    progress,
)
from chsink.config import Config
from chsink.errors import job_file

if TYPE_CHECKING:
    from chsink.dlq.kept import KeptLetters
    from chsink.dlq.search import Heard
    from chsink.dlq.where import Where
    from chsink.replay.report import ReplayReport

dlq = command_group("dlq", help="List dead letters, show one, or replay them into their tables.")
COLUMNS = ("topic", "partition", "offset", "table", "column", "error_id", "replayed", "reason")
LEFT = ("topic", "partition", "offset", "table", "column", "why")
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Only dead letters that match. NAME is topic, table, column, error (the id), partition or offset (10, or "
        "10..20 with both ends), since (a date or time in UTC, compared with the record's timestamp), or replayed "
        "(yes or no). Repeat the option to combine conditions: those with different names must all match; of those "
        "with the same name, one must match.",
        metavar="NAME=VALUE",
    ),
]


@dlq.command("list")
def list_letters(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    conditions: WhereOption = None,
    limit: Annotated[int, typer.Option(help="Maximum number of dead letters.", metavar="N", min=1)] = 100,
    as_json: JsonOption = False,
) -> None:
    """List dead letters, without the content of the records.

    For each: where the record is in Kafka, why it has no row, and whether it was replayed.

    \b
    chsink dlq list -c job.toml
    chsink dlq list -c job.toml --where topic=flights --where replayed=no
    chsink dlq list -c job.toml --where column=city --limit 1000 --json | jq -r '.[].reason' | sort | uniq -c
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = load_config(config, assignments)
    wanted = _where(conditions, loaded)
    found = [kept.without_record() for kept in _kept(loaded, wanted, limit + 1)]
    shown = found[:limit]
    progress("")
    if as_json:
        print_json(shown)
    else:
        print_table(COLUMNS, [[_cell(kept[name]) for name in COLUMNS] for kept in shown])
    if len(found) > limit:
        typer.echo(f"These are the first {limit:,}; there are more. Raise --limit to list them.", err=True)


@dlq.command()
def show(
    topic: Annotated[str, typer.Argument(help="The record's topic.", metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(help="Its partition.", metavar="PARTITION", min=0)],
    offset: Annotated[int, typer.Argument(help="Its offset.", metavar="OFFSET", min=0)],
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
) -> None:
    """Print the dead letters of one record as JSON.

    Key, value and headers are included; bytes that are not UTF-8 text are printed as hexadecimal digits.

    \b
    chsink dlq show flights 3 1024 -c job.toml
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = load_config(config, assignments)
    wanted = _where([f"topic={topic}", f"partition={partition}", f"offset={offset}"], loaded)
    found = [kept.document() for kept in _kept(loaded, wanted, MOST_OF_ONE, whole=True)]
    progress("")
    if not found:
        typer.echo(f"there is no dead letter of {topic}-{partition}@{offset}", err=True)
    print_json(found)


@dlq.command()
def replay(  # noqa: PLR0917 - options of a command
    conditions: WhereOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would land. Changes nothing.")] = False,
    landed: Annotated[
        bool, typer.Option("--landed", help="For a replay in doubt (CHS-336): confirm that all rows are in the table.")
    ] = False,
    resend: Annotated[
        bool, typer.Option("--resend", help="For a replay in doubt (CHS-336): confirm that no row is in the table.")
    ] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Land dead letters whose records fit their table today, each once.

    \b
    chsink dlq replay -c job.toml --dry-run
    chsink dlq replay -c job.toml --where column=city
    chsink dlq replay -c job.toml --yes --json

    You can run it while the job runs, kill it and repeat it at any time: no record lands twice. A second replay stops
    the first one. Records that still do not fit stay dead letters, and the report gives the reason for each. A Kafka
    topic of dead letters is read from its start.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    if landed and resend:
        raise typer.BadParameter("pass either --landed or --resend, not both")
    check_answerable(as_json=as_json, answered=yes or dry_run, options="--yes or --dry-run")
    verdict: Literal["landed", "resend"] | None = "landed" if landed else "resend" if resend else None
    from chsink.connect import connected
    from chsink.observe.logs import configure
    from chsink.replay.opening import open_replay

    loaded = load_config(config, assignments)
    wanted = _where(conditions, loaded)
    configure(loaded.observe.log_format, "warning")
    with connected(loaded) as opened:
        replaying = open_replay(opened.clickhouse, opened.store, opened.kafka, _reading())
        if dry_run or not yes:
            report = replaying.survey(wanted)
            _print_report(report, as_json=as_json)
        if dry_run:
            return
        confirm("Land these dead letters?", yes=yes)
        _print_report(replaying.run(wanted, verdict), as_json=as_json)


MOST_OF_ONE = 1_000
"""Dead letters of one record: one for each table and, after a reset, for each time that it was read."""


def _where(conditions: list[str] | None, config: Config) -> Where:
    from chsink.dlq.where import where

    try:
        return where(conditions or [], config.canonical)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _cell(value: object) -> str:
    """A record that is bad as a whole names no column."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value) or "-"


def _print_report(report: ReplayReport, *, as_json: bool) -> None:
    progress("")
    if as_json:
        print_json(report.as_dict())
        return
    if report.named:
        rows = [
            [place.topic, *map(_cell, (place.partition, place.offset, place.table, left.column)), why]
            for left in report.named
            for place in [left.place]
            for why in [f"{left.why}: {left.reason}" if left.reason else str(left.why)]
        ]
        print_table(LEFT, rows)
        if len(report.named) < report.left.total():
            typer.echo(f"The table names the first {len(report.named):,} of {report.left.total():,} that stay.")
    for why, count in report.left.items():
        typer.echo(f"dead letters that stay: {count:,} ({why})")
    if report.in_doubt:
        typer.echo(f"in doubt from an earlier replay: {report.in_doubt:,} (the next replay settles them first)")
    if report.settled:
        typer.echo(f"settled from an earlier replay: {report.settled:,}")
    does = "would land" if report.dry_run else "landed"
    typer.echo(f"sink {report.sink}: dead letters that {does}: {report.landed:,}")


def _kept(config: Config, wanted: Where, limit: int, *, whole: bool = False) -> Iterator[KeptLetters]:
    """The sink's dead letters."""
    if config.dead_letters.topic is not None:
        yield from islice((kept for kept in _of_topic(config) if wanted.holds(kept)), limit)
    elif config.dead_letters_table is not None:
        yield from _of_table(config, wanted, limit, whole=whole)
    else:
        raise job_file.NO_DEAD_LETTERS()


def _of_topic(config: Config) -> Iterator[KeptLetters]:
    from confluent_kafka import KafkaException

    from chsink.dlq.kept import kept_in_topic
    from chsink.dlq.place import LettersTopic
    from chsink.kafka.refusals import unanswered

    kafka, topic = config.kafka, config.dead_letters.topic
    assert topic is not None
    try:
        place = LettersTopic(kafka.client_options(), topic, config.sink.name, kafka.timeout_s)
        yield from kept_in_topic(place, _reading())
    except KafkaException as error:
        raise unanswered(error, kafka.bootstrap) from error


def _reading() -> Heard:
    """How much of a topic was read, on one line where a person is watching."""
    read = 0

    def heard(more: int) -> None:
        nonlocal read
        read += more
        if more:
            progress(f"reading the topic of dead letters: {read:,} records")

    return heard


def _of_table(config: Config, wanted: Where, limit: int, *, whole: bool) -> list[KeptLetters]:
    from chsink.connect import connected
    from chsink.dlq.table import LettersInTable
    from chsink.observe.logs import configure
    from chsink.refusals import asking_target

    configure(config.observe.log_format, "error")
    with connected(config) as opened, asking_target():
        assert config.dead_letters_table is not None, "the caller has looked for it"
        reader = opened.clickhouse.on_first_endpoint(config.dead_letters_table).reader(opened.clock)
        letters = LettersInTable(reader, str(config.dead_letters_table), config.sink.name)
        return letters.listed(wanted, limit, whole=whole)
