"""``chsink doctor`` on Replicated tables: each thing that can be wrong with a replica, and what is said about it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.dlq.letters import create_table
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.conftest import MakeTopic
from tests.support.job import command, eventually, select
from tests.support.replicas.service import ReplicaClickHouse, replicas, running
from tests.support.told import says, statements_of, words_of

pytestmark = pytest.mark.slow
COLUMNS = "id UInt32, _kafka_topic String, _kafka_partition Int32, _kafka_offset Int64"
Findings = Sequence[Mapping[str, str]]


@dataclass
class Bench:
    """A sink whose table ``t``, dead letters ``dead``, and a view's table ``filled`` have two replicas."""

    folder: Path
    bootstrap: str
    urls: Sequence[str]
    keeper: str
    topic: str
    database: str
    listed: Sequence[str] = field(default=())

    def everywhere(self, sql: str) -> None:
        for url in self.urls:
            command(url, sql)

    def make(self, name: str, columns: str = COLUMNS, settings: str = "") -> None:
        engine = f"ReplicatedMergeTree('{self.path(name)}', '{{replica}}') ORDER BY tuple() {settings}"
        self.everywhere(f"CREATE TABLE {self.database}.{name} ({columns}) ENGINE = {engine}")

    def make_letters(self) -> None:
        statement = create_table(f"{self.database}.dead")
        engine = f"ENGINE = ReplicatedMergeTree('{self.path('dead')}', '{{replica}}')"
        self.everywhere(statement.replace("ENGINE = MergeTree", engine).partition("\nSETTINGS")[0])

    def path(self, name: str) -> str:
        return f"/doctor/{self.database}/{name}"

    def insert(self, name: str = "t", column: str = "id") -> None:
        """A row on the first replica, which waits for nobody."""
        sql = f"INSERT INTO {self.database}.{name} ({column}) SETTINGS async_insert = 0"
        command(self.urls[0], f"{sql} VALUES ({time.monotonic_ns() % 2**32})")

    def doctor(self, *overrides: str) -> Findings:
        replicas = ", ".join(f'"{url}"' for url in (self.listed or self.urls[1:]))
        path = self.folder / "job.toml"
        path.write_text(
            f"""
            sink = {{ name = "{self.topic}" }}
            kafka = {{ bootstrap = "{self.bootstrap}" }}
            state = {{ timeout_s = 5 }}
            errors = {{ on_bad_value = "dead_letter", on_existing_rows = "accept" }}
            dead_letters = {{ table = "dead" }}
            [[route]]
            topic = "{self.topic}"
            table = "t"
            [clickhouse]
            database = "{self.database}"
            endpoints = [{{ url = "{self.urls[0]}", replicas = [{replicas}] }}]
            settings = {{ insert_quorum = "auto" }}
            """,
            encoding="utf-8",
        )
        sets = [word for override in overrides for word in ("--set", override)]
        return [one for one in _findings(path, *sets) if one["severity"] != "ok" and one["id"] != "CHS-217"]

    def ok(self) -> Sequence[str]:
        """The sentences of what is well, each table's own: the text for a person says what is alike once."""
        self.doctor()
        return [one["sentence"] for one in _findings(self.folder / "job.toml") if one["severity"] == "ok"]


def _findings(path: Path, *options: str) -> Findings:
    result = CliRunner().invoke(app, ["doctor", "-c", str(path), "--json", *options])
    assert result.exit_code in (0, 1), result.output
    found: Findings = json.loads(result.stdout)["findings"]
    return found


@pytest.fixture
def bench(
    tmp_path: Path,
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    pair: list[ReplicaClickHouse],
    topic: MakeTopic,
) -> Iterator[Bench]:
    database = f"doctor_{uuid.uuid4().hex[:8]}"
    urls = [server.url for server in pair]
    made = Bench(tmp_path, kafka.bootstrap, urls, zookeeper.hosts, topic(1), database)
    made.everywhere(f"CREATE DATABASE {database}")
    made.make("t")
    made.make_letters()
    yield made
    made.everywhere(f"DROP DATABASE {database} SYNC")


