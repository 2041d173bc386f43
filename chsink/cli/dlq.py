"""``chsink dlq``: the dead letters that a sink kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import Commands, JsonOption, print_json, print_table
from chsink.config import Config
from chsink.errors import job_file, services

if TYPE_CHECKING:
    from chsink.dlq.kept import Kept

dlq = typer.Typer(
    name="dlq",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    help="List dead letters, or show one. Changes nothing.",
)
COLUMNS = ("topic", "partition", "offset", "table", "column", "error_id", "reason")
TopicOption = Annotated[str | None, typer.Option("--topic", help="Only dead letters of this source topic.")]


@dlq.command("list")
def list_letters(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    topic: TopicOption = None,
    limit: Annotated[int, typer.Option(help="Maximum number of dead letters.", min=1)] = 100,
    as_json: JsonOption = False,
) -> None:
    """List dead letters: where each record is in Kafka and why it has no row, never its content.

    \b
    chsink dlq list -c job.toml
    chsink dlq list -c job.toml --topic flights --limit 1000 --json | jq -r '.[].reason' | sort | uniq -c
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = load_config(config, assignments)
    found = [kept.without_record() for kept in islice(_kept(loaded, topic), limit)]
    if as_json:
        print_json(found)
        return
    print_table(COLUMNS, [[str(kept[name]) for name in COLUMNS] for kept in found])
    if len(found) == limit:
        typer.echo(f"There may be more than {limit}: raise --limit.", err=True)


@dlq.command()
def show(
    topic: Annotated[str, typer.Argument(help="The record's topic.")],
    partition: Annotated[int, typer.Argument(help="Its partition.", min=0)],
    offset: Annotated[int, typer.Argument(help="Its offset.", min=0)],
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
) -> None:
    """Print the dead letters of one record as JSON, with key, value and headers. Bytes that are no UTF-8 text are
    printed as hexadecimal digits.

    \b
    chsink dlq show flights 3 1024 -c job.toml
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = load_config(config, assignments)
    wanted = partition, offset
    print_json([k.document() for k in _kept(loaded, topic, wanted) if (k.partition, k.offset) == wanted])


def _kept(config: Config, topic: str | None, place: tuple[int, int] | None = None) -> Iterator[Kept]:
    """The sink's dead letters, of one source topic if it is given, and (in a table) of one record."""
    if config.dead_letters.topic is not None:
        yield from (kept for kept in _of_topic(config) if topic in (None, kept.topic))
    elif config.dead_letters_table is not None:
        yield from _of_table(config, topic, place)
    else:
        raise job_file.NO_DEAD_LETTERS()


def _of_topic(config: Config) -> Iterator[Kept]:
    from confluent_kafka import KafkaException

    from chsink.dlq.kept import kept_in_topic
    from chsink.dlq.place import LettersTopic

    kafka, topic = config.kafka, config.dead_letters.topic
    assert topic is not None
    try:
        yield from kept_in_topic(LettersTopic(kafka.client_options(), topic, config.sink.name, kafka.timeout_s))
    except KafkaException as error:
        raise services.KAFKA_UNAVAILABLE(bootstrap=kafka.bootstrap, reason=error.args[0].str()) from error


def _of_table(config: Config, topic: str | None, place: tuple[int, int] | None) -> Iterator[Kept]:
    from chsink.batch.halts import asking_target
    from chsink.connect import connected
    from chsink.dlq.kept import TABLE_COLUMNS, kept_row
    from chsink.observe.logs import configure

    configure(config.observe.log_format, "error")
    conditions = ["sink = {sink:String}", "_kafka_topic = {topic:String}"][: 1 if topic is None else 2]
    conditions += ["_kafka_partition = {partition:Int64}", "_kafka_offset = {offset:Int64}"] if place else []
    sql = f"SELECT {TABLE_COLUMNS} FROM {config.dead_letters_table} WHERE {' AND '.join(conditions)}"
    partition, offset = place or (0, 0)
    bound = {"sink": config.sink.name, "topic": topic or "", "partition": partition, "offset": offset}
    with connected(config) as opened, asking_target():
        rows = opened.clickhouse.clients[0].query(
            f"{sql} ORDER BY _kafka_topic, _kafka_partition, _kafka_offset LIMIT 1000000", bound
        )
    yield from map(kept_row, rows)
