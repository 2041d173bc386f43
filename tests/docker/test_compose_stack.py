"""What only the real servers show: replicas, time-based windows, ClickHouse Keeper, the official Kafka image."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from clickhouse_connect.driver.client import Client
from pyspark.sql import SparkSession

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.embedded import topics
from chsink.errors import UnavailableError
from chsink.notation.sql import TableName
from chsink.state.keepermap import KeeperMapStore
from tests.contract.benches import made, rows, stored, swaps
from tests.docker.conftest import Servers
from tests.integration.job.faults import Failpoints
from tests.support.job import DATABASE, Job, command, connect, select
from tests.support.kafka import produce, read_all

pytestmark = pytest.mark.docker

QUORUM = {"insert_quorum": 2, "insert_quorum_parallel": 0, "async_insert": 0}


@pytest.fixture
def replicas(servers: Servers) -> Iterator[tuple[Client, Client]]:
    first, second = map(connect, servers.clickhouse)
    yield first, second
    first.close()
    second.close()


def make_replicated(replicas: tuple[Client, Client], settings: str = "") -> str:
    """One table on both servers; returns its name."""
    name = f"replicated_{uuid.uuid4().hex[:8]}"
    for client in replicas:
        client.command(
            f"CREATE TABLE {name} (n UInt64) ENGINE = ReplicatedMergeTree('/tests/{name}', '{{replica}}') "
            f"ORDER BY n {settings}"
        )
    return name


def count(client: Client, table: str) -> int:
    return int(client.query(f"SELECT count() FROM {table}").result_rows[0][0])


def test_a_token_is_kept_once_whichever_replica_it_is_sent_to(replicas: tuple[Client, Client]) -> None:
    table = make_replicated(replicas)
    for client in (*replicas, *replicas):
        client.raw_insert(
            table,
            insert_block=b"1\n2\n3\n",
            fmt="TSV",
            settings={**QUORUM, "insert_deduplicate": 1, "insert_deduplication_token": "one"},
        )
    assert [count(client, table) for client in replicas] == [3, 3]


def test_a_token_is_forgotten_once_the_windows_seconds_are_over(replicas: tuple[Client, Client]) -> None:
    table = make_replicated(
        replicas,
        "SETTINGS replicated_deduplication_window_seconds = 1, cleanup_delay_period = 1, "
        "max_cleanup_delay_period = 2, cleanup_delay_period_random_add = 0",
    )
    client = replicas[0]
    deadline = time.monotonic() + 120
    settings = {**QUORUM, "insert_deduplicate": 1, "insert_deduplication_token": "one"}
    while count(client, table) < 2:
        assert time.monotonic() < deadline, "the window never closed"
        client.raw_insert(table, insert_block=b"1\n", fmt="TSV", settings=settings)
        time.sleep(3)


def test_the_state_store_holds_on_keeper(servers: Servers) -> None:
    clients = [ClickHouseClient(Connection((url,), compression="none")) for url in servers.clickhouse]
    table = TableName("default", f"state_{uuid.uuid4().hex}")
    first, second = (KeeperMapStore(client, table, path=f"/tests/{table.table}") for client in clients)
    for store in (first, second):
        store.prepare()
    old = rows(500, "a1")
    assert first.create(old)
    assert not second.create(rows(1, "b1"))
    assert second.swap(swaps(old, "a2"))
    assert not first.swap(swaps(old, "a3"))
    assert stored(first) == made(swaps(old, "a2"))
    for client in clients:
        client.close()


def test_transactions_leave_markers_in_the_official_broker(servers: Servers) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    topics.create_topic(servers.bootstrap, name, 1)
    assert produce(servers.bootstrap, name, 0, ["a"], transactional=name, abort=True) == (0, 2)
    assert produce(servers.bootstrap, name, 0, ["b"], transactional=name) == (2, 4)
    assert [record.offset for record in read_all(servers.bootstrap, name)] == [2]


def test_a_job_killed_after_its_insert_lands_everything_once(
    servers: Servers, spark: SparkSession, tmp_path: Path
) -> None:
    name = f"job-{uuid.uuid4().hex[:8]}"
    topics.create_topic(servers.bootstrap, name, 2)
    for url in servers.clickhouse:
        command(url, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    job = Job(name, tmp_path, servers.bootstrap, servers.clickhouse[:1])
    job.make_table(name, engine=f"ENGINE = ReplicatedMergeTree('/tests/{name}', '1') ORDER BY tuple()")
    job.send(0, 45)
    job.send(1, 33)
    failpoints = Failpoints(spark, tmp_path)
    failpoints.arm("task.after_insert=kill@2")
    try:
        with pytest.raises(UnavailableError):
            job.drain(spark)
        failpoints.assert_fired("task.after_insert")
    finally:
        failpoints.disarm()
    assert job.in_doubt()
    job.drain(spark)
    job.check()


@pytest.mark.parametrize("cluster", ["replicas", None])
def test_a_new_table_and_new_columns_on_all_replicas(
    cluster: str | None, servers: Servers, spark: SparkSession, tmp_path: Path
) -> None:
    """``ON CLUSTER``, and by each server's own URL."""
    name = f"grow-{uuid.uuid4().hex[:8]}"
    topics.create_topic(servers.bootstrap, name, 1)
    for url in servers.clickhouse:
        command(url, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    first, second = servers.clickhouse
    settings = {
        "schema.auto_create": True,
        "schema.evolution": "add_columns",
        "clickhouse.endpoints": [{"url": first, "replicas": [second]}],
        "clickhouse.settings.insert_quorum": 2,
        **({"schema.cluster": cluster} if cluster else {}),
    }
    table = f"{DATABASE}.t_{name}".replace("-", "_")
    job = Job(name, tmp_path, servers.bootstrap, [first], tables={name: table}, settings=settings)
    job.send_values(0, [{"id": n} for n in range(20)])
    job.drain(spark)
    job.send_values(0, [{"id": 20 + n, "more": "x"} for n in range(20)])
    job.drain(spark)
    job.check(
        columns=("id", "more"),
        rows_of=lambda r: [(json.loads(r.value or b"")["id"], json.loads(r.value or b"").get("more"))],
    )
    for url in servers.clickhouse:
        command(url, f"SYSTEM SYNC REPLICA {table}")
        assert select(url, f"SELECT count(), count(more) FROM {table} FORMAT TSV").split() == ["40", "20"]
