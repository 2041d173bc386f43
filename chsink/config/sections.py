"""The small sections of the job file."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from chsink.config.options import SparkConf, reserved
from chsink.errors import job_file
from chsink.fields import AsTuple, Section, Table, Text, matching
from chsink.notation.sql import TableName, parse_table

_INTERVAL = r"([0-9]{1,9}) (millisecond|second|minute|hour)s?"
_UNIT_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000}


def _check_trigger(value: Any) -> Any:
    if isinstance(value, str) and value in reserved()["triggers"]:
        raise job_file.TRIGGER_REFUSED(value=repr(value), reason=reserved()["triggers"][value])
    return value


class Sink(Section):
    """The name of this job, and where Spark keeps its progress."""

    name: Annotated[str, matching(r"[A-Za-z0-9._-]{1,100}", otherwise=job_file.NOT_A_SINK_NAME)]
    """Name of the sink, under which its state is kept. Sinks with different names share no state."""
    checkpoint: Text | None = None
    """Directory or URI of Spark's checkpoint, accessible from the driver. Required by `chsink run`."""


class Route(Section):
    """One topic and the table its records land in. Several topics can share a table; a topic has exactly one route."""

    topic: Annotated[str, matching(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", otherwise=job_file.NOT_A_TOPIC)]
    """Kafka topic."""
    table: Table
    """`"table"` or `"database.table"`, with backticks around a name that has other characters."""
    shard_key: Annotated[tuple[Text, ...], AsTuple] | None = None
    """Columns that choose the shard, instead of `clickhouse.shard_key`."""
    format: Literal["json"] = "json"
    """Format of the record's value. Not used if your transform makes the table's columns."""

    @property
    def target(self) -> TableName:
        """The table, by its bare names; without a database where the default is meant."""
        return parse_table(self.table)


class Errors(Section):
    """What happens to records and offsets that cannot be processed normally."""

    on_bad_value: Literal["halt", "skip"] = "halt"
    """What to do with a record that does not fit its table: stop the job, or skip, count and report it."""
    on_tombstone: Literal["bad", "skip"] = "bad"
    """What to do with a record whose Kafka value is null: treat it as a bad value (`on_bad_value`), or skip and
    count it without stopping the job."""
    on_gap: Literal["halt", "record"] = "halt"
    """What to do about offsets that Kafka lost before chsink read them: stop, or record the gap."""
    on_rewind: Literal["halt", "skip"] = "halt"
    """What to do with a batch below the recorded offsets: stop, or skip what has landed."""
    on_existing_rows: Literal["halt", "accept"] = "halt"
    """What to do if a table holds rows that the state does not know: stop, or insert them again."""
    null_shard_key: Literal["halt", "first_shard"] = "halt"
    """What to do with a record whose shard key is NULL: stop the job, or use the first shard."""


class Trigger(Section):
    """When Spark plans a micro-batch."""

    mode: Annotated[Literal["processing_time", "available_now"], BeforeValidator(_check_trigger)] = "processing_time"
    """`processing_time` runs until stopped; `available_now` reads what the topics hold at the start, then ends."""
    interval: Annotated[str, matching(_INTERVAL, otherwise=job_file.NOT_AN_INTERVAL)] = "10 seconds"
    """Minimum time between batch starts, with `mode = "processing_time"`."""

    @property
    def interval_ms(self) -> int:
        """The interval in milliseconds."""
        match = re.fullmatch(_INTERVAL, self.interval)
        assert match is not None, "validated"
        return int(match[1]) * _UNIT_MS[match[2]]


class InDoubt(Section):
    """How long chsink may resend a range that is in doubt."""

    max_age_s: int = Field(default=3600, gt=0, le=30 * 86_400)
    """Maximum age of such a range, in seconds, and so the maximum duration of one round of a batch. A shorter
    deduplication window of the table takes precedence."""
    margin_s: int = Field(default=30, ge=0, le=86_400)
    """Resending ends this many seconds before that age, to allow for clock differences and pauses."""


class Observe(Section):
    """Logs, metrics and progress of a running job."""

    log_format: Literal["console", "json"] = "console"
    """`console` for people, `json` for a log collector."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum log level."""
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    """Port of the driver that serves Prometheus metrics; 0 chooses a free port. Default: no metrics."""
    progress: Literal["auto", "never"] = "auto"
    """`auto` shows a progress bar on a terminal."""


class Spark(Section):
    """The Spark session that `chsink run` starts. A session that exists already keeps its own configuration."""

    master: Text | None = None
    """Cluster to use. Default: Spark's own, or `local[*]`."""
    app_name: Text | None = None
    """Application name that the cluster shows. Default: `chsink` and the sink's name."""
    conf: SparkConf = Field(default_factory=dict)
    """Spark configuration, with full names."""
