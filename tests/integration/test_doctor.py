"""``chsink doctor`` against real services: each thing that can be wrong, and what is said about it."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client
from confluent_kafka import Producer
from structlog.testing import capture_logs
from typer.testing import CliRunner

from chsink.checks import check_start
from chsink.cli.main import app
from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.grants import SYSTEM_TABLES
from chsink.clickhouse.landing import assemble, present_fingerprint
from chsink.config import load
from chsink.connect import Services, connected
from chsink.driver.ledger import Ledger
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.clickhouse.users import ClickHouseUser
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.topics import delete_records
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.errors import PreflightError
from chsink.formats.pipeline import Untouched
from chsink.observe.logs import configure
from chsink.observe.metrics import Metrics
from chsink.observe.observer import JobObserver
from chsink.statemachine import writes
from chsink.statemachine.parts import Mark, Seen, Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from tests.conftest import MakeTopic
from tests.support.kafka import produce

pytestmark = pytest.mark.slow

COLUMNS = "id UInt32, _kafka_topic String, _kafka_partition Int32, _kafka_offset Int64"
DEDUPLICATING = "ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100"


@dataclass
class Bench:
    """One sink with a topic of two partitions and a table on one server."""

    folder: Path
    bootstrap: str
    server: EmbeddedClickHouse
    topic: str
    database: str
    client: Client
    user: str = "default"
    further: str = ""

    @property
    def job(self) -> Path:
        path = self.folder / "job.toml"
        path.write_text(
            f"""
            [sink]
            name = "{self.topic}"
            [kafka]
            bootstrap = "{self.bootstrap}"
            [[route]]
            topic = "{self.topic}"
            table = "t"
            {self.further}
            [clickhouse]
            database = "{self.database}"
            user = "{self.user}"
            endpoints = ["{self.server.url}"]
            chunk_offsets = 10
            [state]
            timeout_s = 5
            """,
            encoding="utf-8",
        )
        return path

    def make_table(self, columns: str = COLUMNS, engine: str = DEDUPLICATING, name: str = "t") -> None:
        self.client.command(f"CREATE TABLE {self.database}.{name} ({columns}) {engine}")

    def doctor(self, *overrides: str) -> Report:
        sets = [word for override in overrides for word in ("--set", override)]
        result = CliRunner().invoke(app, ["doctor", "-c", str(self.job), "--json", *sets])
        assert result.exit_code in (0, 1), result.output
        return Report(result.exit_code, json.loads(result.stdout)["findings"])

    def connected(self) -> AbstractContextManager[Services]:
        return connected(load(self.job))

    def record(self, change: Callable[[StateRecord, int, str], StateRecord], partition: int = 0) -> None:
        """Let a driver write one record."""
        with self.connected() as services:
            key = StateKey(self.topic, self.topic, partition, f"{self.database}.t")
            ledger = Ledger(services.store, self.topic, "a test", services.clock, lambda: uuid.uuid4().hex)
            ledger.claim([key], services.clickhouse.layouts)
            ledger.write({key: change(ledger.records[key], ledger.epoch, ledger.attempt())})

    def announced(self, *, landed: bool, age_s: float = 0, topic_id: str | None = None, partition: int = 0) -> None:
        """Record that [0, 5) of a partition was announced, or landed too."""
        table = f"{self.database}.t"
        with self.connected() as services:
            said = writes.Announcement(
                topic_id or services.kafka.topic_ids([self.topic])[self.topic],
                Sending(
                    10,
                    services.clickhouse.layout(services.config.routes[0]).fingerprint(),
                    present_fingerprint(services.clickhouse, (self.topic, table), Untouched("read_committed")),
                ),
                Seen(
                    int((time.time() - age_s) * 1000),
                    tuple(
                        Mark(m.blocks, m.since_s - int(age_s))  # the server of that time had been started before it
                        for m in services.clickhouse.window().marks([table])[table]
                    ),
                ),
            )

        def before(record: StateRecord, epoch: int, attempt: str) -> StateRecord:
            new = writes.before(record, OffsetRange(0, 5), said, epoch=epoch, attempt=attempt, fresh=True)
            return writes.after(new, epoch=epoch, attempt=attempt) if landed else new

        self.record(before, partition)


@dataclass
class Report:
    """What doctor said."""

    exit_code: int
    findings: Sequence[Mapping[str, str]]

    def of(self, id: str) -> list[Mapping[str, str]]:
        return [f for f in self.findings if f["id"] == id]

    def severities(self, id: str) -> set[str]:
        return {f["severity"] for f in self.of(id)}

    @property
    def errors(self) -> set[str]:
        return {f["id"] for f in self.findings if f["severity"] == "error"}

    @property
    def warnings(self) -> set[str]:
        return {f["id"] for f in self.findings if f["severity"] == "warning"}


@pytest.fixture
def database(clickhouse: list[EmbeddedClickHouse]) -> Iterator[str]:
    name = f"doctor_{uuid.uuid4().hex[:8]}"
    for server in clickhouse:
        with connect(server) as client:
            client.command(f"CREATE DATABASE {name}")
    yield name
    for server in clickhouse:
        with connect(server) as client:
            client.command(f"DROP DATABASE {name} SYNC")


def connect(server: EmbeddedClickHouse) -> Client:
    return clickhouse_connect.get_client(host=server.host, port=server.port, autogenerate_session_id=False)


@pytest.fixture
def bench(
    tmp_path: Path, kafka: EmbeddedKafka, clickhouse: list[EmbeddedClickHouse], database: str, topic: MakeTopic
) -> Iterator[Bench]:
    with connect(clickhouse[0]) as client:
        name = topic(2, config={"retention.ms": "3600000"})
        yield Bench(tmp_path, kafka.bootstrap, clickhouse[0], name, database, client)


def test_all_is_well(bench: Bench) -> None:
    bench.make_table()

    report = bench.doctor()

    assert (report.exit_code, report.errors, report.warnings) == (0, set(), set())
    asked = {f["id"] for f in report.findings}
    assert asked >= {f"CHS-{n}" for n in (201, 203, 211, 215, 216, 218, 221, 223, 225, 227, 228, 231)}


def test_it_is_told_in_lines(bench: Bench) -> None:
    bench.make_table(engine="ENGINE = Log")

    result = CliRunner().invoke(app, ["doctor", "-c", str(bench.job)])

    assert result.exit_code == 1
    assert "error   CHS-203" in result.stdout
    assert "fix: write to the MergeTree tables themselves" in result.stdout


def test_only_what_is_wrong_is_printed(bench: Bench) -> None:
    bench.make_table(engine="ENGINE = MergeTree ORDER BY id")
    result = CliRunner().invoke(app, ["doctor", "-c", str(bench.job), "--problems"])
    assert result.exit_code == 1
    *lines, last = result.stdout.splitlines()
    assert {line.split()[0] for line in lines} <= {"error", "warning", "fix:"}
    assert any("CHS-210" in line for line in lines)
    assert " ok" in last

    result = CliRunner().invoke(app, ["doctor", "-c", str(bench.job), "--problems", "--json"])
    assert {finding["severity"] for finding in json.loads(result.stdout)["findings"]} <= {"error", "warning"}
    assert Report(1, json.loads(result.stdout)["findings"]).errors == {"CHS-210"}


def test_all_tests_of_a_sinks_state_store_use_one_row(bench: Bench) -> None:
    bench.make_table()
    bench.doctor()
    bench.doctor()

    rows = bench.client.query(f"SELECT key FROM {bench.database}.chsink_state WHERE startsWith(key, '{bench.topic}!')")
    assert rows.result_rows == [(f"{bench.topic}!self-test",)]


# --- the target ------------------------------------------------------------------------------------------------------


def test_no_table(bench: Bench) -> None:
    assert bench.doctor().errors == {"CHS-202"}


def test_a_column_that_only_the_format_names(bench: Bench) -> None:
    """⚡ Only the start said so, after Spark had begun."""
    bench.make_table()
    fields = '{ type = "json", fields = { amont = "$.price" } }'
    report = bench.doctor(f'route=[{{ topic = "{bench.topic}", table = "t", format = {fields} }}]')
    assert report.errors == {"CHS-212"}


def test_a_table_that_does_not_deduplicate(bench: Bench) -> None:
    bench.make_table(engine="ENGINE = MergeTree ORDER BY id")
    report = bench.doctor()
    assert report.errors == {"CHS-210"}
    assert not report.of("CHS-211"), "a table that remembers nothing has no window to compare with"


@pytest.mark.parametrize(
    "now", ["now()", "CURRENT_TIMESTAMP", "fromUnixTimestamp(toUInt32(generateSerialID('doctor')))"]
)
def test_a_volatile_default_and_a_partition_key_on_it(bench: Bench, now: str) -> None:
    bench.make_table(f"{COLUMNS}, at DateTime DEFAULT {now}")
    assert bench.doctor().severities("CHS-209") == {"warning"}
    bench.client.command(f"DROP TABLE {bench.database}.t SYNC")
    bench.make_table(f"{COLUMNS}, at DateTime DEFAULT {now}", DEDUPLICATING.replace("ORDER", "PARTITION BY at ORDER"))
    assert bench.doctor().errors == {"CHS-206"}


def test_a_batch_larger_than_the_window(bench: Bench) -> None:
    """⚑ preflight bounds the chunks of a round by half of the window, less its spare tenth, as the driver does."""
    bench.make_table()
    assert bench.doctor("kafka.max_offsets_per_trigger=430").severities("CHS-211") == {"ok"}
    assert bench.doctor("kafka.max_offsets_per_trigger=440").severities("CHS-211") == {"info"}


def test_a_batch_spread_over_table_partitions(bench: Bench) -> None:
    bench.make_table(engine=DEDUPLICATING.replace("ORDER", "PARTITION BY id % 4 ORDER"))
    assert bench.doctor("kafka.max_offsets_per_trigger=400").severities("CHS-211") == {"ok"}
    bench.client.command(f"INSERT INTO {bench.database}.t (id) SELECT number FROM numbers(4)")
    report = bench.doctor("kafka.max_offsets_per_trigger=400", "clickhouse.settings.max_partitions_per_insert_block=3")
    assert report.severities("CHS-211") == {"warning"}
    assert report.severities("CHS-230") == {"warning"}


def test_views_whose_tables_do_not_deduplicate(bench: Bench) -> None:
    bench.make_table()
    bench.make_table("n UInt64", "ENGINE = MergeTree ORDER BY n", "sums")
    bench.make_table("n UInt64", DEDUPLICATING.replace("id", "n"), "good")
    at = bench.database
    bench.client.command(f"CREATE MATERIALIZED VIEW {at}.to_good TO {at}.good AS SELECT count() AS n FROM {at}.t")
    assert bench.doctor().severities("CHS-208") == {"ok"}
    bench.client.command(f"CREATE MATERIALIZED VIEW {at}.to_sums TO {at}.sums AS SELECT n FROM {at}.good")
    bench.client.command(
        f"CREATE MATERIALIZED VIEW {at}.inner ENGINE = MergeTree ORDER BY n AS SELECT count() AS n FROM {at}.t"
    )

    found = bench.doctor().of("CHS-208")

    assert [f["severity"] for f in found] == ["warning", "warning"]
    assert all("MODIFY SETTING non_replicated_deduplication_window" in f["fix"] for f in found)
    for finding in found:
        bench.client.command(finding["fix"].partition("replica, run ")[2].partition(";")[0])
    assert bench.doctor().severities("CHS-208") == {"ok"}


@pytest.mark.parametrize(
    ("columns", "select", "partition", "says"),
    [
        ("id UInt64, at DateTime DEFAULT now()", "id", "toYYYYMM(at)", "partitioned by at"),
        ("id UInt64, at DateTime DEFAULT now()", "id, toDateTime(id) AS at", "toYYYYMM(at)", ""),
        ("id UInt64, host String", "id, concat('at ', hostName()) AS host", "host", "partitioned by host"),
        ("id UInt64, at DateTime", "id, now() AS at", "id % 2", ""),
    ],
)
def test_a_view_whose_table_is_partitioned_by_the_time_of_the_insert(
    bench: Bench, columns: str, select: str, partition: str, says: str
) -> None:
    """⚑ A token is remembered for each table partition: a piece that was sent again a second later was there twice."""
    bench.make_table()
    at, engine = bench.database, DEDUPLICATING.replace("ORDER BY", f"PARTITION BY {partition} ORDER BY")
    bench.make_table(columns, engine, "filled")
    bench.client.command(f"CREATE MATERIALIZED VIEW {at}.v TO {at}.filled AS SELECT {select} FROM {at}.t")
    [found] = bench.doctor().of("CHS-208")
    assert (found["severity"], says in found["sentence"]) == ("warning" if says else "ok", True)


def test_a_metadata_column_that_records_do_not_fit(bench: Bench) -> None:
    bench.make_table(COLUMNS + ", _kafka_timestamp DateTime")
    assert bench.doctor().errors == {"CHS-223"}


# --- servers ---------------------------------------------------------------------------------------------------------


def test_a_setting_that_the_server_does_not_know(bench: Bench) -> None:
    bench.make_table()

    report = bench.doctor("clickhouse.settings.no_such_setting=1")

    assert report.errors == {"CHS-215"}
    assert "no_such_setting" in report.of("CHS-215")[0]["sentence"]


def test_an_endpoint_that_is_not_there_costs_only_its_own_checks(bench: Bench) -> None:
    report = bench.doctor(
        'clickhouse.endpoints=["http://127.0.0.1:1"]', "clickhouse.connect_timeout_s=1", "state.store=memory"
    )

    assert report.errors == {"CHS-709"}
    assert report.severities("CHS-201") == {"ok"}


def test_a_wrong_port_of_clickhouse_is_said_once(bench: Bench) -> None:
    """CHS-701 said "check [state]", too, of a section that the job file does not have."""
    report = bench.doctor('clickhouse.endpoints=["http://127.0.0.1:1"]', "clickhouse.connect_timeout_s=1")

    assert report.errors == {"CHS-709"}
    elsewhere = bench.doctor("state.url=http://127.0.0.1:1", "clickhouse.connect_timeout_s=1")
    assert "CHS-701" in elsewhere.errors


@pytest.mark.soak
def test_kafka_is_not_there(bench: Bench) -> None:
    bench.make_table()
    report = bench.doctor("kafka.bootstrap=127.0.0.1:1", "kafka.timeout_s=2")

    assert report.errors == {"CHS-702"}
    assert len(report.of("CHS-702")) == 1


@pytest.fixture(scope="module")
def guarded_server(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[EmbeddedClickHouse]:
    """A server with users of few rights, and a profile that lets nobody change ``input_format_parallel_parsing``."""
    constraint = "<constraints><input_format_parallel_parsing><readonly/></input_format_parallel_parsing></constraints>"
    readonly = f"<profiles><default>{constraint}</default></profiles>"
    system = [f"GRANT SELECT ON {name}" for name in (*SYSTEM_TABLES, "system.clusters")]
    users = [
        ClickHouseUser("admin"),
        ClickHouseUser("right", grants=(
            "GRANT SELECT, INSERT ON g.t", "GRANT SELECT, INSERT, ALTER UPDATE, ALTER DELETE ON g.chsink_state", *system,
        )),
        ClickHouseUser("mixed", grants=(
            "GRANT SELECT, INSERT ON g.t", "GRANT SELECT, INSERT, TRUNCATE, DROP TABLE ON g.u", "GRANT SELECT ON g.w",
            "GRANT SELECT, INSERT, ALTER UPDATE ON g.chsink_state", *system,
        )),
        ClickHouseUser("poor", grants=("GRANT SELECT ON g.t", "GRANT SELECT, INSERT ON g.chsink_state", *system)),
    ]  # fmt: skip
    server = EmbeddedClickHouse(
        tmp_path_factory.mktemp("guarded"),
        zookeeper=zookeeper.hosts,
        keeper_map_prefix=f"/doctor_{uuid.uuid4().hex[:8]}",
        users=users,
        users_xml=readonly,
    )
    with server:
        yield server


@pytest.fixture
def guarded(
    tmp_path: Path, kafka: EmbeddedKafka, guarded_server: EmbeddedClickHouse, topic: MakeTopic
) -> Iterator[Bench]:
    with clickhouse_connect.get_client(
        host=guarded_server.host, port=guarded_server.port, username="admin", autogenerate_session_id=False
    ) as client:
        client.command("CREATE DATABASE g")
        yield Bench(tmp_path, kafka.bootstrap, guarded_server, topic(1), "g", client, user="admin")
        client.command("DROP DATABASE g SYNC")


def test_grants_and_settings_of_the_user(guarded: Bench) -> None:
    guarded.make_table()
    admin = guarded.doctor()
    assert admin.errors == {"CHS-215"}
    assert "input_format_parallel_parsing" in admin.of("CHS-215")[0]["sentence"]
    assert admin.severities("CHS-217") == {"info"}

    guarded.user = "right"
    right = guarded.doctor()
    assert right.errors == {"CHS-215"}
    assert right.severities("CHS-216") == {"ok"}
    assert not right.of("CHS-217")

    guarded.user = "poor"
    poor = guarded.doctor()
    assert poor.errors >= {"CHS-216"}
    fixes = [f["fix"] for f in poor.of("CHS-216") if f["severity"] == "error"]
    assert fixes == ["run GRANT INSERT ON `g`.`t` TO `poor`", "run GRANT ALTER UPDATE ON `g`.`chsink_state` TO `poor`"]


def test_many_tables_are_asked_about_together(guarded: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ What one question about all of them refuses is asked of each: who lacks a right on one has those on the others."""
    asked: list[str] = []
    query = ClickHouseClient.query

    def counted(self: ClickHouseClient, sql: str, *given: Any) -> Any:
        asked.append(sql)
        return query(self, sql, *given)

    monkeypatch.setattr(ClickHouseClient, "query", counted)

    def about_tables() -> int:
        """Statements of one run about rights on tables, and about views."""
        asked.clear()
        guarded.doctor()
        return sum("dependencies_" in sql or sql.startswith("CHECK GRANT") for sql in asked)

    for name in "tuw":
        guarded.make_table(name=name)
    one = about_tables()
    for name in "uw":
        guarded.further += f'[[route]]\ntopic = "{guarded.topic}"\ntable = "{name}"\n'
    assert about_tables() == one
    guarded.client.command("CREATE MATERIALIZED VIEW g.v ENGINE = MergeTree ORDER BY id AS SELECT id FROM g.u")
    assert [f for f in guarded.doctor().findings if f["severity"] == "warning" and "g.v" in f["sentence"]]

    guarded.user = "mixed"
    mixed = guarded.doctor()
    found = [(f["severity"], f["fix"] or f["sentence"]) for f in mixed.of("CHS-216")]
    assert [fix for severity, fix in found if severity == "error"] == ["run GRANT INSERT ON `g`.`w` TO `mixed`"]
    granted = "".join(text for severity, text in found if severity == "ok")
    assert "`g`.`t`" in granted and "`g`.`u`" in granted
    assert [f["sentence"] for f in mixed.of("CHS-217") if "`g`.`u`" in f["sentence"]] and len(mixed.of("CHS-217")) == 1


