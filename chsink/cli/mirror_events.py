"""``chsink mirror events``: what became of each file that was handed over."""

from __future__ import annotations

from typing import Annotated

import typer

from chsink.cli.mirror import check_named, opened_mirror, quiet
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption
from chsink.cli.output import JsonOption, print_json, print_table

COLUMNS = ("time", "table", "topic", "partition", "start", "end", "rows", "state", "commit", "snapshot", "file")


def events(  # noqa: PLR0917 - arguments and options of a command
    table: Annotated[str, typer.Option(help="Only files of this Iceberg table.", metavar="TABLE")] = "",
    topic: Annotated[str, typer.Option(help="Only records of this topic.", metavar="TOPIC")] = "",
    file: Annotated[str, typer.Option(help="Only files with this text in their location.", metavar="TEXT")] = "",
    commit: Annotated[str, typer.Option(help="Only files of the commit with this id.", metavar="ID")] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which commit added each file that was handed over, and which snapshot has it. Changes nothing.

    \b
    chsink mirror events --file 3f2a77f1                    which snapshot has this file?
    chsink mirror events --commit 0a51c3e2-…                what did this commit add?
    chsink mirror events --table shop.orders --json | jq '.events[] | select(.state == "waiting")'

    It reads the control topic as far back as Kafka keeps it, and the manifests of the tables. It works while the mirror
    runs, and while it is halted.

    \b
    time        when the file was handed over
    start, end  the offsets of its range; end is exclusive. A range may have several files, or none
    state       committed: a snapshot has the file
                waiting: its table does not hold these offsets yet
                gone: no snapshot has it. It was compacted and its snapshots expired, or its records had landed before
    commit      the id of the commit, "-" if neither the control topic nor a snapshot names it any more
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = quiet(config, assignments)
    check_named([table] if table else [], loaded)

    from chsink.mirror.failures import in_words
    from chsink.mirror.history import Filter, history

    opened = opened_mirror(loaded, [table] if table else [])
    with in_words(opened.names):
        found = history(opened.names, opened.targets, Filter(table, topic, file, commit))
    rows = [handed.as_dict() for handed in found]
    if as_json:
        print_json({"events": rows})
    else:
        print_table(COLUMNS, [["-" if row[c] is None else str(row[c]) for c in COLUMNS] for row in rows])
