"""The client through proxies that fail: each statement is sent once, and each outcome has its name."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.ports import ServerRefused, Unanswered, Unreachable
from tests.support.inserts import NOBODY, body, count, insert_into
from tests.support.job import eventually
from tests.support.proxies import HttpFault, HttpProxy, TcpFault, TcpProxy

if TYPE_CHECKING:
    pass


# --- what is not answered --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "landed"),
    [
        (HttpFault.DROP_REQUEST, 0),
        (HttpFault.CUT_REQUEST, 0),
        (HttpFault.DROP_ANSWER, 5_000),
    ],
)
def test_an_insert_without_answer_is_sent_once(
    server: str, client: ClickHouseClient, table: str, fault: HttpFault, landed: int
) -> None:
    with HttpProxy(server) as proxy:
        through = ClickHouseClient(Connection((proxy.url,), compression="none"))
        through.query("SELECT 1")
        before = proxy.requests
        proxy.inject(fault, match="INSERT INTO")
        with pytest.raises(Unanswered) as lost:
            through.insert(insert_into(table), body(5_000), {}, through.url)
        assert not isinstance(lost.value, Unreachable)
        assert (proxy.requests - before, proxy.fired[fault]) == (1, 1)
        assert count(client, table) == landed
        through.close()


def test_a_command_without_answer_is_sent_once(server: str, table: str) -> None:
    with HttpProxy(server) as proxy:
        through = ClickHouseClient(Connection((proxy.url,)))
        through.query("SELECT 1")
        before = proxy.requests
        proxy.inject(HttpFault.DROP_ANSWER, match="UPDATE")
        with pytest.raises(Unanswered):
            through.command(f"ALTER TABLE {table} UPDATE b = 'y' WHERE 1")
        assert (proxy.requests - before, proxy.fired[HttpFault.DROP_ANSWER]) == (1, 1)
        through.close()


def test_an_error_in_the_body_of_a_success_is_an_error(server: str, client: ClickHouseClient, table: str) -> None:
    with HttpProxy(server) as proxy:
        through = ClickHouseClient(Connection((proxy.url,)))
        through.query("SELECT 1")
        proxy.inject(HttpFault.ERROR_IN_BODY, match="INSERT INTO")
        with pytest.raises(ServerRefused) as refused:
            through.insert(insert_into(table), body(10), {}, through.url)
        assert (refused.value.code, proxy.fired[HttpFault.ERROR_IN_BODY]) == (241, 1)
        proxy.inject(HttpFault.ERROR_IN_BODY, match="SELECT 7")
        with pytest.raises((ServerRefused, Unanswered)):
            through.query("SELECT 7")
        assert count(client, table) == 0
        through.close()


@pytest.mark.parametrize("fault", [HttpFault.STATUS_429, HttpFault.STATUS_503])
def test_a_status_of_somebody_else_has_no_code(server: str, table: str, fault: HttpFault) -> None:
    with HttpProxy(server) as proxy:
        through = ClickHouseClient(Connection((proxy.url,)))
        through.query("SELECT 1")
        before = proxy.requests
        proxy.inject(fault, match="INSERT INTO", times=5)
        with pytest.raises(ServerRefused) as refused:
            through.insert(insert_into(table), body(10), {}, through.url)
        assert (refused.value.code, proxy.requests - before, proxy.fired[fault]) == (None, 1, 1)
        through.close()


def test_a_late_answer_is_no_answer(server: str, client: ClickHouseClient, table: str) -> None:
    with HttpProxy(server) as proxy:
        through = ClickHouseClient(Connection((proxy.url,), send_receive_timeout_s=2))
        through.query("SELECT 1")
        proxy.inject(HttpFault.DELAY_ANSWER, match="INSERT INTO", delay_s=10)
        started = time.monotonic()
        with pytest.raises(Unanswered):
            through.insert(insert_into(table), body(10), {}, through.url)
        assert 1.9 < time.monotonic() - started < 9
        eventually("rows", lambda: count(client, table) == 10)
        through.close()


def test_a_cut_result_is_no_result(server: str) -> None:
    with HttpProxy(server) as proxy:
        through = ClickHouseClient(Connection((proxy.url,)))
        through.query("SELECT 1")
        proxy.inject(HttpFault.CUT_ANSWER, match="numbers(1000)", times=5)
        with pytest.raises(Unanswered):
            through.query("SELECT number, toString(number) FROM numbers(1000)")
        assert proxy.fired[HttpFault.CUT_ANSWER] >= 1
        through.close()


class _SomebodyElse(BaseHTTPRequestHandler):
    """A web server that says yes to everything."""

    status = 200

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.mark.parametrize("status", [200, 502, 504])
def test_the_answer_of_something_else_is_no_answer(client: ClickHouseClient, status: int, table: str) -> None:
    """A load balancer that lost its server must not be taken for it, whatever it says."""
    handler = type("Handler", (_SomebodyElse,), {"status": status})
    other = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=other.serve_forever, args=(0.05,), daemon=True).start()
    moved = ClickHouseClient(Connection((client.url,)))
    moved.query("SELECT 1")
    real, pool = moved._open or pytest.fail("connected")
    real.url = real._backend.url = real._backend._base_url = f"http://127.0.0.1:{other.server_address[1]}/"
    with pytest.raises(Unanswered):
        moved.insert(insert_into(table), body(10), {}, moved.url)
    pool.clear()
    other.shutdown()
    other.server_close()


# --- reaching a server -----------------------------------------------------------------------------------------------


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        ClickHouseClient(Connection((NOBODY,))).query("SELECT 1")
    with pytest.raises(Unreachable):
        ClickHouseClient(Connection(("http://no-such-host.invalid:8123",))).query("SELECT 1")


def test_the_next_replica_is_used_when_one_cannot_be_reached(server: str, table: str) -> None:
    client = ClickHouseClient(Connection((NOBODY, server)))
    assert (count(client, table), client.url) == (0, server)
    client.close()


def test_a_server_that_went_away_is_left_for_its_replica(server: str, table: str) -> None:
    """⚑ But a piece is only sent to the replica that was looked at: the other one may remember other tokens."""
    with HttpProxy(server) as proxy:
        client = ClickHouseClient(Connection((proxy.url, server)))
        assert count(client, table) == 0
        assert client.url == proxy.url
    client._open[1].clear() if client._open else pytest.fail("connected")
    with pytest.raises(Unreachable):
        client.insert(insert_into(table), body(10), {}, proxy.url)
    with pytest.raises(Unanswered, match="has taken its place"):
        client.insert(insert_into(table), body(10), {}, proxy.url)
    assert (count(client, table), client.url) == (0, server)
    client.close()


def test_no_replica_gets_a_statement_that_another_may_have(server: str, client: ClickHouseClient, table: str) -> None:
    with HttpProxy(server) as proxy:
        both = ClickHouseClient(Connection((proxy.url, server)))
        both.query("SELECT 1")
        proxy.inject(HttpFault.DROP_REQUEST, match="INSERT INTO")
        with pytest.raises(Unanswered):
            both.insert(insert_into(table), body(10), {}, both.url)
        assert (count(client, table), both.url) == (0, proxy.url)
        both.close()


def test_a_server_slow_to_read_is_not_a_lost_one(server: str, client: ClickHouseClient, table: str) -> None:
    """Sending is bounded by the send timeout, not by the much shorter one of connecting."""
    with TcpProxy(server.removeprefix("http://")) as proxy:
        through = ClickHouseClient(Connection((f"http://{proxy.hosts}",), compression="none", connect_timeout_s=0.5))
        through.query("SELECT 1")
        rows = body(400_000, "some text to fill all buffers on the way")
        proxy.pause()
        started = time.monotonic()
        threading.Timer(1.5, proxy.heal).start()
        through.insert(insert_into(table), rows, {}, through.url)
        assert time.monotonic() - started > 1.4
        assert (count(client, table), proxy.fired[TcpFault.PAUSE]) == (400_000, 1)
        through.close()
