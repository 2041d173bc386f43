"""One sink under test: its topics, tables, job file and folder, driven in this process, and the judge of what landed.

Rules:
- A crash is simulated by making the process that owns the step fail or die there (``Failpoints``) and starting over
  with new objects; only Kafka, the state store, the tables and the checkpoint survive.
- The judge imports nothing from ``chsink``: it compares the multiset of (partition, offset, content) that Kafka holds
  with the one that the shards hold.
"""

from __future__ import annotations

import http.client
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from pyspark.sql import DataFrame, SparkSession

from chsink.config import Config, load
from chsink.observe.logs import configure
from chsink.spark import job as spark_job
from chsink.spark.sink import Sink, kafka_stream
from chsink.status.reader import read_status
from tests.support.kafka import Record, Value, produce, read_all
from tests.support.replicas.tables import replicated
from tests.support.spark import FOR_MOMENTS

DATABASE = "job"
COLUMNS: Mapping[str, str] = {"id": "UInt64", "text": "String"}
METADATA = "_kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64"
_STATEMENT_LIMIT_S: Final = 300
WINDOW = "non_replicated_deduplication_window = 10000"

Row = tuple[Any, ...]
RowsOf = Callable[[Record], Iterable[Row]]
Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Verdict:
    """``lost`` and ``surplus`` count rows (partition, offset, content…) that are too few or too many."""

    sent: int
    landed: int
    lost: Counter[Row]
    surplus: Counter[Row]

    @property
    def exactly_once(self) -> bool:
        """Nothing lost, doubled, invented or changed; and something was sent at all."""
        return self.sent == self.landed > 0 and not self.lost and not self.surplus

    def __str__(self) -> str:
        lost, surplus = self.lost.most_common(3), self.surplus.most_common(3)
        return (
            f"sent={self.sent} landed={self.landed} lost={self.lost.total()} surplus={self.surplus.total()} "
            f"(lost {lost}, surplus {surplus})"
        )