def test_a_wrong_user(guarded: Bench) -> None:
    guarded.make_table()
    guarded.user = "nobody"
    report = guarded.doctor()
    assert "CHS-232" in report.errors
    assert len(report.of("CHS-232")) == 1, "the state table is on a server that said so already"
    assert Report(1, json.loads(_again(guarded))["findings"]).errors == report.errors, "and so does the sample"


# --- topics and state ------------------------------------------------------------------------------------------------


def test_no_topic(bench: Bench) -> None:
    bench.make_table()
    bench.topic = "no-such-topic"
    assert "CHS-201" in bench.doctor().errors


def test_patterns_that_match_and_that_match_nothing(bench: Bench) -> None:
    """A topic that a pattern matches is named where its table is missing."""
    patterns = (
        f"[{{topic_pattern = '{bench.topic}', table = 't_{{topic:_}}'}}, {{topic_pattern = 'none', table = 'n'}}]"
    )
    report = bench.doctor(f"route={patterns}")

    assert [(f["severity"], "route[1]" in f["sentence"]) for f in report.of("CHS-281")] == [
        ("ok", False),
        ("warning", True),
    ]
    [missing] = report.of("CHS-202")
    assert missing["sentence"].startswith(f"topic {bench.topic} has no table")


def test_a_pattern_whose_topics_another_route_names_and_the_key_of_a_wrong_table(bench: Bench) -> None:
    """Neither is the pattern wrong, nor is the table found without the key that names it."""
    bench.make_table()
    by = "{header = 'kind', tables = {known = 't', other = 'nowhere', third = 'nowhere'}}"
    routes = f"[{{topic_pattern = '{bench.topic}|none', table = 't'}}, {{topic = '{bench.topic}', table_by = {by}}}]"
    report = bench.doctor(f"route={routes}")

    [pattern] = [f["sentence"] for f in report.of("CHS-281")]
    assert "matches only topics that other routes name" in pattern and bench.topic in pattern
    [missing] = report.of("CHS-202")
    keys = "route[1].table_by.tables.other, route[1].table_by.tables.third"
    assert f"nowhere, which {keys} gives to topic {bench.topic}, does not exist" in missing["sentence"]