def test_all_is_well(bench: Bench) -> None:
    bench.insert()
    assert bench.doctor() == []
    said = bench.ok()
    for name in ("t", "dead"):
        at = f"{bench.database}.{name}"
        assert f"{at} has 2 replicas, insert_quorum is auto" in said
        window = f"{at} at {bench.urls[0]} remembers 10000 blocks, for 3600 s"
        settle = "no insert of a range starts later than 3450 s after its announcement"
        assert f"{window}; an insert with all its retries takes up to 450 s, and {settle}" in said


COLUMN = {"t": "id", "dead": "reason", "filled": "n"}


def lags(bench: Bench, table: str) -> None:
    command(bench.urls[1], f"SYSTEM STOP FETCHES {bench.database}.{table}")
    bench.insert(table, COLUMN[table])
    time.sleep(6)


def stands(bench: Bench, table: str) -> None:
    command(bench.urls[1], f"SYSTEM STOP PULLING REPLICATION LOG {bench.database}.{table}")
    bench.insert(table, COLUMN[table])


def has_lost_parts(bench: Bench, table: str) -> None:
    with_keeper(bench, lambda keeper: keeper.set(f"{bench.path(table)}/lost_part_count", b"2"))


def is_readonly(bench: Bench, table: str) -> None:
    """Its part of the Keeper is gone."""
    with_keeper(bench, lambda keeper: keeper.delete(f"{bench.path(table)}/replicas/1", recursive=True))
    command(bench.urls[1], f"SYSTEM RESTART REPLICA {bench.database}.{table}")
    sql = f"SELECT is_readonly FROM system.replicas WHERE database = '{bench.database}' AND table = '{table}'"
    eventually("a read-only replica", lambda: select(bench.urls[1], sql).strip() == "1")


def has_a_ghost(bench: Bench, table: str) -> None:
    """A third replica, which the job file does not list, and which is down."""
    [(ddl,)] = [(select(bench.urls[1], f"SHOW CREATE TABLE {bench.database}.{table} FORMAT TSVRaw"),)]
    ghost = ddl.replace(f"{bench.database}.{table}", f"{bench.database}.ghost").replace("'{replica}'", "'ghost'")
    command(bench.urls[1], ghost)
    command(bench.urls[1], f"DETACH TABLE {bench.database}.ghost")


def with_keeper(bench: Bench, act: Callable[[KazooClient], object]) -> None:
    keeper = KazooClient(bench.keeper)
    keeper.start()
    try:
        act(keeper)
    finally:
        keeper.stop()
        keeper.close()


@pytest.mark.soak
@pytest.mark.parametrize("table", ["t", "dead", "filled"])
def test_what_is_wrong_with_a_replica(bench: Bench, table: str) -> None:
    """Of the target, the table of dead letters, and the table that a view fills."""
    at, second = f"{bench.database}.{table}", bench.urls[1]
    bench.make("filled", "n UInt32")
    bench.everywhere(
        f"CREATE MATERIALIZED VIEW {bench.database}.v TO {bench.database}.filled AS SELECT id AS n FROM {bench.database}.t"
    )
    bench.insert()
    assert bench.doctor() == []

    stands(bench, table)
    [found] = bench.doctor()
    assert (found["id"], found["severity"]) == ("CHS-245", "warning")
    assert found["sentence"].startswith(
        f"{at} at {second} does not follow the other replicas (entries of the replication log not yet fetched: 1)"
    )
    command(second, f"SYSTEM START PULLING REPLICATION LOG {at}")
    eventually("the log", lambda: bench.doctor() == [])

    lags(bench, table)
    [found] = bench.doctor()
    assert (found["id"], found["severity"]) == ("CHS-245", "warning")
    assert found["sentence"].startswith(f"{at} at {second} is ") and "s behind the other replicas" in found["sentence"]
    command(second, f"SYSTEM START FETCHES {at}")
    eventually("the rows", lambda: bench.doctor() == [])

    has_a_ghost(bench, table)
    said = {one["id"]: (one["severity"], one["sentence"]) for one in bench.doctor()}
    assert said == {
        "CHS-247": ("warning", f"2 of 3 replicas of {at} are active; an insert needs 2"),
        "CHS-248": ("warning", f"{at} has replicas that the job file does not list: ghost"),
    }
    command(second, f"SYSTEM DROP REPLICA 'ghost' FROM ZKPATH '{bench.path(table)}'")
    assert bench.doctor() == []

    has_lost_parts(bench, table)
    [one, two] = [one for one in bench.doctor() if one["id"] == "CHS-246"]
    assert one["sentence"].startswith(f"{at} at {bench.urls[0]} has lost 2 parts")
    assert two["sentence"].startswith(f"{at} at {second} has lost 2 parts")
    with_keeper(bench, lambda keeper: keeper.set(f"{bench.path(table)}/lost_part_count", b"0"))

    is_readonly(bench, table)
    found = next(one for one in bench.doctor() if one["id"] == "CHS-244")
    assert (found["severity"], found["sentence"]) == ("warning", f"{at} at {second} takes no inserts: it is read-only")
    for statement in ("RESTART", "RESTORE"):
        assert f"SYSTEM {statement} REPLICA {at}" in found["fix"]
        command(second, f"SYSTEM {statement} REPLICA {at}")
    eventually("a replica that takes inserts", lambda: bench.doctor() == [])


