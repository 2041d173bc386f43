"""``chsink mirror takeover``: continue tables that Iceberg's Kafka Connect sink filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chsink.cli.mirror import check_named, quiet
from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption
from chsink.cli.output import JsonOption, YesOption, check_answerable, confirm, print_json, print_table
from chsink.config import Config

if TYPE_CHECKING:
    from chsink.mirror.takeover import Takeover

TABLES = ("table", "commit", "valid_through", "files", "rows", "lost_files")
PARTITIONS = ("topic", "partition", "continues_at")


FilesWaitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--files-wait",
        help="None of the rows in the listed files is in this table: commit these files.",
        metavar="TABLE",
    ),
]
FilesLandedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--files-landed", help="All of their rows are in this table: do not commit these files.", metavar="TABLE"
    ),
]


def takeover(  # noqa: PLR0917 - arguments and options of a command
    tables: Annotated[
        list[str] | None,
        typer.Argument(help="Iceberg tables whose snapshots no longer name the connector.", metavar="TABLE"),
    ] = None,
    group: Annotated[str, typer.Option(help="The connector's consumer group: connect-NAME.", metavar="GROUP")] = "",
    control_topic: Annotated[
        str, typer.Option("--control-topic", help="The connector's iceberg.control.topic.", metavar="TOPIC")
    ] = "",
    trust_group: Annotated[
        bool, typer.Option("--trust-group", help="Continue where the group is, whatever the connector's events say.")
    ] = False,
    files_wait: FilesWaitOption = None,
    files_landed: FilesLandedOption = None,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Take over tables from Iceberg's Kafka Connect sink, and continue where it stopped.

    First stop the connector: this command refuses while its groups have members. Name the connector's topics and tables
    in [[mirror.route]]. Then:

    \b
    chsink mirror takeover -c job.toml         show what the connector left, ask, and take it over
    chsink mirror run -c job.toml              go on from there

    The snapshots of the tables name the connector's group; if they do not, pass --group and --control-topic. Files that
    wait for a commit are committed: for each table, one commit adds them and stores where the mirror continues.
    Each topic-partition continues at the offset of the connector's group. A partition that the connector never read
    begins at its first record. No record is lost, and none lands twice.

    Afterwards, delete the connector: started again, it would land records a second time.

    \b
    commit, valid_through   of the connector's newest snapshot
    files, rows             what waits for a commit, and is committed now
    lost_files              files that the connector wrote and never committed, and that somebody deleted
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    check_answerable(as_json=as_json, answered=yes)
    loaded = quiet(config, assignments)
    landed = _landed(files_wait or (), files_landed or ())
    asked = Asked((*(tables or ()), *landed), group, control_topic, trust_group, landed)
    check_named(asked.tables, loaded)
    found = _taken_over(loaded, asked, yes=yes, show=not as_json)
    if as_json:
        print_json(_document(found))


def _landed(wait: Sequence[str], landed: Sequence[str]) -> dict[str, bool]:
    """By table, whether it has its files."""
    if not {*wait}.isdisjoint(landed):
        raise typer.BadParameter("pass either --files-wait or --files-landed for a table")
    return dict.fromkeys(wait, False) | dict.fromkeys(landed, True)


class Asked(NamedTuple):
    """What a person says of the connector."""

    tables: Sequence[str]
    group: str
    control_topic: str
    trust_group: bool
    landed: Mapping[str, bool]


def _taken_over(config: Config, said: Asked, *, yes: bool, show: bool) -> Takeover:
    """Show what the connector left, ask, and take it over."""
    from chsink.kafka.admin import open_admin
    from chsink.mirror.failures import in_words
    from chsink.mirror.opening import open_mirror
    from chsink.mirror.takeover import carry_out, survey
    from chsink.mirror.topic import ensure_control_topic

    kafka = open_admin(config)
    opened = open_mirror(config, kafka)
    check_named(said.tables, opened.config)

    def surveyed() -> Takeover:
        known = kafka.topics(), said.tables, said.group, said.control_topic
        return survey(opened, *known, trust=said.trust_group, landed=said.landed)

    with in_words(opened.names):
        found = surveyed()
        if show:
            _show(found)
        if found.tables:
            confirm("Take these tables over?", yes=yes)
            ensure_control_topic(opened.names)
            carry_out(opened, found, surveyed())
    return found


def _show(found: Takeover) -> None:
    connector = found.connector
    typer.echo(f"connector of group {connector.group}, control topic {connector.control_topic}")
    if not found.tables:
        typer.echo("nothing to take over: each of its tables says where the mirror continues")
        return
    shown = [one.as_dict() for one in found.tables]
    print_table(TABLES, [[str(one[c]) or "-" for c in TABLES] for one in shown])
    typer.echo("")
    print_table(PARTITIONS, [[str(one[c]) for c in PARTITIONS] for one in _partitions(found)])
    for name in found.left_out:
        said = "left out: no snapshot or file of this connector; to take it over, too, run this command with its name"
        typer.echo(f"{name}: {said}", err=True)
    for topic in found.unread:
        typer.echo(f"{topic}: not continued: the connector read it, but no [[mirror.route]] names it", err=True)


def _partitions(found: Takeover) -> list[dict[str, Any]]:
    held = {tp: link for one in found.tables for tp, link in one.chain.links.items()}
    return [
        {"topic": tp.topic, "partition": tp.partition, "continues_at": held.get(tp, link).until}
        for tp, link in sorted(found.links.items())
    ]


def _document(found: Takeover) -> dict[str, Any]:
    return {
        "group": found.connector.group,
        "control_topic": found.connector.control_topic,
        "tables": [one.as_dict() for one in found.tables],
        "partitions": _partitions(found),
        "left_out": list(found.left_out),
        "not_continued": list(found.unread),
    }