def test_unread_offsets_that_kafka_dropped(bench: Bench) -> None:
    bench.make_table()
    produce(bench.bootstrap, bench.topic, 0, ["{}"] * 20)
    bench.announced(landed=True)
    assert bench.doctor().severities("CHS-225") == {"ok"}
    delete_records(bench.bootstrap, bench.topic, 0, 12)

    [finding] = bench.doctor().of("CHS-225")

    assert finding["severity"] == "warning"
    assert "deleted 7 offsets" in finding["sentence"]


def test_unread_records_near_the_end_of_their_retention(bench: Bench) -> None:
    bench.make_table()
    producer = Producer({"bootstrap.servers": bench.bootstrap})
    for n in range(10):
        producer.produce(bench.topic, b"{}", partition=0, timestamp=int(time.time() - 2700 + n) * 1000)
    assert producer.flush(30) == 0
    bench.announced(landed=True)

    [finding] = bench.doctor().of("CHS-225")

    assert "(partitions: 1)" in finding["sentence"]
    assert finding["severity"] == "warning"


def test_a_topic_that_was_made_anew(bench: Bench) -> None:
    bench.make_table()
    bench.announced(landed=True, topic_id="AnotherTopicsIdAltogether")
    assert bench.doctor().severities("CHS-226") == {"warning"}


