"""The state store's logins in ZooKeeper, over TLS: what belongs to whom, what is refused, and what the page's commands
give a user.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KeeperState
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.errors import PreflightError
from chsink.findings import Severity
from chsink.ports import StoredRow, StoreUnavailable, Swap
from chsink.state.zookeeper import ZooKeeperStore
from chsink.state.zookeeper_access import ZooKeeperAccess, ZooKeeperTls
from tests.integration.job.conftest import MakeJob, make_job, services
from tests.integration.security.conftest import ZOOKEEPER_PASSWORD as PASSWORD
from tests.support.certificates import Authority
from tests.support.secured_zookeeper import SecuredZooKeeper

__all__ = ["make_job", "services"]

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "least-privilege.md"
ROW = StoredRow("sink", "a1", "{}")


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    return "/" + re.sub(r"\W+", "-", request.node.name)


def tls(authority: Authority, client: str = "") -> ZooKeeperTls:
    mine = authority.issue(client) if client else None
    cert, key = (None, None) if mine is None else (str(mine.cert), str(mine.key))
    return ZooKeeperTls(enabled=True, ca_file=str(authority.ca), cert_file=cert, key_file=key)


def used(store: ZooKeeperStore) -> list[Severity]:
    """The store does all it ever does; returns what ``chsink doctor`` says of its nodes."""
    try:
        store.prepare()
        assert store.create([ROW])
        assert store.swap([Swap("a1", replace(ROW, attempt="a2"))])
        assert store.load("sink") == {"sink": replace(ROW, attempt="a2")}
        return [finding.severity for finding in store.open_nodes("sink")]
    finally:
        store.close()


def refused(access: ZooKeeperAccess, root: str) -> PreflightError:
    """What the first use says, and at once."""
    store, began = ZooKeeperStore(access, root=root), time.monotonic()
    try:
        with pytest.raises(PreflightError) as raised:
            used(store)
    finally:
        store.close()
    assert time.monotonic() - began < 10
    return raised.value


@pytest.mark.parametrize("login", ["digest", "sasl", "certificate"])
def test_what_a_login_creates_belongs_to_it(
    login: str, server: SecuredZooKeeper, authority: Authority, root: str
) -> None:
    access = {
        "digest": ZooKeeperAccess(server.tls, "lander", PASSWORD, tls=tls(authority)),
        "sasl": ZooKeeperAccess(server.tls, "lander", PASSWORD, "sasl", tls(authority)),
        "certificate": ZooKeeperAccess(server.tls, tls=tls(authority, "lander")),
    }[login]
    assert used(ZooKeeperStore(access, root=root)) == [Severity.OK]
    other = {
        "digest": replace(access, password="wrong"),
        "sasl": replace(access, user="other"),
        "certificate": replace(access, tls=tls(authority, "other")),
    }[login]
    for stranger in (other, ZooKeeperAccess(server.hosts)):
        error = refused(stranger, root)
        assert error.id == "CHS-220"
        assert f"open or create {root} " in str(error) and stranger.who in str(error) and stranger.keys in error.hint
    assert PASSWORD not in repr(access)


@pytest.mark.parametrize("seen", ["at once", "late", "never live"])
def test_a_login_that_the_servers_do_not_know(
    server: SecuredZooKeeper, authority: Authority, root: str, monkeypatch: pytest.MonkeyPatch, seen: str
) -> None:
    """``late``: the first question comes after kazoo has closed the session.  ``never live``: it was live so shortly
    that nobody saw it.
    """
    connected, start = ZooKeeperAccess.connected, KazooClient.start_async

    def missed(client: KazooClient) -> threading.Event:
        start(client)
        return threading.Event()

    def closed(access: ZooKeeperAccess, session_s: float, deadline: float) -> KazooClient:
        client = connected(access, session_s, deadline)
        while access.mechanism == "sasl" and client.client_state != KeeperState.CLOSED:
            time.sleep(0.01)
        return client

    if seen == "late":
        monkeypatch.setattr(ZooKeeperAccess, "connected", closed)
    if seen == "never live":
        monkeypatch.setattr(KazooClient, "start_async", missed)
    known = ZooKeeperAccess(server.hosts, "lander", PASSWORD, "sasl")
    for wrong in (replace(known, password="wrong"), replace(known, user="nobody")):
        error = refused(wrong, root)
        assert error.id == "CHS-232" and wrong.who in str(error)
    monkeypatch.undo()
    no_identity = ZooKeeperAccess(server.hosts, tls=ZooKeeperTls(cert_file=str(authority.issue("lander").cert)))
    assert "state.tls.cert_file" in refused(no_identity, root).hint


@pytest.mark.soak
def test_a_user_who_is_removed_is_refused_while_the_job_runs(tmp_path: Path, authority: Authority) -> None:
    with SecuredZooKeeper(tmp_path, authority, {"lander": PASSWORD, "admin": "x"}) as server:
        store = ZooKeeperStore(ZooKeeperAccess(server.hosts, "lander", PASSWORD, "sasl"), timeout_s=20)
        store.prepare()
        assert store.create([ROW])
        del server.users["lander"]
        server.restart()
        with pytest.raises(PreflightError) as raised:
            store.load("sink")
        assert raised.value.id == "CHS-232"
        store.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # kazoo leaves sockets to the collector
def test_what_tls_says(server: SecuredZooKeeper, authority: Authority, stranger: Authority, root: str) -> None:
    mine, theirs = tls(authority), tls(stranger, "lander")
    trusting = theirs.model_copy(update={"ca_file": str(authority.ca)})
    for access, words in (
        (ZooKeeperAccess(server.tls, tls=tls(stranger)), "state.tls.ca_file"),
        (ZooKeeperAccess(server.tls, tls=trusting), "state.tls.cert_file"),
        (
            ZooKeeperAccess(server.tls, tls=mine.model_copy(update={"ca_file": "/no/such.pem"})),
            "state.tls.ca_file: /no",
        ),
        (ZooKeeperAccess(server.tls.replace("127.0.0.1", "localhost"), tls=mine), "state.zookeeper"),
    ):
        store, began = ZooKeeperStore(access, root=root), time.monotonic()
        with pytest.raises(StoreUnavailable, match=re.escape(words)):
            store.prepare()
        assert time.monotonic() - began < 10
    unverified = ZooKeeperAccess(server.tls, tls=ZooKeeperTls(enabled=True, verify=False))
    assert used(ZooKeeperStore(unverified, root=root)) == [Severity.WARNING]


def test_nodes_that_everybody_may_change_are_named_and_given_away(server: SecuredZooKeeper, root: str) -> None:
    nobody = ZooKeeperStore(ZooKeeperAccess(server.hosts), root=root)
    nobody.prepare()
    assert nobody.create([ROW, StoredRow("other", "a1", "{}")])
    [finding] = nobody.open_nodes("sink")
    assert f"(2): {root}, {root}/sink" in finding.sentence and "state.user" in finding.fix
    nobody.close()
    store = ZooKeeperStore(ZooKeeperAccess(server.hosts, "lander", "secret"), root=root)
    [finding] = store.open_nodes("sink")
    [command] = re.findall(r"`(setAcl .*?)`", finding.fix)
    server.shell("addauth digest lander:secret", command)
    assert [finding.severity for finding in store.open_nodes("sink")] == [Severity.OK]
    store.close()
    assert refused(ZooKeeperAccess(server.hosts), root).id == "CHS-220"


def commands(password: str) -> list[str]:
    """The page's, as the shell passes them on."""
    [block] = re.findall(r"<<END\n(.*?)END\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    digest = base64.b64encode(hashlib.sha1(f"lander:{password}".encode()).digest()).decode()
    assert isinstance(block, str)
    return block.replace("$HASH", digest).replace("$ADMIN_PASSWORD", "admin's").splitlines()


@pytest.mark.soak
def test_the_commands_of_the_page_are_what_a_job_needs(
    server: SecuredZooKeeper, make_job: MakeJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.shell(*commands("secret"))
    monkeypatch.setenv("ZOOKEEPER_PASSWORD", "secret")
    login = {
        "state.store": "zookeeper",
        "state.zookeeper": server.hosts,
        "state.user": "lander",
        "state.password": {"env": "ZOOKEEPER_PASSWORD"},
    }
    job = make_job(settings=login)
    for _ in range(2):  # rows are created, then read and swapped
        job.send(0, 10)
        job.drain(spark)
    job.check()
    monkeypatch.setenv("CHSINK__STATE__PASSWORD", "secret")
    state = [f"--set={key}={value}" for key, value in login.items() if isinstance(value, str)]
    result = CliRunner().invoke(app, ["doctor", "-c", str(job.file()), *state])
    assert "have an owner" in result.output, result.output
    admin = KazooClient(server.hosts, auth_data=[("digest", "admin:admin's")])
    admin.start()
    acls, _ = admin.get_acls("/chsink/state")
    mine = next(acl for acl in acls if acl.id.id.startswith("lander:"))
    for right in mine.acl_list:
        left = sum({"READ": 1, "CREATE": 4}[name] for name in mine.acl_list if name != right)
        admin.set_acls("/chsink/state", [acl for acl in acls if acl != mine] + [mine._replace(perms=left)])
        access = ZooKeeperAccess(server.hosts, "lander", "secret")
        assert refused(access, "/chsink/state").id == "CHS-220", right
    admin.set_acls("/chsink/state", acls)
    admin.stop()
    admin.close()
