"""``chsink mirror commit``: commit at once."""

from __future__ import annotations

from chsink.cli.mirror import opened_mirror, quiet
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption
from chsink.cli.output import JsonOption, print_json, print_table


def commit(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the running mirror commit at once what was handed over, and wait until it has.

    \b
    chsink mirror commit -c job.toml
    chsink mirror commit -c job.toml --json | jq '.tables'

    Once it ends with exit code 0, the Iceberg tables hold all records below the offsets that the mirror's group had
    when the command began, and the coordinator's offsets are stored. Records that the mirror has not read yet follow
    with the next batches.

    snapshot is the newest one that was made meanwhile, or "-" if there was nothing new for the table. If the mirror
    does not answer within twice mirror.timeout_s, the command ends with exit code 5.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = quiet(config, assignments)

    from chsink.mirror.commit_now import commit_now
    from chsink.mirror.failures import in_words

    opened = opened_mirror(loaded)
    with in_words(opened.names):
        snapshots = commit_now(opened, 2 * loaded.mirror.timeout_s)
    if as_json:
        print_json({"tables": [{"table": name, "snapshot": snapshot} for name, snapshot in snapshots.items()]})
    else:
        print_table(("table", "snapshot"), [[name, str(snapshot or "-")] for name, snapshot in snapshots.items()])
