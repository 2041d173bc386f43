"""``chsink validate``: read the job file and say everything that is wrong with it, without network."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from chsink.cli.options import DEFAULT_CONFIG, ConfigOption, SetOption, load_config
from chsink.cli.output import JsonOption, print_json, print_table
from chsink.config import Config, settings
from chsink.errors.counts import counted


def validate(
    config: ConfigOption = DEFAULT_CONFIG,
    assignments: SetOption = None,
    show: Annotated[bool, typer.Option("--show", help="List every value and where it came from.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a job file without connecting to anything.

    Reads the file, the environment variables CHSINK__SECTION__KEY and --set, in this order; later ones win. All
    problems are reported at once, each with its key, where the value came from, and the fix. Credentials are shown
    as ***.

    \b
    Examples:
      chsink validate -c job.toml
      chsink validate -c job.toml --show
      CHSINK__KAFKA__BOOTSTRAP=kafka:9092 chsink validate -c job.toml --json

    Exit codes: 0 the file is right, 2 it is not.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph apart
    loaded = load_config(config, assignments)
    if loaded.mirror.enabled:
        loaded.mirror.check_catalog_file(exists=False)
    if as_json:
        print_json({"valid": True, "sink": loaded.sink.name, "settings": [s.as_dict() for s in settings(loaded)]})
        return
    if show:
        rows = [(setting.key, _text(setting.value), setting.origin) for setting in settings(loaded)]
        print_table(("key", "value", "from"), rows)
    typer.echo(f"{config} is valid: {_summary(loaded)}")


def _summary(config: Config) -> str:
    matching = sum(section.topic_pattern is not None for section in config.mirror.route_sections)
    more = f" and those of the topics of {counted(matching, 'patterns')}" if matching else ""
    mirrored = f"mirrored to {counted(len(config.mirror.tables), 'Iceberg tables')}{more}"
    if config.clickhouse_section is None:
        return f"sink {config.sink.name}, {counted(len(config.mirror.topics), 'topics')} {mirrored}, without ClickHouse"
    named = config.expanded(())
    tables = {named.table_of(route).canonical for route in named.routes}
    patterns = sum(section.topic_pattern is not None for section in config.route_sections)
    matched = f" and the topics of {counted(patterns, 'patterns')}" if patterns else ""
    shards = len(config.clickhouse.endpoints)
    also = f", {mirrored}" if config.mirror.enabled else ""
    return (
        f"sink {config.sink.name}, {counted(len(named.topics), 'topics')} to {counted(len(tables), 'tables')}{matched} "
        f"on {counted(shards, 'shards')}, state in {config.state.store}{also}"
    )


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
