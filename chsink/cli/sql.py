"""``chsink sql``: SQL for a job, made from its job file.  Runs nothing; only ``create-table`` connects, to Kafka."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, command_group, print_json
from chsink.errors import job_file

if TYPE_CHECKING:
    from chsink.config import Config
    from chsink.tables.statements import Statement

sql = command_group("sql", help="Print SQL for a job. Runs nothing.")


@sql.callback()
def _group() -> None:
    """Keep `distributed` a command of its own."""


def _plain(name: str) -> str:
    """The name becomes an XML element."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
        raise typer.BadParameter("use ASCII letters, digits, and _ . - only; begin with a letter or _")
    return name


@sql.command()
def distributed(  # noqa: PLR0917 - options of a command
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    cluster: Annotated[str, typer.Option(help="Name of the cluster.", metavar="NAME", callback=_plain)] = "chsink",
    suffix: Annotated[str, typer.Option(help="What to append to a table's name.", metavar="SUFFIX")] = "_all",
    port: Annotated[int, typer.Option(help="Native port of the servers.", metavar="PORT", min=1, max=65_535)] = 9000,
    secure_port: Annotated[
        int, typer.Option(help="Native port with TLS, for https:// endpoints.", metavar="PORT", min=1, max=65_535)
    ] = 9440,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic that a topic_pattern matches. May be repeated.", metavar="TOPIC")
    ] = None,
    xml: Annotated[bool, typer.Option("--xml", help="Print only the cluster definition.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print Distributed tables that read what the job writes.

    It also prints the cluster definition that they need. The cluster has the shards of the job file, in its order and
    with its weights. The sharding expression is the one by which chsink chooses a shard, so queries with
    `optimize_skip_unused_shards` find all rows. With schema.cluster, the tables are created ON CLUSTER. The command
    does not connect to Kafka: if a route has a topic_pattern, name each matching topic with --topic.

    \b
    chsink sql distributed -c job.toml
    chsink sql distributed -c job.toml --cluster shop --suffix _everywhere
    chsink sql distributed -c job.toml --xml > /etc/clickhouse-server/config.d/chsink.xml
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.clickhouse.distributed import Naming, cluster_definition, distributed_tables, on_cluster

    loaded = load_config(config, assignments).expanded(topic or ())
    naming = Naming(cluster, suffix, (port, secure_port))
    tables, definition = distributed_tables(loaded, naming), cluster_definition(loaded, naming)
    if as_json:
        print_json({"sql": tables, "cluster": definition})
        return
    if xml:
        typer.echo(definition)
        return
    where = loaded.clickhouse.endpoints[0].url if on_cluster(loaded) else "each server that you query"
    typer.echo(f"-- Run this on {where}:\n{tables}\n")
    typer.echo(f"-- The cluster, as config.d/{cluster}.xml of these servers (--xml prints only this):")
    typer.echo("\n".join(f"-- {line}" for line in definition.splitlines()))


@sql.command("dead-letters")
def dead_letters(
    config: ConfigOption = DEFAULT_CONFIG, assignments: SetOption = None, as_json: JsonOption = False
) -> None:
    """Print the statement that creates the table of dead letters.

    The table is dead_letters.table of the job file, on the first endpoint. If this endpoint has replicas, the table is
    a ReplicatedMergeTree. The output says where to run the statement: with schema.cluster on one server, otherwise on
    each replica.

    \b
    chsink sql dead-letters -c job.toml
    chsink sql dead-letters -c job.toml --set dead_letters.table=bad_records
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.tables.statements import create_letters

    loaded = load_config(config, assignments)
    name = loaded.dead_letters_table
    if name is None:
        raise job_file.NO_DEAD_LETTERS_TABLE()
    _print([create_letters(loaded, name)], as_json=as_json)


@sql.command("create-table")
def new_tables(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Only this topic's table. May be repeated.", metavar="TOPIC"),
    ] = None,
    iceberg: Annotated[
        bool, typer.Option("--iceberg", help="Print the Iceberg tables of [[mirror.route]] instead, as Spark SQL.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print statements that create the target tables.

    The tables fit the records that the topics hold now. The columns come from the records' schema, or chsink infers
    them from a sample (schema.sample_records); schema.infer_times says whether text may become dates and times. The
    sorting key and the partition key come from [schema] and [[route]], the engine from schema.engine; by default it is
    ReplicatedMergeTree if an endpoint has replicas. The output says where to run each statement: with schema.cluster on
    one server, otherwise on each URL. Or set schema.auto_create = true and let chsink create missing tables.

    With --iceberg, it prints the statements for the Iceberg tables of [[mirror.route]], with the columns that
    mirror.auto_create would give them, as Spark SQL.

    \b
    chsink sql create-table -c job.toml
    chsink sql create-table -c job.toml --topic flights --set schema.order_by=flight,at
    chsink sql create-table -c job.toml --iceberg
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.connect import connected
    from chsink.observe.logs import configure
    from chsink.tables.create import statements

    loaded = load_config(config, assignments)
    configure(loaded.observe.log_format, "error")
    if iceberg:
        _print_iceberg(loaded, topics or [], as_json=as_json)
        return
    with connected(loaded) as services:
        made = list(statements(services.config, services.kafka, topics or []))
    _print(made, as_json=as_json)


def _print_iceberg(config: Config, topics: Sequence[str], *, as_json: bool) -> None:
    from chsink.kafka.admin import open_admin
    from chsink.mirror.package import check_installed

    config.required_mirror()
    check_installed()
    from chsink.tables.iceberg import iceberg_statements  # needs the packages

    made = list(iceberg_statements(config, open_admin(config), topics))
    if as_json:
        print_json({"statements": [{"sql": sql} for sql in made]})
        return
    typer.echo("\n\n".join(f"{sql};" for sql in made))


def _print(made: Sequence[Statement], *, as_json: bool) -> None:
    """Print each statement, and where to run it."""
    if as_json:
        print_json({"statements": [{"sql": each.sql, "run_on": each.urls} for each in made]})
        return
    for each in made:
        typer.echo(f"-- Run this on {' and on '.join(each.urls)}:\n{each.sql};\n")


@sql.command("grants")
def print_grants(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic that a topic_pattern matches. May be repeated.", metavar="TOPIC")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the GRANT statements for the job's ClickHouse user (clickhouse.user).

    An administrator runs them on the servers that the comments name; with schema.cluster, on one server (ON CLUSTER).
    The user must exist. Statements are grouped by what needs them: leave out what you do not use. The command connects
    to nothing, so it prints grants for plain and for Replicated tables. If a route has a topic_pattern, name each
    matching topic with --topic. `chsink doctor` names the grants that are missing.

    \b
    chsink sql grants -c job.toml
    chsink sql grants -c job.toml | clickhouse-client --user admin --multiquery
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    from chsink.clickhouse.grants import all_grants

    loaded = load_config(config, assignments).expanded(topic or ())
    found = all_grants(loaded)
    if as_json:
        print_json({"grants": [{"urls": g.urls, "for": str(g.use), "sql": g.sql} for g in found]})
        return
    for urls, of_server in groupby(found, lambda grants: grants.urls):
        typer.echo(f"-- Run these on {' and on '.join(urls) or f'one server of cluster {loaded.tables.cluster}'}")
        for grants in of_server:
            typer.echo("\n".join([f"\n-- For {grants.use}", *(f"{statement};" for statement in grants.sql)]))
        typer.echo("")
