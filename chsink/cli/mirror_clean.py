"""``chsink mirror clean``: removes files and snapshots that nobody needs."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from chsink.cli.mirror import check_named, each_table, opened_mirror, quiet
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption
from chsink.cli.output import JsonOption, print_json, print_table
from chsink.config import Config
from chsink.errors import ChsinkError
from chsink.errors.several import raise_all

if TYPE_CHECKING:
    from chsink.mirror.clean import TableClean

LEAST = timedelta(days=1)
"""A file may be that old before its range is handed over: a task writes files until its range ends."""
UNITS = {"d": "days", "h": "hours"}
COLUMNS = ("table", "orphans", "bytes", "snapshots", "metadata_files", "data_files", "small_files")


def _age(text: str) -> timedelta:
    """An age such as ``3d``, at least ``LEAST``."""
    said = re.fullmatch(r"(\d{1,5})([dh])", text)
    age = timedelta(**{UNITS[said[2]]: int(said[1])}) if said else timedelta()
    if age < LEAST:
        raise typer.BadParameter("give an age of at least one day, such as 3d or 36h", param_hint="--older-than")
    return age


def clean(  # noqa: PLR0917 - arguments and options of a command
    tables: Annotated[
        list[str] | None, typer.Argument(help="Iceberg tables of [[mirror.route]]; by default all.", metavar="TABLE")
    ] = None,
    older_than: Annotated[str, typer.Option(help="Keep files younger than this: 3d, 36h.", metavar="AGE")] = "3d",
    expire_snapshots: Annotated[
        bool, typer.Option("--expire-snapshots", help="Expire old snapshots, and remove files that only they need.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Remove the files. Without this, they are only listed.")
    ] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the data files that belong to no snapshot of the Iceberg tables; with --apply, remove them.

    \b
    chsink mirror clean                                     list what would be removed
    chsink mirror clean --apply                             remove it
    chsink mirror clean shop.orders --expire-snapshots      list it for one table, with its old snapshots

    Failed tasks leave such files behind. The mirror may run meanwhile. This command never removes files that wait for a
    commit, files younger than --older-than (at least one day), or files outside the table's location.

    --expire-snapshots follows the table: history.expire.max-snapshot-age-ms (5 days),
    history.expire.min-snapshots-to-keep (1), and the limits of its branches. Snapshots of branches and tags stay, and
    so does the mirror's newest snapshot.

    small_files counts data files smaller than three quarters of write.target-file-size-bytes. This command does not
    compact them. Spark does, and the mirror may run meanwhile: CALL CATALOG.system.rewrite_data_files('TABLE').
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    age = _age(older_than)
    loaded = quiet(config, assignments)
    check_named(tables or (), loaded)
    done, failed = _cleaned(loaded, tables or [], age, expire=expire_snapshots, apply=apply)
    if as_json and (done or not failed):
        print_json({"applied": apply, "tables": [table.as_dict() for table in done]})
    elif done:
        _print(done, applied=apply)
    raise_all(failed)


def _cleaned(
    config: Config, tables: list[str], age: timedelta, *, expire: bool, apply: bool
) -> tuple[list[TableClean], list[ChsinkError]]:
    """Of these tables, or of all.  A table that fails does not keep the others from being cleaned."""
    from chsink.clock import SystemClock
    from chsink.mirror.clean import Cleaner

    opened = opened_mirror(config, tables)
    cleaner = Cleaner(opened.names, opened.targets, SystemClock().now_ms(), age, expire=expire)
    return each_table(opened, tables, cleaner.carry_out if apply else cleaner.plan)


def _print(done: list[TableClean], *, applied: bool) -> None:
    for table in done:
        for file in table.orphans:
            typer.echo(file.location)
    print_table(COLUMNS, [[str(cell) for cell in table.figures()] for table in done])
    if not applied and any(table.orphans or table.snapshots for table in done):
        typer.echo("nothing was removed: add --apply to remove this")
