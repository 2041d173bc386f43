"""``chsink state``: look at the recorded state, and change it where a person has to decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import (
    JsonOption,
    YesOption,
    check_answerable,
    command_group,
    confirm,
    print_json,
    print_owner,
    print_table,
    progress,
)
from chsink.config import Config

if TYPE_CHECKING:
    from chsink.clickhouse.cluster import Cluster
    from chsink.connect import Services
    from chsink.recovery.change import Change
    from chsink.recovery.decide import Verdict
    from chsink.recovery.recovered import Recovered
    from chsink.statemachine.ranges import OffsetRange
    from chsink.statemachine.records import StateKey, StateRecord, TopicTable

state = command_group("state", help="Show the recorded state; resolve, reset or recover it manually.")

PATIENCE_S = 5
QUESTIONS: Mapping[str, str] = {
    "resolve --landed": "Record these ranges as landed?",
    "resolve --resend": "Let the next start send these ranges again?",
    "resolve --lost": "Give up the missing rows of these ranges?",
    "resolve --expired": "Let the next start land what Kafka still holds of these ranges?",
    "reset": "Forget what has landed from these partitions?",
}
"""By command: what a person confirms."""
DONE: Mapping[str, str] = {
    "resolve --resend": "the next start sends these ranges again, under new tokens",
    "resolve --expired": "the next start lands what Kafka still holds of these ranges",
}
"""By command: what was done, where the ranges are still in doubt."""

PipelineOption = Annotated[
    str | None,
    typer.Option(
        help="For table_by, with --resend: if your own program transforms the stream, confirm that no record changes "
        "its table. FINGERPRINT is the text that follows `now` in the message of CHS-309, or the range's `pipeline` in "
        "`chsink state show --json`.",
        metavar="FINGERPRINT",
    ),
]
SendersGoneOption = Annotated[
    bool,
    typer.Option(
        "--senders-gone",
        help="Confirm that no old driver or executor still runs. `recover` always needs it; `resolve` needs it with "
        "--resend.",
    ),
]
TopicArgument = Annotated[str, typer.Argument(help="Kafka topic.", metavar="TOPIC")]
PartitionsArgument = Annotated[
    list[int] | None,
    typer.Argument(
        help="Partition numbers. Default: all partitions of the topic that the command applies to.",
        metavar="PARTITION",
        min=0,
    ),
]

RemovedOption = Annotated[
    bool,
    typer.Option(
        "--accept-removed", help="Allow rows that were removed beyond the last remaining row to be inserted again."
    ),
]
SeveralOption = Annotated[
    bool, typer.Option("--accept-several", help="Confirm that several rows of one record are intended.")
]
TimestampsOption = Annotated[
    bool,
    typer.Option(
        "--accept-timestamps",
        help="Confirm that your program's transform sets _kafka_timestamp (CHS-331).",
    ),
]
HolesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-holes",
        help="Confirm that these offsets have no row on purpose, as CHS-331 names them. May be repeated.",
        metavar="TABLE:TOPIC-PARTITION:OFFSETS",
    ),
]


@state.command()
def show(config: ConfigOption = DEFAULT_CONFIG, assignments: SetOption = None, as_json: JsonOption = False) -> None:
    """Show the owner and each recorded range. Changes nothing.

    For ranges in doubt, it says whether ClickHouse still remembers their tokens.
    """
    from chsink.recovery.show import state_document

    with _services(_impatient(load_config(config, assignments))) as services:
        document = state_document(services.clickhouse, services.store)
    if as_json:
        print_json(document)
        return
    print_owner(f"sink {document['sink']} in {document['store']}", document["owner"])
    columns = ("topic", "partition", "table", "phase", "first", "start", "end", "gaps", "age_s", "tokens")
    rows = [["-" if r[c] is None else str(r[c]) for c in columns] for r in document["records"]]
    print_table(columns, rows)
    for fingerprint, layout in document["layouts"].items():
        typer.echo(f"layout {fingerprint}: {layout}")


@state.command()
def resolve(  # noqa: PLR0917 - arguments and options of a command
    topic: TopicArgument,
    partitions: PartitionsArgument = None,
    landed: Annotated[
        bool, typer.Option("--landed", help="Confirm that all rows and dead letters are there, each once.")
    ] = False,
    resend: Annotated[bool, typer.Option("--resend", help="Confirm that no row is there; send the range.")] = False,
    lost: Annotated[bool, typer.Option("--lost", help="Give up the missing rows and record a gap.")] = False,
    expired: Annotated[
        bool, typer.Option("--expired", help="Land what Kafka still holds of the range, and record the rest as a gap.")
    ] = False,
    table: Annotated[str | None, typer.Option(help="The table, if several are in doubt.", metavar="TABLE")] = None,
    pipeline: PipelineOption = None,
    senders_gone: SendersGoneOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Decide about ranges in doubt that chsink cannot settle.

    \b
    chsink state resolve flights --resend       all partitions of the topic that are in doubt
    chsink state resolve flights 3 5 --resend   two of them
    chsink state resolve flights 3 --landed     all rows and dead letters are there, each once: continue after them
    chsink state resolve flights 3 --resend     no row is there: the next start sends the range, under new tokens
    chsink state resolve flights 3 --expired    Kafka deleted a part: the next start lands the rest
    chsink state resolve flights 3 --lost       continue without the missing rows

    Stop the job and check the table first. A job that still runs is fenced.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    verdict = _chosen(landed=landed, resend=resend, expired=expired, lost=lost)
    check_answerable(as_json=as_json, answered=yes)
    from chsink.recovery.decide import plan_resolve

    with _services(_impatient(load_config(config, assignments))) as services:
        change = plan_resolve(
            services.clickhouse,
            services.store,
            services.kafka,
            topic,
            partitions or [],
            verdict,
            table=_canonical(services, table),
            pipeline=_pipeline_of(services.clickhouse, pipeline),
            senders_gone=senders_gone,
            say=progress,
        )
        progress("")
        _confirm_and_carry_out(services, change, f"resolve --{verdict}", yes=yes, as_json=as_json)


@state.command()
def reset(  # noqa: PLR0917 - arguments and options of a command
    topic: Annotated[
        str | None, typer.Argument(help="Kafka topic. Default, with --table: all topics of the table.", metavar="TOPIC")
    ] = None,
    partitions: PartitionsArgument = None,
    table: Annotated[str | None, typer.Option(help="Only this table.", metavar="TABLE")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Forget what has landed of a topic, or in a table, and start a new incarnation. Stop the job first.

    \b
    chsink state reset flights                           all partitions
    chsink state reset flights 3                         one of them
    chsink state reset flights --table air.flights_raw   what landed in one of the topic's tables
    chsink state reset --table air.flights_raw           what landed in the table, from all topics

    A `chsink dlq replay` that runs is stopped (CHS-801); one that is in doubt must be settled first (CHS-338).

    Rows stay in the table, and the next start lands again whatever Kafka holds of these partitions, from its first
    record on. Between the reset and the start, delete the rows of these records, also from the targets of dependent
    views, and their dead letters and replay marks (the command prints the condition that finds them). Otherwise the
    records land twice. Also set sink.checkpoint to a new folder before the start.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    if topic is table is None:
        raise typer.BadParameter("name a TOPIC, or a table with --table")
    check_answerable(as_json=as_json, answered=yes)
    from chsink.recovery.decide import plan_reset

    with _services(load_config(config, assignments)) as services:
        named = _canonical(services, table)
        change = plan_reset(services.clickhouse, services.store, topic, partitions or [], table=named)
        _confirm_and_carry_out(services, change, "reset", yes=yes, as_json=as_json)


@state.command()
def recover(  # noqa: PLR0917 - options of a command
    accept_removed: RemovedOption = False,
    accept_several: SeveralOption = False,
    accept_timestamps: TimestampsOption = False,
    accept_holes: HolesOption = None,
    senders_gone: SendersGoneOption = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Also rebuild partitions whose table holds rows beyond the recorded end."),
    ] = False,
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    yes: YesOption = False,
) -> None:
    """Rebuild lost state from the rows of the target tables.

    It reads the columns _kafka_topic, _kafka_partition, _kafka_offset and, if there is one, _kafka_timestamp.

    \b
    chsink state recover --senders-gone             the state was lost
    chsink state recover --senders-gone --replace   an old backup of the state was restored

    Stop the job and its executors first: what they still send would land twice. chsink records as landed only what the
    tables prove: each offset has a row, Kafka has no record there, or the record has no row on purpose (it is a dead
    letter, the job skips it, or table_by gives it to another table). The next start reads the rest again and inserts
    what is missing. If chsink has to refuse a partition, it names the offsets and records nothing at all. Partitions
    that have state are left unchanged. With --replace, those whose table holds rows beyond the recorded end are
    rebuilt, and other recorded partitions get new tokens.

    Do not recover a topic that was deleted and created again since its rows landed: records of the new topic would be
    skipped. Rows with _kafka_timestamp show that, and the command is refused (CHS-331); other rows do not.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.errors.several import raise_all
    from chsink.recovery.accepted import Accepted
    from chsink.recovery.recover import write
    from chsink.recovery.survey import survey

    holes = _holes(accept_holes or [])
    accepted = Accepted(senders_gone, accept_removed, accept_several, accept_timestamps, holes)
    with _services(load_config(config, assignments)) as services:
        services.take_up_topics()  # of the brokers: nothing recorded is trusted here
        clickhouse, store = services.clickhouse, services.store
        found = survey(clickhouse, store, services.kafka, typer.echo, accepted, replace=replace)
        raise_all([one.refusal for one in found if one.refusal is not None])
        _print_found(found)
        if not found:
            return
        confirm("Write this state?", yes=yes)
        _print_records(write(clickhouse, store, found))