def test_a_range_in_doubt_of_a_topic_that_was_made_anew(bench: Bench) -> None:
    bench.make_table()
    bench.announced(landed=False, topic_id="AnotherTopicsIdAltogether")
    warned = [finding for finding in bench.doctor().of("CHS-227") if finding["severity"] == "warning"]
    assert ["created again" in finding["sentence"] and "--lost" in finding["fix"] for finding in warned] == [True]


@pytest.mark.soak
def test_a_topic_with_fewer_partitions_than_are_recorded(bench: Bench) -> None:
    """A warning with a way out, and everything else is looked at."""
    bench.make_table()
    bench.announced(landed=True)
    bench.announced(landed=True, partition=7)

    report = bench.doctor()

    assert report.errors == set()
    [finding] = report.of("CHS-226")
    assert (finding["severity"], "partitions 7, which no longer exist" in finding["sentence"]) == ("warning", True)
    assert report.severities("CHS-225") == {"ok"}
    assert report.severities("CHS-211") == {"ok"}
    [way_out] = re.findall(r"`chsink ([^`]+)`", finding["fix"])
    assert CliRunner().invoke(app, [*way_out.split(), "--yes"]).exit_code == 0
    assert not bench.doctor().of("CHS-226")


def test_in_doubt_while_the_table_was_altered(bench: Bench) -> None:
    bench.make_table()
    bench.announced(landed=False)
    bench.client.command(f"ALTER TABLE {bench.database}.t ADD COLUMN more String FIRST")

    [finding, change] = bench.doctor().of("CHS-227")

    assert finding["severity"] == "warning"
    assert "this has changed since: columns; the start will halt with CHS-309" in finding["sentence"]
    assert f"before {bench.database}.t was altered: column more is new" in change["sentence"]


