"""The text of the job file that ``chsink init --from-topic`` writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chsink.starter.guess import Guess


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Where the topic is, and where its table is to be.  Several ``endpoints`` are shards.  The sink has the name of
    the checkpoint's folder.
    """

    topic: str
    table: str
    bootstrap: str
    endpoints: Sequence[str]
    registry: str | None
    checkpoint: Path
    shard_key: Sequence[str] = ()


def job_text(start: StartingPoint, guess: Guess) -> str:
    """A job file for one topic.  A JSON string is also a TOML string."""
    quoted = json.dumps
    registry = f"\n[schema_registry]\nurl = {quoted(start.registry)}\n" if start.registry else ""
    skip = 'on_tombstone = "skip"  # Debezium sends one after each delete.\n' if guess.format == "debezium" else ""
    return f"""\
# A chsink job: topic {start.topic} into ClickHouse, each record exactly once. Every key: docs/configuration.md

[sink]
# The state is kept under this name. Never change it while you keep the table.
name = {quoted(start.checkpoint.name)}
# A folder or URI that outlives the driver, for instance "s3a://bucket/checkpoints/{start.checkpoint.name}".
checkpoint = {quoted(str(start.checkpoint))}

[kafka]
bootstrap = {quoted(start.bootstrap)}
# Maximum offsets per micro-batch, over all partitions. Without it, a batch takes everything that Kafka holds.
max_offsets_per_trigger = 1_000_000

[[route]]
topic = {quoted(start.topic)}
table = {quoted(start.table)}
format = {_format(guess)}

[clickhouse]
endpoints = {quoted(list(start.endpoints))}
{_sharding(start)}{registry}
[errors]
# A record that does not fit its table: "halt" the job; "skip", count and report the record; or keep it as a
# "dead_letter" in the topic or table that [dead_letters] names.
on_bad_value = "halt"
{skip}
[trigger]
# "processing_time" runs until stopped; "available_now" lands what the topic holds, then ends.
mode = "processing_time"
"""


def _sharding(start: StartingPoint) -> str:
    if start.shard_key:
        return f"# The columns that choose the shard of a row.\nshard_key = {json.dumps(list(start.shard_key))}\n"
    if len(start.endpoints) > 1:
        return (
            "# Each row goes to a shard at random. To choose it by columns, set shard_key and hash_function to the\n"
            '# sharding key of your Distributed table (docs/deployment.md).\nhash_function = "rand"\n'
        )
    return ""


def _format(guess: Guess) -> str:
    if not guess.options:
        return json.dumps(guess.format)
    options = {"type": guess.format, **guess.options}
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items()) + " }"
