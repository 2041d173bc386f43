"""Renders the page ``docs/configuration.md``: the text of ``page.md`` with tables of the model's keys.

``python -m chsink.config.page`` prints the page; a test compares it with the file.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from importlib.resources import files
from string import Template

from pydantic import SecretStr

from chsink.config.librdkafka import JAVA_ONLY, translated_options
from chsink.config.mirror import IcebergTableBy, MirrorRouteSection, NewTable
from chsink.config.model import schema
from chsink.config.options import reserved_by_reason
from chsink.config.routes import TableBy
from chsink.config.schema import Key, Table, rows, tag_of
from chsink.config.sections import Endpoint
from chsink.formats.settings import FormatSettings
from chsink.notation.hash_functions import HASH_FUNCTIONS
from chsink.notation.metadata_columns import SHARD_TYPES


def page() -> str:
    """The whole page, as Markdown."""
    template = Template(files("chsink.config").joinpath("page.md").read_text(encoding="utf-8"))
    sections = {name: "\n".join(_tables(name)) for name in schema().sections}
    named = {"translated": _listed(sorted(translated_options())), "java_only": _listed(sorted(JAVA_ONLY))}
    return template.substitute(sections, **named, reserved="\n".join(_reserved())).rstrip("\n")


def _tables(name: str) -> Iterator[str]:
    tables = schema().sections[name]
    if len(tables) > 1:
        yield f"## `[{name}]`\n\nWhere chsink records which offsets have landed. `store` chooses one of these.\n"
        for table in tables:
            yield from _section(f'### `store = "{tag_of(table)[1]}"`', table)
        return
    yield from _section("## `[[route]]`" if name == "route" else f"## `[{name}]`", tables[0])
    if name == "route":
        yield from _section("### `table_by = { … }`", TableBy)
        for table in schema().unions["route.format"]:
            yield from _section(f'### `format = {{ type = "{tag_of(table)[1]}" }}`', table)
    if name == "clickhouse":
        yield from _section("### An endpoint", Endpoint)
        yield from _hash_functions()
    if name == "mirror":
        yield from _section("### `[[mirror.route]]`", MirrorRouteSection)
        yield from _section("### `table_by = { … }` of the mirror", IcebergTableBy)
        yield from _section("### `create = { … }`", NewTable)


def _section(title: str, table: Table) -> Iterator[str]:
    yield f"{title}\n\n{inspect.getdoc(table)}\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    for key in rows(table):
        if not key.listed:
            yield _row(f"`{key.path}`", key.type_text, _default(key), key.description)
    yield ""


def _hash_functions() -> Iterator[str]:
    functions = [function for function in HASH_FUNCTIONS.values() if function.columns != "no"]
    every = frozenset[str]().union(*(function.families for function in functions))
    yield f"""### Hash functions

chsink sends a row to the shard that a `Distributed` table with the same sharding expression chooses. A test compares
each function with ClickHouse for each type in this table. Every other combination is refused before the first record.

The types are {_listed(sorted(every))}. `Nullable` and `LowCardinality` change nothing; for NULL see
`errors.null_shard_key`. A function of several columns also takes a `Tuple` of these types without `Nullable` elements.

| `hash_function` | sharding expression | types of the columns |
| --- | --- | --- |"""
    for function in functions:
        expression = function.expression(("a", "b", "…") if function.columns == "several" else ("a",)).replace("`", "")
        missing = every - function.families
        types = _listed(sorted(function.families))
        if len(missing) < len(function.families):
            types = f"all except {_listed(sorted(missing))}" if missing else "all"
        yield _row(f"`{function.name}`", f"`{expression}`", types)
    yield f"""| `rand` | `rand()` | no `shard_key` |

- `rand` spreads the rows as `rand()` does, but by a hash of the record's topic, partition and offset: each attempt
  sends a record to the same shard.
- The shard key may name {_listed(SHARD_TYPES)}. If the table has no such column, chsink hashes the field of the
  Kafka record as {_listed(SHARD_TYPES.values())}. No `Distributed` table can compute this, so create it with `rand()`:
  queries then ask every shard.
"""


def _default(key: Key) -> str:
    if key.field.is_required():
        return "**required**"
    value = key.field.default
    value = tag_of(type(value))[1] if isinstance(value, FormatSettings) else value
    shown = key.field.default_factory is None and value is not None and key.type is not SecretStr
    return f"`{json.dumps(value, ensure_ascii=False)}`" if shown else ""


def _reserved() -> Iterator[str]:
    for table in ("kafka.options", "kafka.client_options", "clickhouse.settings", "spark.conf"):
        yield f"### `[{table}]`\n\n| option | why, or what to do instead |\n| --- | --- |"
        yield from (_row(_listed(names), reason) for reason, names in reserved_by_reason(table).items())
        yield ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(f"{page()}\n")