def test_what_is_in_doubt(bench: Bench) -> None:
    bench.make_table()
    bench.announced(landed=False)

    [finding] = bench.doctor().of("CHS-227")

    assert finding["severity"] == "info"
    assert "ClickHouse remembers its tokens: chsink can send it again without duplicates" in finding["sentence"]


def test_in_doubt_for_longer_than_its_server_has_been_up(bench: Bench) -> None:
    bench.make_table()
    bench.announced(landed=False, age_s=100_000)

    [finding] = bench.doctor().of("CHS-227")

    assert "chsink will look for its rows by offset" in finding["sentence"]


def test_in_doubt_for_too_long_and_not_to_be_probed(bench: Bench) -> None:
    bench.make_table("id UInt32")
    bench.announced(landed=False, age_s=100_000)

    [finding] = bench.doctor().of("CHS-227")

    assert finding["severity"] == "warning"
    assert "CHS-317" in finding["sentence"]
    assert f"chsink state resolve {bench.topic} 0" in finding["fix"]


def test_shards_that_are_not_the_recorded_ones(bench: Bench, clickhouse: list[EmbeddedClickHouse]) -> None:
    bench.make_table()
    bench.announced(landed=True)
    with connect(clickhouse[1]) as other:
        other.command(f"CREATE TABLE {bench.database}.t ({COLUMNS}) {DEDUPLICATING}")
    two = f'["{clickhouse[0].url}", "{clickhouse[1].url}"]'

    report = bench.doctor(f"clickhouse.endpoints={two}", 'clickhouse.shard_key=["id"]')

    assert report.severities("CHS-228") == {"info"}