def _holes(words: Sequence[str]) -> Mapping[str, Sequence[OffsetRange]]:
    from chsink.recovery.accepted import read_holes

    try:
        return read_holes(words)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--accept-holes") from None


def _print_found(found: Sequence[Recovered]) -> None:
    rebuilt = [one for one in found if not one.kept]
    if rebuilt:
        typer.echo("chsink will record the state of these partitions, and fence a job that still runs:")
        print_table(("topic", "partition", "table", "landed"), [[*_name(o.key), str(o.landed)] for o in rebuilt])
        for one in rebuilt:
            _say_doubt(one)
    else:
        typer.echo("nothing to recover: each partition has state already, or has no rows")
    if len(rebuilt) < len(found):
        typer.echo(
            f"chsink will give the other recorded partitions ({len(found) - len(rebuilt)}) new deduplication tokens, "
            "because ClickHouse still remembers those of deleted rows; their ranges stay as they are"
        )


def _say_doubt(one: Recovered) -> None:
    from chsink.recovery.accepted import REMOVED_SHARDS, in_words, option_for

    if one.doubt is not None:
        typer.echo(
            f"- {one.key.topic_partition} {one.doubt.range} will be in doubt for {one.key.table}: nothing explains why "
            f"the offsets {in_words(one.doubt.missing)}, {one.doubt.records} in all, have no row; the next start reads "
            "the range again and inserts what is missing (only if somebody removed these rows on purpose, answer no "
            f"and add `{option_for(one.key, one.doubt.missing)}` to this command; {REMOVED_SHARDS})"
        )


