"""``chsink kafka``: commands for the administrator of Kafka, made from a job file.  Connects to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, command_group, print_json

if TYPE_CHECKING:
    from chsink.config import Config
    from chsink.kafka.acls import Acl

kafka = command_group("kafka", help="Print commands for Kafka's administrator. Runs nothing.")


@kafka.callback()
def _group() -> None:
    """Keep `acls` a command of its own."""


@kafka.command("acls")
def print_acls(  # noqa: PLR0917 - options of a command
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    principal: Annotated[
        str | None,
        typer.Option(
            help="The job's user as the brokers name it. Default: the user of sasl.jaas.config.", metavar="User:NAME"
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic that a topic_pattern matches. May be repeated.", metavar="TOPIC")
    ] = None,
    tool: Annotated[
        str, typer.Option(help="How to call Kafka's tool for ACLs.", metavar="COMMAND")
    ] = "kafka-acls.sh --command-config admin.properties",
    as_json: JsonOption = False,
) -> None:
    """Print the kafka-acls.sh commands that grant the job's Kafka user what the job needs, and nothing else.

    An administrator runs them; admin.properties holds the administrator's own login. The user needs no right on the
    cluster. Commands are grouped by what needs them. This command connects to nothing. If a route has a topic_pattern,
    name each matching topic with --topic. With client certificates or tokens, the job file does not say how the brokers
    name the user: use --principal.

    \b
    chsink kafka acls -c job.toml
    chsink kafka acls -c job.toml --principal User:CN=lander
    chsink kafka acls -c job.toml | sh
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = load_config(config, assignments).expanded(topic or ())
    _print(loaded, principal, tool.split(), as_json=as_json)


def _print(config: Config, principal: str | None, tool: Sequence[str], *, as_json: bool) -> None:
    from chsink.kafka.acls import commands, needed, principal_of

    user = principal_of(config, principal)
    made = commands(needed(config), user, [*tool, "--bootstrap-server", config.kafka.bootstrap])
    if as_json:
        print_json({"principal": user, "acls": [_as_dict(acl) | {"command": line} for acl, line in made]})
        return
    for use, of_use in groupby(made, lambda each: each[0].use):
        typer.echo(f"# For {use}")
        for acl, line in of_use:
            typer.echo(f"# {acl.why}\n{line}")
        typer.echo("")


def _as_dict(acl: Acl) -> dict[str, object]:
    return {
        "for": str(acl.use),
        "resource": acl.kind,
        "names": acl.names,
        "pattern": "prefixed" if acl.prefixed else "literal",
        "operations": acl.operations,
    }
