"""``chsink mirror backfill``: fills tables with the records that came before them."""

from __future__ import annotations

from typing import Annotated

import typer

from chsink.cli.mirror import check_named, opened_mirror, quiet
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption
from chsink.cli.output import JsonOption, print_json, print_table
from chsink.config import Config

COLUMNS = ("table", "topic", "partition", "reads", "offsets", "asked_before")


def backfill(
    tables: Annotated[list[str], typer.Argument(help="Iceberg tables of [[mirror.route]].", metavar="TABLE")],
    apply: Annotated[bool, typer.Option("--apply", help="Ask the mirror to read what is listed.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the records from before a table was added; with --apply, let the mirror land them.

    Use it for tables that were added to a topic later and began with its next records (mirror.added_tables, table_by,
    or mirror resolve --skip).

    \b
    chsink mirror backfill shop.refunds            list what would be read
    chsink mirror backfill shop.refunds --apply    let the mirror read it

    The request is stored in the table. A running mirror begins to read within mirror.interval_s, a stopped one after
    its next start. It reads a million offsets of a partition at a time, beside its other work. With trigger.mode =
    "available_now", it ends once all are read. You may stop the mirror at any time. No record lands twice. What Kafka
    deletes before it is read is left out.

    \b
    reads         the offsets that Kafka holds and that come before the table's first one; the end is exclusive
    asked_before  down to which offset an earlier command asked for records

    A table that holds rows before its first offset is refused (CHS-355). Only the columns _kafka_partition and
    _kafka_offset show such rows. A table without them that no longer says which records it holds gets nothing.

    With table_by, the table gets all records that the map gives it now. If the map has changed since they landed
    elsewhere, a record may then be in two tables.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = quiet(config, assignments)
    check_named(tables, loaded)
    found = _asked(loaded, tables, apply=apply)
    if as_json:
        print_json({"applied": apply, "backfills": found})
        return
    if not found:
        typer.echo(
            "nothing to read: Kafka holds no records from before these tables were added; "
            "the mirror adds a table when it starts"
        )
        return
    print_table(COLUMNS, [["-" if one[c] is None else str(one[c]) for c in COLUMNS] for one in found])
    if apply:
        typer.echo(f"the mirror begins to read this within {loaded.mirror.interval_s:g} s, or after its next start")
    else:
        typer.echo("nothing was changed: add --apply to let the mirror read this")


def _asked(config: Config, tables: list[str], *, apply: bool) -> list[dict[str, object]]:
    """What the tables lack, and the request for it."""
    from chsink.mirror.backfill import ask, survey
    from chsink.mirror.failures import in_words

    opened = opened_mirror(config, tables)
    with in_words(opened.names):
        found = survey(opened, tables)
        if apply:
            ask(opened, found)
    return [one.as_dict() for one in found]