def _chosen(**verdicts: bool) -> Verdict:
    chosen = [name for name, given in verdicts.items() if given]
    if len(chosen) != 1:
        raise typer.BadParameter(f"pass one of {', '.join(f'--{name}' for name in verdicts)}")
    return cast("Verdict", chosen[0])


def _pipeline_of(clickhouse: Cluster, known: str | None) -> Callable[[TopicTable], str]:
    """The fingerprint of the next start: ``known``, or that of a stream that nothing transforms."""
    from chsink.clickhouse.landing import present_fingerprint
    from chsink.formats.pipeline import Untouched

    bare = Untouched(clickhouse.config.kafka.isolation_level)
    return lambda leads: known or present_fingerprint(clickhouse, leads, bare)


def _canonical(services: Services, table: str | None) -> str | None:
    return None if table is None else services.config.canonical(table)


def _confirm_and_carry_out(services: Services, change: Change, command: str, *, yes: bool, as_json: bool) -> None:
    from chsink.recovery.change import carry_out

    if as_json:
        written = carry_out(services.clickhouse, services.store, change, command)
        print_json({"does": change.says, "before": _documents(change.found), "after": _documents(written)})
        return
    typer.echo("now:")
    _print_records(change.found)
    for sentence in change.says:
        typer.echo(f"- {sentence}")
    confirm(QUESTIONS[command], yes=yes)
    written = carry_out(services.clickhouse, services.store, change, command)
    if command in DONE:
        typer.echo(f"done: {DONE[command]}")
        return
    typer.echo("done:")
    _print_records(written)


def _print_records(records: Mapping[StateKey, StateRecord]) -> None:
    from chsink.recovery.change import in_words

    print_table(
        ("topic", "partition", "table", "state"), [[*_name(k), in_words(r)] for k, r in sorted(records.items())]
    )


def _documents(records: Mapping[StateKey, StateRecord]) -> list[dict[str, Any]]:
    return [
        {
            "topic": key.topic,
            "partition": key.partition,
            "table": key.table,
            "phase": str(record.phase),
            "start": record.start,
            "end": record.end,
            "gaps": [[gap.start, gap.end] for gap in record.gaps],
            "incarnation": record.life.incarnation,
        }
        for key, record in sorted(records.items())
    ]


def _name(key: StateKey) -> list[str]:
    return [key.topic, str(key.partition), key.table]


def _impatient(config: Config) -> Config:
    """A person is waiting: stop soon waiting for a server that does not respond."""
    clickhouse = config.clickhouse
    shorter = {"retry_for_s": min(clickhouse.retry_for_s, PATIENCE_S)}
    return config.model_copy(update={"clickhouse_section": clickhouse.model_copy(update=shorter)})


def _services(config: Config) -> AbstractContextManager[Services]:
    from chsink.connect import connected
    from chsink.observe.logs import configure

    configure(config.observe.log_format, "warning")
    return connected(config)
