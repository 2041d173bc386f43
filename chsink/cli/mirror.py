"""``chsink mirror``: the Iceberg mirror alone, and what it holds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from chsink.as_typed import as_typed
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config, log_format
from chsink.cli.output import (
    JsonOption,
    YesOption,
    check_answerable,
    command_group,
    confirm,
    print_json,
    print_owner,
    print_table,
    report_to_log,
)
from chsink.cli.run import ErrorJsonOption, JarsOption, run_on_spark
from chsink.config import Config
from chsink.errors import ChsinkError

if TYPE_CHECKING:
    from chsink.mirror.opening import OpenMirror

Done = TypeVar("Done")

mirror = command_group("mirror", help="Run the Iceberg mirror alone, show it, resolve halts, or clean up tables.")

QUESTIONS = {
    "reread": "Let the mirror read again what these tables lack?",
    "skip": "Let the mirror continue without what these tables lack?",
}
"""By choice: what a person confirms."""


@mirror.command()
def run(
    context: typer.Context,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    jars: JarsOption = "auto",
    as_json: ErrorJsonOption = False,  # noqa: ARG001 - read by the error handler
) -> None:
    """Run the mirror without ClickHouse, until stopped.

    It writes every record of its topics to its Iceberg tables exactly once.

    \b
    chsink mirror run -c job.toml
    chsink mirror run -c job.toml --set trigger.mode=available_now     mirror what the topics hold, then end

    Needs mirror.enabled = true. With it, `chsink run` also runs the mirror, beside ClickHouse.

    You may kill and restart it at any time. SIGTERM or Ctrl-C stops it after the current batch and a last commit. If
    another driver starts the same mirror, this one stops with exit code 4.

    Exit codes: as for `chsink run`.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    report_to_log(context, log_format(config, assignments))
    checked = load_config(config, assignments)
    checked.required_mirror()
    checked.mirror_checkpoint()
    run_on_spark(checked, config, jars, both=False)


COLUMNS = (
    "table", "snapshot", "last_commit", "valid_through", "pending", "pending_units", "lag", "lag_s",
    "skipped", "snapshots", "files", "bytes",
)  # fmt: skip