@dataclass(slots=True)
class Job:
    """A sink with one topic and one table unless more are added.

    With ``replicas``, the URLs of further replicas of the only shard, its tables are Replicated, and inserts wait for
    most of the replicas.
    """

    name: str
    folder: Path
    bootstrap: str
    shards: Sequence[str]
    weights: Sequence[int] = (1,)
    shard_key: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=lambda: COLUMNS)
    tables: dict[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    replicas: Sequence[str] = ()
    sent: Counter[tuple[str, int]] = field(default_factory=Counter)

    # --- set up ---------------------------------------------------------------------------------------------------

    def make_table(
        self, topic: str, *, columns: str = "", metadata: str = METADATA, engine: str = "", suffix: str = ""
    ) -> str:
        """Create the topic's table on every shard and route the topic to it; returns its name with the database."""
        table = f"t_{topic}".replace("-", "_") + suffix
        payload = columns or ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        what = f"({payload}, {metadata})" if metadata else f"({payload})"
        how = engine or f"ENGINE = MergeTree ORDER BY tuple() SETTINGS {WINDOW}"
        self.create(f"CREATE TABLE {DATABASE}.{table} {what} {how}")
        self.tables[topic] = f"{DATABASE}.{table}"
        return self.tables[topic]

    def create(self, statement: str) -> None:
        """Run the CREATE TABLE of a MergeTree on every shard; with replicas, as that of a Replicated table on all of them."""
        for shard in self.shards:
            command(shard, replicated(statement) if self.replicas else statement)

    def create_for(self, columns: Mapping[str, str]) -> dict[str, str]:
        """A table for each kind of the topic's records, with these columns.  :meth:`check` looks at the first one."""
        names = {kind: f"{DATABASE}.{kind}_{self.name.replace('-', '_')}" for kind in columns}
        for kind, table in names.items():
            how = f"ENGINE = MergeTree ORDER BY tuple() SETTINGS {WINDOW}"
            self.create(f"CREATE TABLE {table} ({columns[kind]}, {METADATA}) {how}")
        self.tables[self.name] = next(iter(names.values()))
        return names

    def everywhere(self, statement: str) -> None:
        """Run what replicas do not take from each other: on every shard and every replica."""
        for url in (*self.shards, *self.replicas):
            command(url, statement)

    @property
    def window(self) -> str:
        """The setting of the tables that says how many blocks they remember."""
        return f"{'' if self.replicas else 'non_'}replicated_deduplication_window"

    @property
    def topic(self) -> str:
        """The first topic."""
        return next(iter(self.tables))

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint."""
        return self.folder / "checkpoint"

    def lose_checkpoint(self) -> None:
        """Remove the checkpoint, which must be there."""
        shutil.rmtree(self.checkpoint)

    def send(self, partition: int, count: int, *, topic: str = "", **options: Any) -> tuple[int, int]:
        """Append ``count`` records with running ids; returns the half-open offsets taken."""
        topic = topic or self.topic
        at = self.sent[topic, partition]
        self.sent[topic, partition] += count
        return self.send_values(
            partition, ({"id": n, "text": f"{partition}:{n}"} for n in range(at, at + count)), topic=topic, **options
        )

    def send_values(
        self, partition: int, values: Iterable[Value], *, topic: str = "", **options: Any
    ) -> tuple[int, int]:
        """Append records of any content."""
        return produce(self.bootstrap, topic or self.topic, partition, values, **options)

    # --- the job file ---------------------------------------------------------------------------------------------

    def file(self) -> Path:
        """Write the job file: it drains the topics, in small chunks and with short timeouts.

        It is replaced as a whole: a test may read it in one thread while another thread writes it.
        """
        path = self.folder / "job.toml"
        more = f", replicas = {json.dumps(list(self.replicas))}" if self.replicas else ""
        endpoints = ", ".join(
            f'{{ url = "{url}", weight = {weight}{more} }}'
            for url, weight in zip(self.shards, self.weights, strict=True)
        )
        conf = ", ".join(f'"{name}" = "{value}"' for name, value in FOR_MOMENTS.items())
        routes = "".join(f'[[route]]\ntopic = "{t}"\ntable = "{table}"\n' for t, table in self.tables.items())
        new = self.folder / f"job.toml.{uuid4().hex}"
        new.write_text(f"""\
{routes}
[sink]
name = "{self.name}"
checkpoint = "{self.checkpoint}"
[kafka]
bootstrap = "{self.bootstrap}"
[clickhouse]
endpoints = [{endpoints}]
database = "{DATABASE}"
shard_key = {json.dumps(list(self.shard_key))}
chunk_offsets = 10
retry_for_s = 20
{'settings = { insert_quorum = "auto" }' if self.replicas else ""}
[state]
timeout_s = 10
[trigger]
mode = "available_now"
[observe]
progress = "never"
[spark]
master = "local[2]"
conf = {{ "spark.ui.enabled" = "false", "spark.ui.showConsoleProgress" = "false", {conf} }}
""")
        new.replace(path)
        return path

    def config(self, overrides: Mapping[str, Any] | None = None) -> Config:
        """The job file with ``overrides`` by dotted key, over those of the job."""
        return load(self.file(), overrides={**self.settings, **(overrides or {})})

    # --- ways in --------------------------------------------------------------------------------------------------

    def drain(self, spark: SparkSession, overrides: Mapping[str, Any] | None = None) -> None:
        """Do what ``chsink run`` does, in the given session, until all records have landed."""
        config = self.config(overrides)
        configure(config.observe.log_format, config.observe.log_level)
        spark_job.run(config, spark)

    def sink(self, overrides: Mapping[str, Any] | None = None) -> Sink:
        """The sink as a program makes it; it logs to standard error."""
        config = self.config(overrides)
        configure(config.observe.log_format, config.observe.log_level)
        return Sink(config)

    def stream(self, spark: SparkSession, sink: Sink, starting_offsets: str | None = None) -> DataFrame:
        """The Kafka source, from where the sink stands unless told otherwise."""
        starting = starting_offsets or sink.starting_offsets()
        return kafka_stream(spark, sink.config, starting, headers=sink.needs_headers())

    def drain_sink(self, spark: SparkSession, transform: Transform, overrides: Mapping[str, Any] | None = None) -> Sink:
        """``Sink(config).start`` over a transformed stream, drained.  Raises the sink's own error."""
        sink = self.sink(overrides)
        try:
            stream = transform(self.stream(spark, sink))
            await_query(sink, lambda: sink.start(stream))
        finally:
            sink.close()
        return sink

    def drain_foreach(
        self,
        spark: SparkSession,
        transform: Transform = lambda stream: stream,
        overrides: Mapping[str, Any] | None = None,
    ) -> Sink:
        """``stream.writeStream.foreachBatch(sink)`` of one's own, drained.  Raises the sink's own error."""
        sink = self.sink(overrides)
        try:
            stream = transform(self.stream(spark, sink))
            writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.checkpoint))
            await_query(sink, lambda: writer.trigger(availableNow=True).start())
        finally:
            sink.close()
        return sink

    # --- looking --------------------------------------------------------------------------------------------------

    def status(self, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What ``chsink status --json`` prints."""
        return read_status(self.config(overrides)).as_dict()

    def phases(self, topic: str = "") -> dict[int, tuple[str, int, int]]:
        """By partition of a topic: (phase, start, end) as recorded."""
        rows = self.status()["partitions"]
        return {p["partition"]: (p["phase"], p["start"], p["end"]) for p in rows if p["topic"] == (topic or self.topic)}

    def in_doubt(self, topic: str = "") -> set[int]:
        """Partitions at BEFORE."""
        return {partition for partition, (phase, _, _) in self.phases(topic).items() if phase == "BEFORE"}

    def landed(self, topic: str = "", columns: Sequence[str] = (), servers: Sequence[str] = ()) -> list[Row]:
        """(partition, offset, content…) of every row of the topic on every shard, or on these servers, sorted."""
        topic = topic or self.topic
        names = ", ".join(f"`{c}`" for c in ("_kafka_partition", "_kafka_offset", *(columns or self.columns)))
        sql = f"SELECT {names} FROM {self.tables[topic]} WHERE _kafka_topic = '{topic}' FORMAT JSONCompactEachRow"
        rows = [_hashable(json.loads(line)) for url in servers or self.shards for line in select(url, sql).splitlines()]
        return sorted(rows, key=repr)

    def verdict(
        self,
        topic: str = "",
        rows_of: RowsOf | None = None,
        columns: Sequence[str] = (),
        servers: Sequence[str] = (),
    ) -> Verdict:
        """Kafka's committed records against the rows of the shards, or of these servers; ``rows_of`` says what a record
        should have become.
        """
        topic = topic or self.topic
        names = tuple(columns or self.columns)
        content = rows_of or (lambda record: [tuple(map(json.loads(record.value or b"{}").get, names))])
        sent = Counter(
            _hashable((record.partition, record.offset, *row))
            for record in read_all(self.bootstrap, topic)
            for row in content(record)
        )
        landed = Counter(self.landed(topic, names, servers))
        return Verdict(sent.total(), landed.total(), sent - landed, landed - sent)

    def check(self, topic: str = "", rows_of: RowsOf | None = None, columns: Sequence[str] = ()) -> None:
        """Exactly once on all replicas, and nothing left in doubt."""
        for servers in self.copies(topic or self.topic):
            verdict = self.verdict(topic, rows_of, columns, servers)
            assert verdict.exactly_once, f"{servers}: {verdict}"
        assert not self.in_doubt(topic)

    def copies(self, topic: str) -> list[Sequence[str]]:
        """The servers that hold all rows of the topic together: the shards, or each replica, which is made current."""
        if not self.replicas:
            return [self.shards]
        for url in (*self.shards, *self.replicas):
            command(url, f"SYSTEM SYNC REPLICA {self.tables[topic]}")
        return [[url] for url in (*self.shards, *self.replicas)]


def await_query(sink: Sink, start: Callable[[], Any]) -> None:
    """Run a query to its end; raise the sink's own error instead of the one in which Spark wraps it."""
    query = start()
    try:
        query.awaitTermination()
    except Exception:
        if sink.failure is not None:
            raise sink.failure from None
        raise


def until(is_so: Callable[[], bool], pause_s: float) -> Iterator[None]:
    """One turn each time that it is not so yet, and a pause after it: longer than the question, which takes the servers'
    time, but no longer than a second.
    """
    while True:
        asked = time.monotonic()
        if is_so():
            return
        pause = max(pause_s, 3 * (time.monotonic() - asked))
        yield
        time.sleep(min(pause, 1))


def eventually(what: str, is_so: Callable[[], bool], limit_s: float = 60) -> None:
    """Wait until ``is_so()``."""
    deadline = time.monotonic() + limit_s
    for _ in until(is_so, 0.1):
        assert time.monotonic() < deadline, f"no {what} within {limit_s} s"


def command(url: str, sql: str) -> None:
    """One statement."""
    _post(url, sql)


def select(url: str, sql: str) -> str:
    """The text of a query's answer."""
    return _post(url, sql, output_format_json_quote_64bit_integers=0).decode()


def _post(url: str, sql: str, **settings: Any) -> bytes:
    """The answer to a statement that succeeds, by plain HTTP: the official client asks three questions of its own first."""
    server = urlsplit(url)
    assert server.hostname is not None, url
    given = {"X-ClickHouse-User": server.username, "X-ClickHouse-Key": server.password}
    connection = http.client.HTTPConnection(server.hostname, server.port, timeout=_STATEMENT_LIMIT_S)
    try:
        headers = {name: text for name, text in given.items() if text}
        connection.request("POST", f"/?{urlencode({**settings, 'wait_end_of_query': 1})}", sql.encode(), headers)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    assert answer.status == HTTPStatus.OK, body.decode()
    return body


def connect(url: str) -> Client:
    """The official client."""
    return clickhouse_connect.get_client(dsn=url, autogenerate_session_id=False)


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((k, _hashable(v)) for k, v in value.items()))
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
