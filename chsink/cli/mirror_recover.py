"""``chsink mirror recover``: continue from the tables' own rows."""

from __future__ import annotations

from contextlib import closing

import typer

from chsink.cli.mirror import quiet
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption
from chsink.cli.output import JsonOption, YesOption, check_answerable, confirm, print_json, print_table
from chsink.config import Config

COLUMNS = ("table", "topic", "partition", "first_row", "last_row", "skipped", "compared_from", "continues_at")


def recover(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Continue from the rows of the Iceberg tables, if the mirror's groups and the tables' chains were lost.

    It reads the columns _kafka_topic, _kafka_partition and _kafka_offset, or only the files' statistics where these
    suffice; and _kafka_timestamp of the first and the last rows, if the table has it. It first shows what it found, and
    asks before it changes anything.

    \b
    chsink mirror recover -c job.toml          show it, ask, and store it
    chsink mirror recover -c job.toml --yes    store it without asking

    Stop the mirror first. A mirror that still runs is fenced.

    Each table of [[mirror.route]] continues after its last row, if no record is missing below it: each offset that
    Kafka still holds has a row, or no record, or a record that errors.on_bad_value or errors.on_tombstone skips.
    Otherwise the command names the offset and changes nothing. A partition without rows begins at its first record. The
    next start lands what the tables lack. Tables that themselves say what they hold are left unchanged.

    \b
    skipped        records below the last row that have no row, because the job file skips them
    compared_from  what is below this offset was not compared: Kafka no longer holds it; or, with
                   kafka.starting_offsets = "latest", it is before the table's first row

    Where a topic was deleted and created again since its rows landed, records of the new topic would be skipped. The
    column _kafka_timestamp shows it, and the command is refused. Without that column, do not recover such a topic.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    check_answerable(as_json=as_json, answered=yes)
    loaded = quiet(config, assignments)

    found = _recovered(loaded, yes=yes, as_json=as_json)
    if as_json:
        print_json({"recovered": found})


def _recovered(config: Config, *, yes: bool, as_json: bool) -> list[dict[str, object]]:
    """Show what the rows say, ask, and store it."""
    from chsink.kafka.admin import open_admin
    from chsink.kafka.exact import open_exact_reader
    from chsink.mirror.failures import in_words
    from chsink.mirror.opening import open_mirror
    from chsink.mirror.recover import carry_out, survey

    kafka = open_admin(config)
    opened = open_mirror(config, kafka)
    with in_words(opened.names), closing(open_exact_reader(config, lambda tp: kafka.log_starts([tp])[tp])) as reader:
        rows = survey(opened, reader)
        found = [one.as_dict() for one in rows.found]
        if found and not as_json:
            print_table(COLUMNS, [["-" if one[c] is None else str(one[c]) for c in COLUMNS] for one in found])
        elif not as_json:
            typer.echo("nothing to recover: each table says what it holds")
        if found:
            confirm("Let the mirror continue there?", yes=yes)
            carry_out(opened.names, rows)
    return found
