"""The embedded server as a process: started, stopped, killed, several side by side on one ZooKeeper."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, Error

from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.errors import ChsinkError
from tests.support.clickhouse_http import connected, scalar
from tests.support.job import eventually


@pytest.fixture
def state(clickhouse: list[EmbeddedClickHouse]) -> Iterator[str]:
    """A KeeperMap table of the same path on both servers."""
    name = f"state_{uuid.uuid4().hex[:8]}"
    for server in clickhouse:
        with connected(server) as client:
            client.command(
                f"CREATE TABLE {name} (key String, phase String, epoch UInt64, attempt String) "
                f"ENGINE = KeeperMap('/{name}') PRIMARY KEY key"
            )
    yield name
    for server in clickhouse:
        with connected(server) as client:
            client.command(f"DROP TABLE {name} SYNC")


STRICT = {"keeper_map_strict_mode": 1}
KEY_EXISTS = 999


def test_two_servers_share_a_keeper_map(clickhouse: list[EmbeddedClickHouse], state: str) -> None:
    first, second = clickhouse
    with connected(first) as one, connected(second) as two:
        one.insert(state, [["k", "BEFORE", 1, "a1"]], settings=STRICT)
        assert two.query(f"SELECT phase, epoch FROM {state}").result_rows == [("BEFORE", 1)]
        with pytest.raises(DatabaseError) as caught:
            two.insert(state, [["k", "BEFORE", 2, "b1"], ["other", "BEFORE", 2, "b1"]], settings=STRICT)
        assert caught.value.code == KEY_EXISTS
        update = "ALTER TABLE {t} UPDATE phase = if(attempt = '{old}', 'AFTER', throwIf(1, 'fenced')) WHERE key = 'k'"
        two.command(update.format(t=state, old="a1"), settings=STRICT)
        assert one.query(f"SELECT phase FROM {state} ORDER BY key").result_rows == [("AFTER",)]
        with pytest.raises(DatabaseError, match="fenced") as caught:
            one.command(update.format(t=state, old="foreign"), settings=STRICT)
        assert caught.value.code == 395


def test_racing_creates_of_a_key_have_one_winner(clickhouse: list[EmbeddedClickHouse], state: str) -> None:
    def create(number: int) -> int:
        with connected(clickhouse[number % 2]) as client:
            wins = 0
            for key in range(20):
                try:
                    client.insert(state, [[f"k{key}", "BEFORE", number, "x"]], settings=STRICT)
                    wins += 1
                except DatabaseError as error:
                    if error.code != KEY_EXISTS:
                        raise
            return wins

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(create, range(4))) == 20


@pytest.mark.soak
def test_a_killed_server_comes_back_with_what_it_acknowledged(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    path = f"/{uuid.uuid4().hex}"
    with EmbeddedClickHouse(tmp_path, zookeeper=zookeeper.hosts, keeper_map_prefix=path) as server:
        with connected(server) as client:
            client.command(
                "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a "
                "SETTINGS non_replicated_deduplication_window = 9"
            )
            client.command("CREATE TABLE s (k String, v String) ENGINE = KeeperMap('/s') PRIMARY KEY k")
            client.insert("t", [[1], [2]], settings={"insert_deduplication_token": "one"})
            client.insert("s", [["k", "v"]])
        port, pid = server.port, server.pid
        server.kill()
        with pytest.raises(ChsinkError, match="not running"):
            _ = server.pid
        server.start()
        assert server.port == port and server.pid != pid
        with connected(server) as client:
            client.insert("t", [[1], [2]], settings={"insert_deduplication_token": "one"})
            assert client.query("SELECT a FROM t ORDER BY a").result_rows == [(1,), (2,)]
            assert client.query("SELECT v FROM s").result_rows == [("v",)]
            assert scalar(client, "SELECT uptime()") < 30
            assert scalar(client, "SELECT engine FROM system.databases WHERE name = 'default'") == "Atomic"
        server.restart()
        with connected(server) as client:
            assert scalar(client, "SELECT count() FROM t") == 2
            client.command("DROP TABLE s SYNC")
    server.stop()


@pytest.mark.soak
def test_a_server_that_is_stopped_finishes_what_runs(tmp_path: Path) -> None:
    server = EmbeddedClickHouse(tmp_path).start()
    answers: list[Any] = []

    def ask() -> None:
        with connected(server) as client:
            answers.append(client.command("SELECT sleep(2.9)"))

    with connected(server) as client:
        thread = threading.Thread(target=ask)
        thread.start()
        running = "SELECT count() FROM system.processes WHERE query LIKE '%sleep(2%'"
        eventually("statement", lambda: scalar(client, running) == 2)
    begin = time.monotonic()
    server.stop()
    thread.join()
    assert answers == [0] and time.monotonic() - begin < 15
    server.stop()


@pytest.mark.soak
def test_a_statement_that_takes_too_long_does_not_hold_up_the_end(tmp_path: Path) -> None:
    server = EmbeddedClickHouse(tmp_path).start()
    failures: list[Error] = []

    def ask() -> None:
        with connected(server) as client:
            try:
                client.command("SELECT count() FROM numbers(1e12) WHERE NOT ignore(cityHash64(number))")
            except Error as error:
                failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    with connected(server) as client:
        running = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT count() FROM numbers%'"
        eventually("statement", lambda: scalar(client, running) == 1)
    begin = time.monotonic()
    server.stop()
    thread.join()
    assert time.monotonic() - begin < 15 and len(failures) == 1
    with server.start(), connected(server) as client:
        assert scalar(client, "SELECT 1") == 1


@pytest.mark.soak
def test_servers_reach_each_other_by_the_native_protocol(tmp_path: Path) -> None:
    with EmbeddedClickHouse(tmp_path / "a") as one, EmbeddedClickHouse(tmp_path / "b") as other:
        for server, rows in ((one, 2), (other, 3)):
            with connected(server) as client:
                client.command("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
                client.command(f"INSERT INTO t SELECT number FROM numbers({rows})")
        with connected(one) as client:
            places = f"127.0.0.1:{one.native_port},127.0.0.1:{other.native_port}"
            assert scalar(client, f"SELECT count() FROM remote('{places}', default.t)") == 5


@pytest.mark.soak
def test_what_the_configuration_asks_for_is_there(tmp_path: Path) -> None:
    """The server's own features: a log of queries, a quota."""
    log = "<clickhouse><query_log><database>system</database><table>query_log</table></query_log></clickhouse>"
    quota = "<quotas><default><interval><duration>3600</duration><queries>20</queries></interval></default></quotas>"
    with EmbeddedClickHouse(tmp_path, extra_xml=log, users_xml=quota) as server, connected(server) as client:
        client.command("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
        client.command("SYSTEM FLUSH LOGS")
        assert scalar(client, "SELECT count() FROM system.query_log WHERE query LIKE 'CREATE TABLE t%'") > 0
        with pytest.raises(DatabaseError, match="quota") as caught:
            exhaust(client)
        assert caught.value.code == 201


def exhaust(client: Client) -> None:
    for _ in range(30):
        client.query("SELECT a FROM t")


def test_a_killed_server_is_an_unknown_outcome_for_its_clients(tmp_path: Path) -> None:
    with EmbeddedClickHouse(tmp_path) as server:
        failures: list[Error] = []

        def ask() -> None:
            with connected(server) as client:
                try:
                    client.command("INSERT INTO FUNCTION null('a UInt8') SELECT sleepEachRow(1) FROM numbers(3)")
                except Error as error:
                    failures.append(error)

        with connected(server) as client:
            thread = threading.Thread(target=ask)
            thread.start()
            running = "SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'"
            eventually("statement", lambda: scalar(client, running) == 1)
        server.kill()
        thread.join()
        assert [error.code for error in failures] == [None]


@pytest.mark.soak
def test_a_disk_that_fills_up_is_the_engines_error(tmp_path: Path) -> None:
    """The limits of the configuration reach the engine: here, free space it must keep."""
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    disks = (
        "<storage_configuration><disks><default>"
        f"<keep_free_space_bytes>{free * 2}</keep_free_space_bytes></default></disks></storage_configuration>"
    )
    with EmbeddedClickHouse(tmp_path, extra_xml=disks) as server, connected(server) as client:
        client.command("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
        with pytest.raises(DatabaseError) as caught:
            client.insert("t", [[1]])
        assert caught.value.code == 243
        assert scalar(client, "SELECT count() FROM t") == 0


@pytest.mark.soak
def test_a_table_with_too_many_parts_is_the_engines_error(tmp_path: Path) -> None:
    few = "<merge_tree><parts_to_throw_insert>3</parts_to_throw_insert></merge_tree>"
    with EmbeddedClickHouse(tmp_path, extra_xml=few) as server, connected(server) as client:
        client.command("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
        client.command("SYSTEM STOP MERGES t")
        for number in range(3):
            client.insert("t", [[number]])
        with pytest.raises(DatabaseError) as caught:
            client.insert("t", [[9]])
        assert caught.value.code == 252


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ChsinkError, match="end of its log") as caught:
        EmbeddedClickHouse(tmp_path, extra_xml="<unclosed>").start()
    assert caught.value.id == "CHS-904"


def test_one_folder_has_one_server(tmp_path: Path) -> None:
    with EmbeddedClickHouse(tmp_path), pytest.raises(ChsinkError):
        EmbeddedClickHouse(tmp_path).start()


def test_the_command_prints_its_port_and_stops_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chsink.embedded.clickhouse", "--path", str(tmp_path / "s")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        ready = next(line for line in process.stdout if line.startswith("ready "))
        assert " native 127.0.0.1:" in ready
        with urllib.request.urlopen(f"{ready.split()[1]}/?query=SELECT%2040%2B2") as reply:
            assert reply.read() == b"42\n"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0