@pytest.mark.soak
def test_rows_of_the_topic_without_state(bench: Bench) -> None:
    bench.make_table()
    bench.client.command(f"INSERT INTO {bench.database}.t VALUES (1, '{bench.topic}', 0, 0)")

    report = bench.doctor()

    assert report.severities("CHS-229") == {"error"}
    assert "partition 0: 1 rows up to offset 0" in report.of("CHS-229")[0]["sentence"]
    assert f"chsink state recover --senders-gone -c {bench.job}`" in report.of("CHS-229")[0]["fix"]
    assert not bench.doctor("errors.on_existing_rows=accept").of("CHS-229")
    bench.announced(landed=True)
    assert not bench.doctor().of("CHS-229")


# --- at a start ------------------------------------------------------------------------------------------------------


def start(bench: Bench) -> None:
    with bench.connected() as services:
        stream = Untouched("read_committed")
        check_start(services, stream)
        observer = JobObserver(services.log, Metrics(bench.topic), services.clock)
        assemble(services.clickhouse, services.store, services.kafka, stream, observer, services.log)


def test_a_start_logs_warnings_and_goes_on(bench: Bench) -> None:
    configure("console", "info")
    bench.make_table(COLUMNS + ", at DateTime DEFAULT now()")

    with capture_logs() as lines:
        start(bench)

    assert [(line["log_level"], line["id"]) for line in lines] == [("warning", "CHS-209")]


