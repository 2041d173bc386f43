"""The local ZooKeeper does what the state stores and their tests rely on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoNodeError

from chsink.embedded.zookeeper import EmbeddedZooKeeper
from chsink.errors import ChsinkError


@contextmanager
def client(hosts: str, session_s: float = 10.0) -> Iterator[KazooClient]:
    connection = KazooClient(hosts=hosts, timeout=session_s)
    connection.start(timeout=20)
    try:
        yield connection
    finally:
        connection.stop()
        connection.close()


def test_a_multi_is_all_or_nothing(zookeeper: EmbeddedZooKeeper) -> None:
    with client(zookeeper.hosts) as kazoo:
        kazoo.create("/multi/a", b"1", makepath=True)
        change = kazoo.transaction()
        change.create("/multi/b", b"1")
        change.set_data("/multi/a", b"2", version=7)
        results = change.commit()
        assert isinstance(results[1], BadVersionError)
        assert kazoo.get("/multi/a")[0] == b"1"
        with pytest.raises(NoNodeError):
            kazoo.get("/multi/b")


def test_a_multi_of_many_megabytes_is_taken(zookeeper: EmbeddedZooKeeper) -> None:
    with client(zookeeper.hosts) as kazoo:
        kazoo.ensure_path("/bulk")
        change = kazoo.transaction()
        for number in range(5_000):
            change.create(f"/bulk/{number}", b"x" * 2_000)
        assert len(change.commit()) == 5_000
        assert len(kazoo.get_children("/bulk")) == 5_000


@pytest.mark.soak
def test_the_session_of_a_killed_client_expires(zookeeper: EmbeddedZooKeeper) -> None:
    program = (
        "import sys, time\n"
        "from kazoo.client import KazooClient\n"
        "kazoo = KazooClient(hosts=sys.argv[1], timeout=3.0)\n"
        "kazoo.start()\n"
        "kazoo.create('/expiring', b'', ephemeral=True)\n"
        "print('made', flush=True)\n"
        "time.sleep(60)\n"
    )
    with client(zookeeper.hosts) as watcher:
        with subprocess.Popen(
            [sys.executable, "-c", program, zookeeper.hosts], stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "made\n"
            time.sleep(4)
            assert watcher.exists("/expiring"), "a living client keeps its session"
            holder.kill()
        killed = time.monotonic()
        while watcher.exists("/expiring"):
            assert time.monotonic() - killed < 15, "the session did not expire"
            time.sleep(0.05)


@pytest.mark.soak
def test_kill_and_restart_keep_data_and_port(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as server:
        hosts = server.hosts
        with client(hosts) as kazoo:
            kazoo.create("/kept", b"1")
        server.kill()
        assert not server.running
        server.start()
        assert server.hosts == hosts
        with client(hosts) as kazoo:
            assert kazoo.get("/kept")[0] == b"1"
            kazoo.set("/kept", b"2")
        server.restart()
        with client(hosts) as kazoo:
            assert kazoo.get("/kept")[0] == b"2"


def test_a_taken_port_is_an_error(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    second = EmbeddedZooKeeper(tmp_path, port=zookeeper.port)
    with pytest.raises(ChsinkError, match=r"CHS-904.*port \d+ is already in use") as caught:
        second.start()
    assert caught.value.id == "CHS-904"
    assert not second.running