@pytest.mark.soak
def test_a_view_that_only_one_replica_has(bench: Bench) -> None:
    """⚑ Replicas do not share views: what was inserted through the other one never reached the view's table."""
    at, view = f"{bench.database}.t", f"{bench.database}.v"
    bench.make("filled")
    made = f"CREATE MATERIALIZED VIEW {view} TO {bench.database}.filled AS SELECT * FROM {at}"
    command(bench.urls[0], made)
    [found] = bench.doctor()
    assert (found["id"], found["severity"]) == ("CHS-208", "warning")
    assert found["sentence"].startswith(f"not every replica of {at} has the materialized views {view} ")
    command(bench.urls[1], made)
    assert bench.doctor() == []


@pytest.mark.soak
@pytest.mark.exit_of("REPLICA_ZONES")
def test_replicas_in_two_time_zones(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    """⚑ They put one time into two table partitions: a piece that was sent to one, and again to the other, landed twice."""
    [server] = replicas(tmp_path / "elsewhere", zookeeper.hosts, 1)
    bench.everywhere(f"DROP TABLE {bench.database}.t SYNC")
    bench.make("t", settings=(cut := "PARTITION BY id % 2"))
    monkeypatch.setenv("TZ", "America/New_York")
    with running([server]):
        command(server.url, f"CREATE DATABASE {bench.database}")
        engine = f"ReplicatedMergeTree('{bench.path('t')}', 'elsewhere') ORDER BY tuple() {cut}"
        command(server.url, f"CREATE TABLE {bench.database}.t ({COLUMNS}) ENGINE = {engine}")
        bench.listed = [*bench.urls[1:], server.url]
        found = next(one for one in bench.doctor() if "different time zones" in one["sentence"])
        says(found["fix"], "set the same `<timezone>` in the configuration of these servers, and restart them")
        [zone] = {select(url, "SELECT timezone()").strip() for url in bench.urls}
        monkeypatch.setenv("TZ", zone)  # the engine here takes its zone from its environment
        server.stop()
        server.start()
        status = CliRunner().invoke(app, words_of(found["fix"], "status"))
        assert status.exit_code == 0 and "BEFORE" not in status.output, status.output
        assert not [one for one in bench.doctor() if "different time zones" in one["sentence"]]
    assert (found["id"], found["severity"]) == ("CHS-207", "error")
    assert f"{bench.database}.t is on" in found["sentence"] and f"{server.url}: America/New_York" in found["sentence"]


def test_a_listed_replica_that_is_away(bench: Bench) -> None:
    bench.listed = [bench.urls[1], "http://127.0.0.1:1"]
    [found] = bench.doctor("clickhouse.connect_timeout_s=1")
    assert (found["id"], found["severity"]) == ("CHS-249", "warning")
    assert found["sentence"].startswith("http://127.0.0.1:1, a replica in the job file, does not answer: ")


def test_no_quorum(bench: Bench) -> None:
    """⚑ Rows, and dead letters, that only one replica acknowledged are lost with it."""
    found = [one for one in bench.doctor("clickhouse.settings.insert_quorum=0") if one["id"] == "CHS-207"]
    assert [one["sentence"].partition(" ")[0] for one in found] == [f"{bench.database}.{t}" for t in ("t", "dead")]
    assert {one["severity"] for one in found} == {"error"}


@pytest.mark.soak
def test_how_long_a_table_remembers_tokens(bench: Bench) -> None:
    both = [f"{bench.database}.{name}" for name in ("t", "dead")]
    for override, severity in (("retry_for_s=4000", "warning"), ("insert_timeout_s=3600", "error")):
        found = bench.doctor(f"clickhouse.{override}")
        assert [(one["id"], one["severity"]) for one in found] == [("CHS-234", severity)] * 2
        assert [one["sentence"].partition(" ")[0] for one in found] == both
    found = bench.doctor("clickhouse.retry_for_s=4000")
    for one in found:
        bench.everywhere(statements_of(one["fix"], "ALTER TABLE")[0])
    eventually("the windows", lambda: bench.doctor("clickhouse.retry_for_s=4000") == [])


def test_replicas_with_windows_of_their_own(bench: Bench) -> None:
    """⚑ Settings are each replica's own, and it removes tokens of all: the least counts.  Replicas of two versions of
    ClickHouse may each remember less than the other.
    """
    blocks, seconds = "replicated_deduplication_window", "replicated_deduplication_window_seconds"
    for table in ("t", "dead"):
        for url, setting in zip(bench.urls, (f"{blocks} = 20", f"{seconds} = 300"), strict=True):
            command(url, f"ALTER TABLE {bench.database}.{table} MODIFY SETTING {setting}")
    found = bench.doctor("clickhouse.retry_for_s=1")
    assert [(one["id"], one["severity"]) for one in found] == [("CHS-234", "warning")] * 4
    for one, url, theirs in zip(found, bench.urls, ("20 blocks for 3600 s", "10000 blocks for 300 s"), strict=False):
        assert one["sentence"].startswith(f"{bench.database}.t at {url} remembers {theirs}, less than another replica")
        assert one["sentence"].endswith("on the shortest memory only: 20 blocks for 300 s")
    [short, _] = [one for one in bench.doctor("clickhouse.insert_timeout_s=299") if one["severity"] == "error"]
    assert "remembers a deduplication token for 300 s, but an insert and the margin take 329 s" in short["sentence"]
    for one, url in zip(found, [*bench.urls, *bench.urls], strict=True):
        command(url, statements_of(one["fix"], "ALTER TABLE")[0])
    assert bench.doctor("clickhouse.retry_for_s=1") == []


def test_a_replica_that_remembers_nothing(bench: Bench) -> None:
    """⚑ It takes inserts twice, and removes what the other one remembers."""
    setting = "MODIFY SETTING replicated_deduplication_window"
    command(bench.urls[1], f"ALTER TABLE {bench.database}.t {setting} = 0")
    [found] = bench.doctor()
    assert (found["id"], found["severity"]) == ("CHS-210", "error")
    assert found["sentence"].startswith(f"{bench.database}.t at {bench.urls[1]} does not deduplicate inserts")


def test_a_view_whose_table_forgets_sooner(bench: Bench) -> None:
    """⚑ A piece that is sent again is dropped by the table, and stored a second time behind the view."""
    bench.make("filled", "n UInt32", "SETTINGS replicated_deduplication_window_seconds = 60")
    bench.everywhere(
        f"CREATE MATERIALIZED VIEW {bench.database}.v TO {bench.database}.filled AS SELECT id AS n FROM {bench.database}.t"
    )
    [found] = bench.doctor()
    assert (found["id"], found["severity"]) == ("CHS-208", "warning")
    assert "remembers 10000 blocks for 60 s, less than" in found["sentence"]
    bench.everywhere(found["fix"].partition("replica, run ")[2].partition(";")[0])
    assert bench.doctor() == []
