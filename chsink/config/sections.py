"""The sections of the job file: each key with its type, its bounds, its default and its description."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from chsink.config.librdkafka import LOGIN_HANDLERS, RefusedOptions, translate
from chsink.config.options import ClickHouseSettings, ClientOptions, KafkaOptions, SparkConf, reserved
from chsink.errors import job_file
from chsink.fields import AsTuple, GivenTable, HostPorts, Password, Section, Text, Token, Topic, Url, matching, reveal
from chsink.notation.hash_functions import HashName
from chsink.notation.sql import quote_identifier

_MIB = 1024 * 1024
_INTERVAL = r"([0-9]{1,9}) (millisecond|second|minute|hour)s?"
_PORT = r"(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ADDRESS = rf"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):{_PORT}"
_UNIT_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000}
Interval = Annotated[str, matching(_INTERVAL, otherwise=job_file.NOT_AN_INTERVAL)]


def interval_ms(text: str) -> int:
    """An :data:`Interval` in milliseconds."""
    match = re.fullmatch(_INTERVAL, text)
    assert match is not None, "validated"
    return int(match[1]) * _UNIT_MS[match[2]]


def _check_trigger(value: object) -> object:
    if isinstance(value, str) and value in reserved()["triggers"]:
        raise job_file.TRIGGER_REFUSED(value=repr(value), reason=reserved()["triggers"][value])
    return value


class SinkSection(Section):
    """The name of this job, and where Spark keeps its progress."""

    name: Annotated[str, matching(r"[A-Za-z0-9._-]{1,100}", otherwise=job_file.NOT_A_SINK_NAME)]
    """Name of the sink, under which its state is kept. Sinks with different names share no state."""
    checkpoint: Text | None = None
    """Directory or URI of Spark's checkpoint, accessible from the driver. Required by `chsink run`."""


class Kafka(Section):
    """Where the records come from.

    Spark's source (a Java client) and chsink's own queries for topics and offsets (librdkafka) use the same cluster.
    Describe the connection once, with Java's option names, in `[kafka.options]`: chsink translates it for librdkafka.
    """

    bootstrap: HostPorts
    """Bootstrap servers: `"host:port,host:port"`, or a list."""
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    """Where to begin at the first start and for a new topic. Partitions that are added later or were reset, recreated
    topics, and new topics that a `topic_pattern` matches begin at their first offset."""
    max_offsets_per_trigger: int | None = Field(default=None, gt=0)
    """Maximum offsets per micro-batch, over all partitions. Default: no limit. A batch that is too large is landed
    in rounds."""
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """`read_committed` leaves out records of aborted transactions."""
    timeout_s: float = Field(default=20, gt=0, le=600)
    """Timeout of a query for topics or offsets, in seconds."""
    options: KafkaOptions = Field(default_factory=dict)
    """Options of the Kafka client, with Java's names and without the prefix `kafka.`: SASL, TLS, fetch sizes. A
    value is a string, a number, a boolean, `{ env = "NAME" }` or `{ file = "path" }`. chsink's own default of
    `fetch.max.wait.ms` is 5: otherwise each task waits 500 ms at the end of its topic-partition. That of
    `max.poll.records` is 2000: otherwise Spark asks the broker for the log's end after every 500 records."""
    client_options_: ClientOptions = Field(default_factory=dict, alias="client_options")
    """Options of librdkafka, which override the translated ones. Rarely needed."""

    def spark_options(self) -> dict[str, str]:
        """Options of Spark's Kafka source that concern the client: ``kafka.…``, with credentials in the clear."""
        handler = {"sasl.login.callback.handler.class": LOGIN_HANDLERS[0]} if self.token_url else {}
        options = {f"kafka.{name}": reveal(value) for name, value in (handler | self.options).items()}
        return options | {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": self.isolation_level,
        }

    @property
    def token_url(self) -> str:
        """Where both clients ask for the tokens of OAUTHBEARER; "" if they log in otherwise."""
        bearer = reveal(self.options.get("sasl.mechanism", "")).upper() == "OAUTHBEARER"
        return reveal(self.options.get("sasl.oauthbearer.token.endpoint.url", "")) if bearer else ""

    def client_options(self) -> dict[str, str]:
        """Properties of a librdkafka client, with credentials in the clear."""
        options, refused = self.translated()
        assert not refused, "a Config is made only when every option has a counterpart (config.checks)"
        return {"bootstrap.servers": self.bootstrap} | options

    def translated(self) -> tuple[dict[str, str], RefusedOptions]:
        """``options`` for librdkafka, and what of them has no counterpart."""
        java = {name: reveal(value) for name, value in self.options.items()}
        return translate(java, {name: reveal(value) for name, value in self.client_options_.items()})


