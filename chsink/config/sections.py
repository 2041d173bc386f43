"""The small sections of the job file."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from chsink.config import problems
from chsink.config.problems import refusal
from chsink.config.reserved import REFUSED_TRIGGERS
from chsink.config.values import (
    AsTuple,
    HostPorts,
    NodePath,
    Section,
    SinkName,
    SparkConf,
    Table,
    TableName,
    Text,
    Topic,
    Url,
    parse_table,
)

_INTERVAL = re.compile(r"([0-9]{1,9}) (milliseconds?|seconds?|minutes?|hours?)")
_UNIT_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000}


def _check_interval(text: str) -> str:
    if not _INTERVAL.fullmatch(text):
        hint = 'write a number and a unit: "500 milliseconds", "10 seconds", "1 minute"'
        raise refusal(problems.WRONG_VALUE, f"{text!r} is not an interval", hint)
    return text


def _check_trigger(value: Any) -> Any:
    if isinstance(value, str) and value in REFUSED_TRIGGERS:
        hint = 'use "processing_time", or "available_now" to stop at the end of the log'
        raise refusal(problems.WRONG_VALUE, f"{value!r} is refused: {REFUSED_TRIGGERS[value]}", hint)
    return value


class Sink(Section):
    """What this job is called, and where Spark keeps its progress."""

    name: SinkName = Field(
        description="Name of the sink. The state is kept under it: a sink of another name knows nothing of this one's."
    )
    checkpoint: Text | None = Field(
        default=None, description="Folder or URI of Spark's checkpoint, reachable from the driver. Needed to run."
    )


class Route(Section):
    """One topic and the table its records land in. Several topics may share a table; a topic has one route."""

    topic: Topic = Field(description="Kafka topic.")
    table: Table = Field(description='`"table"` or `"database.table"`; other characters in backticks.')
    shard_key: Annotated[tuple[Text, ...], AsTuple] | None = Field(
        default=None, description="Columns that choose the shard, in place of `clickhouse.shard_key`."
    )

    @property
    def target(self) -> TableName:
        """The table, by its bare names; without a database where the default is meant."""
        return parse_table(self.table)


class State(Section):
    """Where the recorded ranges are kept."""

    store: Literal["keepermap", "zookeeper", "memory"] = Field(
        default="keepermap",
        description="`keepermap`: in ClickHouse; `zookeeper`: without it; `memory`: guarantees nothing across a crash.",
    )
    table: Table = Field(default="chsink_state", description="KeeperMap table, in `clickhouse.database` by default.")
    path: NodePath = Field(default="/chsink/state", description="Path of the KeeperMap table, or root in ZooKeeper.")
    zookeeper: HostPorts | None = Field(
        default=None, description='`"host:port,host:port"`, with `store = "zookeeper"`.'
    )
    endpoint: Url | None = Field(
        default=None, description="ClickHouse endpoint that serves the KeeperMap table; left out, the first shard."
    )
    create_table: bool = Field(default=True, description="Create the KeeperMap table when it is not there.")
    timeout_s: float = Field(default=30, gt=0, le=3600, description="Bound of one read or write of the state.")

    @property
    def target(self) -> TableName:
        """The KeeperMap table, by its bare names."""
        return parse_table(self.table)


class Errors(Section):
    """What happens to records and offsets that cannot be handled as they are."""

    on_bad_value: Literal["halt", "skip"] = Field(
        default="halt", description="A record whose value does not fit: stop, or leave it out, counted and reported."
    )
    on_gap: Literal["halt", "record"] = Field(
        default="halt", description="Offsets that Kafka lost before they were read: stop, or record the gap and go on."
    )
    on_rewind: Literal["halt", "skip"] = Field(
        default="halt", description="A batch that lies below what is recorded: stop, or skip what has been landed."
    )
    null_shard_key: Literal["halt", "first_shard"] = Field(
        default="halt", description="A record without a value in its shard key: stop, or use the first shard."
    )


class Trigger(Section):
    """When Spark plans a micro-batch."""

    mode: Annotated[Literal["processing_time", "available_now"], BeforeValidator(_check_trigger)] = Field(
        default="processing_time", description="Run on, or drain what is there at start and end."
    )
    interval: Annotated[str, AfterValidator(_check_interval)] = Field(
        default="10 seconds", description='Least time between starts of batches, with `mode = "processing_time"`.'
    )

    @property
    def interval_ms(self) -> int:
        """The interval in milliseconds."""
        match = _INTERVAL.fullmatch(self.interval)
        assert match is not None, "validated"
        return int(match[1]) * _UNIT_MS[match[2].removesuffix("s")]


class InDoubt(Section):
    """How long a range left in doubt may be sent again."""

    max_age_s: int = Field(
        default=3600,
        gt=0,
        le=30 * 86_400,
        description="Age up to which it may, and so the most a batch may take; a table's own shorter window wins.",
    )
    margin_s: int = Field(default=30, ge=0, le=86_400, description="Kept free at its end, for clocks and pauses.")


class Observe(Section):
    """What can be seen while the job runs."""

    log_format: Literal["console", "json"] = Field(default="console", description="For people or for a collector.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")
    metrics_port: int | None = Field(
        default=None, ge=0, le=65_535, description="Prometheus metrics on this port of the driver; 0 takes a free one."
    )
    progress: Literal["auto", "never"] = Field(default="auto", description="A progress bar where there is a terminal.")


class Spark(Section):
    """The Spark session that `chsink run` starts. A session that is already there keeps its own."""

    master: Text | None = Field(default=None, description="Cluster to use; left out, Spark's default or `local[*]`.")
    app_name: Text | None = Field(
        default=None, description="Name shown by the cluster; left out, `chsink` and the sink."
    )
    conf: SparkConf = Field(default_factory=dict, description="Spark configuration, by its full names.")
