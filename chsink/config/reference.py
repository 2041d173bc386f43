"""The page ``docs/configuration.md``, written from the model: ``python -m chsink.config.reference``.

Nothing on the page is kept by hand, so it cannot drift; a test compares the file with what this module prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from chsink.config import schema
from chsink.config.clickhouse import Endpoint
from chsink.config.librdkafka import JAVA_ONLY, translated_options
from chsink.config.model import Config
from chsink.config.problems import MEANINGS
from chsink.config.reserved import CLICKHOUSE_PREFIXES, CLICKHOUSE_SETTINGS, KAFKA_OPTIONS, SPARK_CONF
from chsink.config.sections import Route

_INTRODUCTION = """\
# Configuration

A job is one TOML file. [examples/job.toml](examples/job.toml) is a short one,
[examples/job.full.toml](examples/job.full.toml) sets more. `chsink validate -c job.toml` reads it without connecting to
anything and reports every problem at once; `--show` lists every value with where it came from.

This page is written from the code: `python -m chsink.config.reference > docs/configuration.md`.

## Where values come from

In this order, later ones win:

1. the default;
2. the job file;
3. an environment variable `CHSINK__SECTION__KEY`, for instance `CHSINK__KAFKA__BOOTSTRAP=kafka:9092`. Lists are
   comma-separated or TOML (`CHSINK__CLICKHOUSE__ENDPOINTS='[{url = "http://a:8123", weight = 2}]'`). In
   `[kafka.options]`, `[kafka.client_options]` and `[spark.conf]` an underscore stands for a dot:
   `CHSINK__KAFKA__OPTIONS__SASL_MECHANISM` is `sasl.mechanism`. An option in capitals only is read in lower case;
4. `--set KEY=VALUE` on the command line, `overrides` of `chsink.config.load` in a program.

A variable `CHSINK__…` that names no key is an error, as an unknown key in the file is.

## Credentials

A password stands in the environment or in a file, never in the job file:
`password = { env = "CLICKHOUSE_PASSWORD" }` or `password = { file = "secrets/clickhouse" }`. A relative path is taken
from the job file's folder; a newline at its end is not part of the credential. They are read where the driver starts,
travel to the executors with the job, and are shown as `***`.

The sections `[sink]`, `[kafka]`, `[[route]]` and `[clickhouse]` are needed, the others are not.
"""

_KAFKA_NOTE = """\
Paths in these options (`ssl.truststore.location`) must exist on the driver and on every executor. Names with dots may
be quoted or not; where one name begins with another, TOML needs the quotes.

chsink's own Kafka client is librdkafka. Of the connection, it takes over
{translated}.
It does without
{java_only}.
Trust stores must be PEM, key stores PEM or PKCS12, and the login PLAIN, SCRAM or OAUTHBEARER. Any other property of
`ssl.*` or `sasl.*` is an error, unless `[kafka.client_options]` states that family for librdkafka. Timeouts and fetch
sizes concern Spark's source only."""


def page() -> str:
    """The whole page, Markdown."""
    return "\n".join([_INTRODUCTION, *_sections(), *_reserved(), *_errors()])


def _sections() -> Iterator[str]:
    for name, field in Config.model_fields.items():
        key = schema.name_of(name, field)
        if key == "route":
            yield from _section("[[route]]", "route", Route)
            continue
        model = schema.core(field.annotation)
        yield from _section(f"[{key}]", key, model)
        if key == "kafka":
            yield _KAFKA_NOTE.format(translated=_listed(translated_options()), java_only=_listed(JAVA_ONLY)) + "\n"
        if key == "clickhouse":
            yield from _section("An endpoint", "clickhouse.endpoints", Endpoint, level=3)


def _section(title: str, path: str, model: type[BaseModel], level: int = 2) -> Iterator[str]:
    mark = f"`{title}`" if title.startswith("[") else title
    yield f"{'#' * level} {mark}\n"
    yield f"{_paragraphs(model)}\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    yield from _rows(model, path, "")
    yield ""


def _rows(model: type[BaseModel], path: str, prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        shown = prefix + schema.name_of(name, field)
        annotation = schema.core(field.annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _rows(annotation, path, f"{shown}.")
            continue
        key = schema.Key(f"{path}.{shown}", field, annotation, "text")
        cells = (f"`{shown}`", key.type_text, _default(field), field.description or "")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value: Any = field.get_default(call_default_factory=True, validated_data={})
    if value is None or (isinstance(value, SecretStr) and not value.get_secret_value()):
        return ""
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _reserved() -> Iterator[str]:
    yield "## Options that chsink sets itself\n"
    yield "They pass through to the services, except these, which are errors (CHS-105).\n"
    settings = CLICKHOUSE_SETTINGS | {f"{prefix}…": reason for prefix, reason in CLICKHOUSE_PREFIXES.items()}
    for table, reasons in (
        ("kafka.options", KAFKA_OPTIONS),
        ("clickhouse.settings", settings),
        ("spark.conf", SPARK_CONF),
    ):
        yield f"### `[{table}]`\n"
        yield from _reasons("option", "why, or what instead", reasons)
        yield ""


def _reasons(head: str, meaning: str, reasons: Mapping[str, str]) -> Iterator[str]:
    yield f"| {head} | {meaning} |\n| --- | --- |"
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(reason, []).append(name)
    for reason, names in grouped.items():
        yield f"| {_listed(names, keep_order=True)} | {reason} |"


def _errors() -> Iterator[str]:
    yield "## Errors of the configuration\n"
    yield "Each ends the command with exit code 2, before anything is started.\n"
    yield "| id | meaning |\n| --- | --- |"
    yield from (f"| {error} | {meaning} |" for error, meaning in MEANINGS.items())
    yield ""


def _listed(names: Any, *, keep_order: bool = False) -> str:
    return ", ".join(f"`{name}`" for name in (names if keep_order else sorted(names)))


def _paragraphs(model: type[BaseModel]) -> str:
    lines = (line.strip() for line in (model.__doc__ or "").strip().splitlines())
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
