"""The page ``docs/configuration.md``, written from the model: ``python -m chsink.config.reference``.

Nothing on the page is kept up manually, so it cannot drift; a test compares the file with what this module prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping

from chsink.config.librdkafka import JAVA_ONLY, translated_options
from chsink.config.model import schema
from chsink.config.options import reserved
from chsink.config.schema import Key, Node, store_of

_INTRODUCTION = """\
# Configuration

A job is one TOML file. [examples/job.toml](examples/job.toml) is a short one,
[examples/job.full.toml](examples/job.full.toml) sets more. `chsink validate -c job.toml` checks it without connecting
to any service and reports every problem at once; `--show` lists every value and its origin.

This page is generated from the code: `python -m chsink.config.reference > docs/configuration.md`.

## Where values come from

From these places; later ones override earlier ones:

1. the default;
2. the job file;
3. an environment variable `CHSINK__SECTION__KEY`, for example `CHSINK__KAFKA__BOOTSTRAP=kafka:9092`. Lists are
   comma-separated or TOML (`CHSINK__CLICKHOUSE__ENDPOINTS='[{url = "http://a:8123", weight = 2}]'`). In
   `[kafka.options]`, `[kafka.client_options]` and `[spark.conf]` an underscore stands for a dot:
   `CHSINK__KAFKA__OPTIONS__SASL_MECHANISM` is `sasl.mechanism`. An option in capitals is read as lower case;
4. `--set KEY=VALUE` on the command line, or `overrides` of `chsink.config.load` in a program.

A variable `CHSINK__…` that names no key is an error, like an unknown key in the file.

## Credentials

Put passwords into the environment or into a file, never into the job file:
`password = { env = "CLICKHOUSE_PASSWORD" }` or `password = { file = "secrets/clickhouse" }`. A relative path starts at
the job file's folder; chsink removes a newline at the end of the file. The driver reads credentials when it starts and
passes them to the executors with the job. They are shown as `***`.

The sections `[sink]`, `[kafka]`, `[[route]]` and `[clickhouse]` are required, the others are optional.
"""

_KAFKA_NOTE = """\
Files named in these options (`ssl.truststore.location`) must exist on the driver and on every executor. You may quote
names with dots or not; where one name starts with another, TOML needs the quotes.

chsink's own Kafka client is librdkafka. chsink translates these options for it:
{translated}.
It ignores these, which it does not need:
{java_only}.
Trust stores must be PEM, key stores PEM or PKCS12, and the login PLAIN, SCRAM or OAUTHBEARER. Any other option
`ssl.*` or `sasl.*` is an error, unless `[kafka.client_options]` sets options of that family for librdkafka. Timeouts
and fetch sizes apply to Spark's source only.
"""


def page() -> str:
    """The whole page, Markdown."""
    return "\n".join([_INTRODUCTION, *_sections(), *_reserved()])


def _sections() -> Iterator[str]:
    for name, tables in schema().sections.items():
        if len(tables) > 1:
            yield f"## `[{name}]`\n\nWhere chsink records which offsets have landed. `store` chooses one of these.\n"
            for table in tables:
                yield from _section(f'### `store = "{store_of(table)}"`', table)
            continue
        yield from _section("## `[[route]]`" if name == "route" else f"## `[{name}]`", tables[0])
        if name == "kafka":
            yield _KAFKA_NOTE.format(
                translated=_listed(sorted(translated_options())), java_only=_listed(sorted(JAVA_ONLY))
            )
        if name == "clickhouse":
            yield from _section("### An endpoint", schema().tables(tables[0]["properties"]["endpoints"])[0][0])


def _section(title: str, table: Node) -> Iterator[str]:
    yield f"{title}\n\n{table['description']}\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    for key in schema().rows(table):
        if not key.listed:
            yield _row(f"`{key.path}`", key.type_text, _default(key), key.description)
    yield ""


def _default(key: Key) -> str:
    if key.required:
        return "**required**"
    value = key.node.get("default")
    return "" if value is None or key.secret else f"`{json.dumps(value, ensure_ascii=False)}`"


def _reserved() -> Iterator[str]:
    yield "## Options that chsink sets itself\n"
    yield "All other options are passed on to the services. These are errors (CHS-105).\n"
    for table in ("kafka.options", "kafka.client_options", "clickhouse.settings", "spark.conf"):
        yield f"### `[{table}]`\n\n| option | why, or what to do instead |\n| --- | --- |"
        yield from (_row(_listed(names), reason) for reason, names in _by_reason(reserved()[table]).items())
        yield ""
    yield "[errors.md](errors.md) lists the errors of the job file, CHS-101 to CHS-110."


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(reason, []).append(name)
    return grouped


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(f"{page()}\n")