def test_a_start_stops_at_the_first_error_and_logs_the_others(bench: Bench) -> None:
    configure("console", "info")
    bench.make_table(COLUMNS + ", _kafka_timestamp DateTime", "ENGINE = MergeTree ORDER BY id")

    with capture_logs() as lines, pytest.raises(PreflightError) as stopped:
        start(bench)

    assert (stopped.value.id, stopped.value.exit_code) == ("CHS-210", 2)
    assert [line["id"] for line in lines if line["log_level"] == "error"] == ["CHS-223"]


def test_a_start_takes_no_noticeable_time(bench: Bench) -> None:
    bench.make_table()
    start(bench)
    began = time.perf_counter()
    start(bench)
    assert time.perf_counter() - began < 5


def test_kept_offsets(bench: Bench) -> None:
    """A question that the retention check rests on: where records of an age begin."""
    now = int(time.time() * 1000)
    produce(bench.bootstrap, bench.topic, 0, ["{}"] * 3)
    tp = TopicPartition(bench.topic, 0)
    with bench.connected() as services:
        assert services.kafka.retention_ms(bench.topic) == 3_600_000
        assert services.kafka.offsets_since([tp], now - 60_000) == {tp: 0}
        assert services.kafka.offsets_since([tp], now + 3_600_000) == {tp: -1}