class Endpoint(Section):
    """One shard: its URL, further replicas, its weight. A plain string is short for `{ url = "…" }`."""

    url: Url
    """URL of ClickHouse's HTTP interface, `http[s]://host[:port]` (8123, 8443)."""
    weight: int = Field(default=1, ge=1, le=1_000_000)
    """Share of the rows, as in a `Distributed` table."""
    replicas: Annotated[tuple[Url, ...], AsTuple] = ()
    """URLs of further replicas of the shard, tried in this order."""
    name: str = Field(default="", max_length=100)
    """A name that identifies the shard even if its URLs change."""
    database: str = Field(default="", max_length=200)
    """Database of this shard's tables, if the route names none. Default: `clickhouse.database`. Messages name tables by
    `clickhouse.database`."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value

    @property
    def urls(self) -> tuple[str, ...]:
        """All replicas, the first one first."""
        return (self.url, *self.replicas)


class Tls(Section):
    """TLS to ClickHouse, for `https://` endpoints. The files must exist on the driver and on every executor."""

    ca_file: Text | None = None
    """CA certificates to trust, as a PEM file. Default: the system's."""
    cert_file: Text | None = None
    """Client certificate chain, as a PEM file."""
    key_file: Text | None = None
    """Private key of the client certificate, as a PEM file."""
    verify: bool = True
    """Whether to verify the server's certificate and host name."""


class ClickHouse(Section):
    """Where the rows land: one endpoint for each shard."""

    endpoints: Annotated[tuple[Endpoint, ...], AsTuple]
    """The shards, each a URL or a table `{ url, weight, replicas, name }`. Use the order and the weights of the
    `Distributed` table over them."""
    user: Text = "default"
    """User name, the same for all endpoints."""
    password: Password = SecretStr("")
    """`{ env = "NAME" }` or `{ file = "path" }`. Default: no password."""
    database: Text = "default"
    """Database of tables that are named without one."""
    tls: Tls = Tls()
    """TLS to ClickHouse."""
    hash_function: HashName = "xxHash64"
    """Hash function of the sharding expression of the `Distributed` table; `none` if it is a plain
    integer column, `rand` for `rand()`. See [Hash functions](#hash-functions)."""
    shard_key: Annotated[tuple[Text, ...], AsTuple] = ()
    """Columns that choose the shard. Required with more than one endpoint, except with `hash_function = "rand"`."""
    compression: Literal["none", "lz4", "zstd"] = "lz4"
    """Compression of inserts."""
    chunk_offsets: int = Field(default=100_000, ge=1, le=10_000_000)
    """Offsets per chunk. chsink sends one insert per chunk and shard: with four shards, set four times as many offsets
    to keep the inserts the same size."""
    max_chunk_bytes: int = Field(default=256 * _MIB, ge=_MIB, le=2047 * _MIB)
    """Maximum size of one insert in memory, in bytes."""
    connect_timeout_s: float = Field(default=10, gt=0, le=3600)
    """Timeout of a connection, in seconds."""
    insert_timeout_s: float = Field(default=120, gt=0, le=86_400)
    """Timeout of one attempt of an insert, in seconds."""
    retry_for_s: float = Field(default=300, ge=0, le=86_400)
    """How long to retry an insert, or a query of a batch, in seconds, pauses included. The checks of a start are not
    retried: if a server does not answer them, the job stops with exit code 5, and its supervisor starts it again."""
    settings: ClickHouseSettings = Field(default_factory=dict)
    """Further ClickHouse settings for every insert."""

    @property
    def total_weight(self) -> int:
        """Sum of the shards' weights: what the hash is divided by."""
        return sum(endpoint.weight for endpoint in self.endpoints)