@mirror.command()
def status(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show each Iceberg table's last snapshot, pending files, lag and size. Changes nothing.

    \b
    chsink mirror status -c job.toml
    chsink mirror status -c job.toml --json | jq '.tables[] | {table, lag, lag_s}'

    It reads Kafka and the catalog, so it also works while no mirror runs.

    \b
    snapshot       the newest snapshot that the mirror committed
    valid_through  all records up to this time are in the table; "-" if that is not known
    pending        offsets whose files wait for a commit; pending_units: reports of such files
    lag            offsets that Kafka holds and the table does not; lag_s: the age of the oldest such record, in seconds
    skipped        records without a row: a value did not fit, or the record's value was null; the table keeps the count
    snapshots      how many the table keeps; files, bytes: its data files. Many snapshots slow down commits, many small
                   files slow down reading: see `chsink mirror clean`
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    found = mirror_status(config, assignments)
    if as_json:
        print_json(found)
        return
    print_owner(f"mirror of sink {found['sink']}", found["owner"])
    print_table(COLUMNS, [[str(t[c]) if t[c] is not None else "-" for c in COLUMNS] for t in found["tables"]])
    for table in found["tables"]:
        if table["problem"]:
            typer.echo(f"{table['problem']}\n  fix: {table['fix']}", err=True)


CHANGES = (
    "table", "topic", "partition", "held_until", "continues_at", "because", "read_again", "given_up", "at_most",
    "backfill",
)  # fmt: skip

NEW_CHECKPOINT = (
    "the log of {} is not the one that the mirror has read; set mirror.checkpoint to a new folder before the next start"
)


@mirror.command()
def resolve(  # noqa: PLR0917 - arguments and options of a command
    tables: Annotated[list[str], typer.Argument(help="Iceberg tables of [[mirror.route]].", metavar="TABLE")],
    reread: Annotated[
        bool, typer.Option("--reread", help="Land the records that the table lacks, as far as Kafka still holds them.")
    ] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Continue without the records that the table lacks.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Decide how the mirror continues with a table after a halt.

    Use it for a table that was rolled back, was created again, or is new for its topic; and for a topic that was
    created again, or whose records Kafka deleted before they landed.

    \b
    chsink mirror resolve shop.orders --reread    read again what the table lacks
    chsink mirror resolve shop.orders --skip      continue without it

    Stop the mirror first. A mirror that still runs is fenced.

    --reread continues where the table's own snapshots end. It is refused where they do not show which rows the mirror
    wrote, because records could then land twice. --skip leaves out what was rolled back; in a table that is new for its
    topic, it lands only records that were not read yet. If a table no longer says which records it holds,
    _kafka_partition and _kafka_offset tell where each topic-partition continues; if some topic-partitions have rows,
    those without a row are read from their first record.

    \b
    held_until    the table held the records before this offset; "-" if that is not known
    continues_at  the first offset that lands next; because: why there
    given_up      the range of offsets that Kafka holds, the table may lack, and the mirror will not read;
                  at_most: how many offsets these are
    backfill      the part of given_up that `chsink mirror backfill` can land later

    If a topic was created again or its log has lost records, the next start needs a new folder as mirror.checkpoint;
    the command says so (new_checkpoint in --json).

    If tables share a topic and no longer know its table_by, name them together.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    if reread == skip:
        raise typer.BadParameter("pass either --reread or --skip")
    check_answerable(as_json=as_json, answered=yes)
    loaded = quiet(config, assignments)
    check_named(tables, loaded)
    _carry_out(loaded, tables, "reread" if reread else "skip", yes=yes, as_json=as_json)


def _carry_out(config: Config, tables: list[str], choice: str, *, yes: bool, as_json: bool) -> None:
    """Show what the choice does, ask, and do it."""
    from chsink.mirror.failures import in_words
    from chsink.mirror.resolve import carry_out, decide
    from chsink.statemachine.commit.resolve import TableVerdict

    opened = opened_mirror(config, tables)
    with in_words(opened.names):
        decision = decide(opened.names, opened.targets, tables, opened.kafka, TableVerdict(choice))
        if not as_json:
            shown = [change.as_dict() for change in decision.changes]
            print_table(CHANGES, [["-" if one[c] is None else str(one[c]) for c in CHANGES] for one in shown])
            if decision.moved:
                typer.echo(NEW_CHECKPOINT.format(", ".join(map(str, decision.moved))))
        confirm(QUESTIONS[choice], yes=yes)
        carry_out(opened.names, decision)
    if as_json:
        changes = [change.as_dict() for change in decision.changes]
        print_json({"decided": choice, "changes": changes, "new_checkpoint": bool(decision.moved)})


def check_named(tables: Collection[str], config: Config) -> None:
    """Refuse tables to which no route leads."""
    if unknown := config.mirror.unknown(tables):
        raise typer.BadParameter(
            f"no [[mirror.route]] names {', '.join(unknown)} (if you have taken it out of table_by: undo that change, "
            "run the command, start the mirror once, and repeat the change)"
        )


def opened_mirror(config: Config, tables: Collection[str] = ()) -> OpenMirror:
    """The mirror, connected to Kafka and its catalog.  Refuses tables to which no route leads, matched topics' too."""
    from chsink.kafka.admin import open_admin
    from chsink.mirror.opening import open_mirror

    opened = open_mirror(config, open_admin(config))
    check_named(tables, opened.config)
    return opened


def each_table(
    opened: OpenMirror, tables: Collection[str], work: Callable[[str], Done]
) -> tuple[list[Done], list[ChsinkError]]:
    """What the work gives for these tables, or for all.  One that fails does not keep the others from it."""
    from chsink.mirror.failures import in_words

    done: list[Done] = []
    failed: list[ChsinkError] = []
    for name in tables or opened.targets:
        try:
            with in_words(opened.names):
                done.append(work(name))
        except ChsinkError as error:
            failed.append(error)
    return done, failed


def mirror_status(config: Path, assignments: list[str] | None) -> dict[str, Any]:
    """The status as one JSON object."""
    loaded = quiet(config, assignments)

    from chsink.clock import SystemClock
    from chsink.kafka.admin import open_admin
    from chsink.mirror.status import status_of

    found = status_of(loaded, open_admin(loaded), SystemClock().now_ms()).as_dict()
    for table in found["tables"]:
        table["fix"] = as_typed(table["fix"])
    if found["owner"] is not None:
        since = datetime.fromtimestamp(found["owner"].pop("since_ms") / 1000, UTC)
        found["owner"]["since"] = since.isoformat(timespec="seconds")
    return {"sink": loaded.sink.name, **found}


def quiet(config: Path, assignments: list[str] | None) -> Config:
    """The configuration of a command that prints its answer: it has a mirror, whose packages are installed."""
    from chsink.mirror.package import check_installed
    from chsink.observe.logs import configure

    loaded = load_config(config, assignments)
    loaded.required_mirror()
    check_installed()
    configure(loaded.observe.log_format, "error")
    return loaded