@pytest.mark.soak
def test_a_dry_run_reads_the_first_and_the_last_records_and_lands_none(bench: Bench) -> None:
    bench.make_table()
    good = [{"id": n} for n in range(30)]
    bad = [{"id": -1, "name": "x"}]
    produce(bench.bootstrap, bench.topic, 0, [*good, *bad, *good, *bad])  # offset 30 lies in the middle
    result = CliRunner().invoke(app, ["doctor", "-c", str(bench.job), "--sample", "10", "--json"])

    report = Report(result.exit_code, json.loads(result.stdout)["findings"])

    [finding] = [f for f in report.of("CHS-507") if f["severity"] == "error"]
    assert report.exit_code == 1
    assert ": 1 of 20 sampled records do not fit" in finding["sentence"]
    assert finding["sentence"].endswith("the first is at partition 0 offset 61")
    assert "field name" in report.of("CHS-508")[0]["sentence"]
    assert "19 rows" in report.of("CHS-509")[0]["sentence"]
    assert bench.client.command(f"SELECT count() FROM {bench.database}.t") == 0
    assert report.of("CHS-507") == Report(1, json.loads(_again(bench))["findings"]).of("CHS-507")


def _again(bench: Bench) -> str:
    """The same dry run: the one before left nothing behind in Kafka."""
    return CliRunner().invoke(app, ["doctor", "-c", str(bench.job), "--sample", "10", "--json"]).stdout


def test_a_dry_run_reads_a_record_without_a_value_as_the_job_does(bench: Bench) -> None:
    """It said that no record fits if ``errors.on_tombstone`` is "delete", where the job writes the deletion mark."""
    columns = (
        "id UInt32, name String, _kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64, is_deleted UInt8"
    )
    bench.make_table(columns, "ENGINE = ReplacingMergeTree(_kafka_offset, is_deleted) ORDER BY id")
    produce(bench.bootstrap, bench.topic, 0, [{"name": "x"}, None, "{", {"name": "y"}], key=b'{"id":1}')
    job = bench.job.read_text("utf-8").replace('table = "t"', 'table = "t"\nkey_format = "json"\nkey_columns = ["id"]')
    (bench.folder / "deletes.toml").write_text(f'{job}\n[errors]\non_tombstone = "delete"\n', "utf-8")
    argv = ["doctor", "-c", str(bench.folder / "deletes.toml"), "--sample", "10", "--json"]
    report = Report(0, json.loads(CliRunner().invoke(app, argv).stdout)["findings"])
    [finding] = report.of("CHS-507")
    assert ": 1 of 4 sampled records do not fit" in finding["sentence"] and "not valid JSON" in finding["sentence"]