class Errors(Section):
    """What happens to records and offsets that cannot be processed normally."""

    on_bad_value: Literal["halt", "skip", "dead_letter"] = "halt"
    """What to do with a record that does not fit its table: stop the job; skip, count and report it; or keep it whole
    as a [dead letter](dead-letters.md)."""
    on_tombstone: Literal["bad", "skip", "dead_letter", "delete"] = "bad"
    """What to do with a record whose Kafka value is null: treat it as a bad value (`on_bad_value`), skip and
    count it without stopping the job, keep it as a dead letter, or [delete](formats.md#deletes) the row of its key."""
    tolerance: Annotated[
        str, matching(r"none|all|[0-9]{1,9} per [1-9][0-9]{0,8}", otherwise=job_file.NOT_A_TOLERANCE)
    ] = "all"
    """How many bad values a chunk may have: `all`, `none`, or `N per M`: N for every M records of the chunk, and at
    least N. With more, the job stops before it inserts anything of the chunk. Tombstones that `on_tombstone` skips or
    keeps do not count."""
    on_gap: Literal["halt", "record"] = "halt"
    """What to do about offsets that Kafka deleted before chsink read them: stop the job, or record the gap. A
    job that stopped for it also needs a new checkpoint."""
    on_rewind: Literal["halt", "skip"] = "halt"
    """What to do if a batch offers only offsets that landed before: stop the job, or skip them."""
    in_doubt: Literal["halt", "dead_letter"] = "halt"
    """What to do about offsets of a range in doubt that Kafka deleted: stop the job (CHS-308), or give them up and list
    them [as dead letters](dead-letters.md#offsets-that-kafka-deleted). Their records may or may not be in the table."""
    on_existing_rows: Literal["halt", "accept"] = "halt"
    """What to do if a table holds rows that the state does not account for: refuse to start, or insert their
    records again. Set `accept` for one start only: with it, chsink does not notice that a piece of a range in doubt is
    in the table twice."""
    null_shard_key: Literal["halt", "first_shard"] = "halt"
    """What to do with a record whose shard key is NULL: treat it as a bad value (`on_bad_value`), or use
    the first shard."""


class DeadLetters(Section):
    """Where [dead letters](dead-letters.md) go: set exactly one key. Used if `errors.on_bad_value`,
    `errors.on_tombstone` or `errors.in_doubt` is `"dead_letter"`.
    """

    topic: Topic | None = None
    """Kafka topic, on the brokers of `kafka.bootstrap`."""
    table: GivenTable | None = None
    """ClickHouse table on the first endpoint. `chsink sql dead-letters` prints the statement that creates it."""


class Tables(Section):
    """How the target tables [follow the records](tables-that-change.md)."""

    evolution: Literal["off", "add_columns"] = "off"
    """What to do with a field that has no column: ignore it and count it, or add a column for it before the record
    lands."""
    auto_create: bool = False
    """Whether to create a missing table from the records that the topic holds."""
    max_columns: int = Field(default=1_000, ge=1, le=10_000)
    """Maximum number of columns in a table; in an Iceberg table, fields of structs count, too. If records need more,
    the job ends with CHS-289."""
    sample_records: int = Field(default=1_000, ge=1, le=100_000)
    """How many records chsink reads at the beginning, and again at the end, of each partition to derive a new table's
    columns."""
    infer_times: bool = True
    """Whether a new table gets a `Date32` or `DateTime64` column for a JSON field if each sampled text in it is a date
    (`2026-01-31`), or each is a time with `Z` or an offset (`2026-01-31T23:59:59.5Z`). Other text gets a `String`."""
    order_by: Annotated[tuple[Text, ...], AsTuple] = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
    """Sorting key of a new table: columns, in their order. They are not `Nullable`."""
    partition_by: Text | None = None
    """Partition key of a new table, an expression of columns. Default: none."""
    engine: Text | None = None
    """Engine of a new table. Default: `MergeTree`, or `ReplicatedMergeTree` if an endpoint has replicas: its path then
    needs the macros `{shard}` and `{replica}` on each server."""
    cluster: Text | None = None
    """Name of the cluster for `ON CLUSTER`. Default: chsink runs each statement on every URL of
    `clickhouse.endpoints`."""

    @property
    def on_cluster(self) -> str:
        """The clause ``ON CLUSTER``; "" if no cluster is configured."""
        return f" ON CLUSTER {quote_identifier(self.cluster)}" if self.cluster else ""


