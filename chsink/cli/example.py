"""The files that ``chsink init`` writes, and the way from ``chsink dev up`` to the first row."""

from __future__ import annotations

import shlex
import textwrap
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chsink.embedded.dev import DevStack

DEFAULT_ROOT = Path(".chsink-dev")
EXAMPLE_FILES = ("flights.sql", "flights.jsonl")


def next_steps(stack: DevStack, root: Path) -> str:
    """A job file that works against the stack, and the commands from there to the first row."""
    option = root_option(root)
    return f"""
A job file for these services:

{textwrap.indent(example_job(stack, root).strip(), "  ")}

`chsink init --example{option}` writes it as job.toml, with a table (flights.sql) and records (flights.jsonl). Then:

  chsink dev sql{option} < flights.sql                    create the table
  chsink dev produce{option} flights flights.jsonl        send the records
  chsink run                                      land them
{_registry(stack)}"""


def root_option(root: Path) -> str:
    """What names the services in a command, with a space before it; "" for those of the default folder."""
    return "" if root == DEFAULT_ROOT else f" --root {shlex.quote(str(root))}"


def _registry(stack: DevStack) -> str:
    """What a job file needs for records whose schemas are registered."""
    return (
        f"""
For records in Avro, Protobuf or JSON with a registered schema, add:

  [schema_registry]
  url = "{stack.registry}"
"""
        if stack.registry
        else ""
    )


def example_job(stack: DevStack, root: Path) -> str:
    """The example job file for a development stack whose folder is ``root``."""
    from chsink.embedded.dev import CHECKPOINT

    shards = len(stack.clickhouse)
    values = {
        "checkpoint": str(root.resolve() / CHECKPOINT),
        "bootstrap": stack.kafka,
        "endpoints": ", ".join(f'"http://{address}"' for address in stack.clickhouse),
        "shard_key": 'shard_key = ["flight"]  # the column that chooses the shard' if shards > 1 else "",
    }
    text = template("example.toml")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def template(name: str) -> str:
    """The text of a file that ``chsink init`` writes."""
    return files("chsink.cli").joinpath("templates", name).read_text(encoding="utf-8")
