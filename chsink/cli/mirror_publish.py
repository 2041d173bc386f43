"""``chsink mirror publish``: shows readers of the main branch what the mirror committed on a branch of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chsink.cli.mirror import check_named, each_table, opened_mirror, quiet
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption
from chsink.cli.output import JsonOption, print_json, print_table
from chsink.config import Config
from chsink.errors import ChsinkError
from chsink.errors.several import raise_all

if TYPE_CHECKING:
    from chsink.mirror.publish import Published

COLUMNS = ("table", "branch", "before", "after", "snapshots")


def publish(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Iceberg tables of [[mirror.route]]; by default all.", metavar="TABLE")
    ] = None,
    snapshot: Annotated[
        int | None,
        typer.Option("--snapshot", help="Publish up to this snapshot. Name one table.", metavar="ID"),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move main to the newest snapshot of mirror.branch, so that readers see it.

    \b
    chsink mirror publish                                             all tables
    chsink mirror publish shop.orders --snapshot 3051729675574597004  up to the snapshot that was audited

    The mirror may keep running: without --snapshot, what it commits before main moves is published, too. Nothing is
    copied.

    main only moves forward: if others committed to it, the command changes nothing and says how to go on. Tables are
    published one after the other; if one fails, the others are still published.

    \b
    before     main's snapshot until now; "-" if it had none
    after      main's snapshot from now on
    snapshots  how many snapshots main gained
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = quiet(config, assignments)
    check_named(tables or (), loaded)
    if loaded.mirror.branch == "main":
        raise typer.BadParameter("mirror.branch is main: readers see each commit at once")
    done, failed = _published(loaded, tables or [], snapshot)
    if as_json and (done or not failed):
        print_json({"tables": [table.as_dict() for table in done]})
    elif done:
        rows = [["-" if cell is None else str(cell) for cell in table.as_dict().values()] for table in done]
        print_table(COLUMNS, rows)
    raise_all(failed)


def _published(config: Config, tables: list[str], snapshot: int | None) -> tuple[list[Published], list[ChsinkError]]:
    from chsink.mirror.publish import publish as publish_table

    opened = opened_mirror(config, tables)
    if snapshot is not None and len(tables or opened.targets) != 1:
        raise typer.BadParameter("name one table", param_hint="--snapshot")
    return each_table(opened, tables, lambda name: publish_table(opened.targets[name].table, snapshot))