class Trigger(Section):
    """When Spark plans a micro-batch."""

    mode: Annotated[Literal["processing_time", "available_now"], BeforeValidator(_check_trigger)] = "processing_time"
    """`processing_time` runs until stopped; `available_now` reads what the topics hold at the start, then ends."""
    interval: Interval = "10 seconds"
    """Minimum time between batch starts, with `mode = "processing_time"`."""

    @property
    def interval_ms(self) -> int:
        """The interval in milliseconds."""
        return interval_ms(self.interval)


class InDoubt(Section):
    """Ranges that were announced and are not confirmed."""

    margin_s: int = Field(default=30, ge=0, le=86_400)
    """Allowance for clocks of ClickHouse servers that differ, in seconds. If a table forgets deduplication tokens after
    some time, chsink stops sending a range this much earlier."""


class Observe(Section):
    """Logs, metrics and progress of a running job."""

    log_format: Literal["console", "json"] = "console"
    """`console` for people, `json` for a log collector."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum log level."""
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    """Port of the driver that serves Prometheus metrics, and `/healthz` and `/readyz` for [probes](install.md#probes);
    0 chooses a free port. Default: the driver serves none of these."""
    metrics_host: Text = "127.0.0.1"
    """Address on which the metrics are served. The default is reachable from the driver's own machine only; `0.0.0.0`
    serves them, without a password, on all its IPv4 interfaces."""
    stay_after_halt: bool = False
    """After a halt, or when a newer driver owns the sink, the process stays until SIGTERM: not
    [ready](install.md#probes), without Spark, but with its metrics and its status page. For supervisors that restart
    whatever ends, such as a Kubernetes Deployment. Default: the process ends with exit code 3 or 4."""
    progress: Literal["auto", "never"] = "auto"
    """`auto`: a running job shows how far each table is behind and how fast it catches up: on a terminal below the log,
    elsewhere in log lines [every 30 seconds](operations.md#progress). `never`: it does not."""
    ui: Annotated[str, matching(_ADDRESS, otherwise=job_file.NOT_AN_ADDRESS)] | None = None
    """Address, `"host:port"`, on which the driver serves the [status page](ui.md); port 0 chooses a free port. Default:
    `chsink run` and `chsink mirror run` serve no page, and `chsink ui` uses `127.0.0.1:8686`. An address that other
    machines can reach needs `observe.ui_token`."""
    ui_token: Token | None = None
    """`{ env = "NAME" }` or `{ file = "path" }`: a token of at least 16 characters, which everyone who opens the
    status page must enter. Default: no token."""
    ui_interval_s: float = Field(default=5, ge=1, le=300)
    """How often the status page reads the state store and Kafka while it is open in a browser, in seconds."""
    verify_result: Text | None = None
    """File in which `chsink verify` [keeps its last result](verify.md#the-last-result), for `chsink status` and the
    status page. Default: next to `sink.checkpoint` if that is a folder of this machine; otherwise the result is not
    kept."""

    @property
    def ui_place(self) -> tuple[str, int] | None:
        """Host and port of the status page; None if the job file sets none."""
        if self.ui is None:
            return None
        host, _, port = self.ui.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def ui_is_local(self) -> bool:
        """Whether the page's address can be reached from this machine only."""
        if self.ui_place is None or self.ui_place[0] == "localhost":
            return True
        try:
            return ip_address(self.ui_place[0]).is_loopback
        except ValueError:  # a name
            return False


class Spark(Section):
    """The Spark session that `chsink run` starts. A session that exists already keeps its own configuration."""

    master: Text | None = None
    """Cluster to use. Default: Spark's own, or `local[*]`."""
    app_name: Text | None = None
    """Application name that the cluster shows. Default: `chsink` and the sink's name."""
    conf: SparkConf = Field(default_factory=dict)
    """Spark configuration, with full names."""
