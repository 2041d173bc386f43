"""An address stands once in a message, and urllib3's own names do not."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Thread

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.embedded.base.ports import free_port
from chsink.findings import Finding, guarded
from chsink.ports import Unreachable


def test_a_refused_connection_is_told_in_few_words(caplog: pytest.LogCaptureFixture) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    client = ClickHouseClient(Connection((url,)))

    with pytest.raises(Unreachable) as raised:
        client.query("SELECT 1")

    assert str(raised.value) == f"{url}: Connection refused"

    def check() -> list[Finding]:
        client.query("SELECT 1")
        return []

    [finding] = guarded(url, check)
    assert finding.sentence == f"{url}: Connection refused"
    assert not [r for r in caplog.records if r.name.startswith("clickhouse_connect")], "executors print each warning"


@pytest.mark.parametrize(
    ("scheme", "answer", "said"),
    [
        ("http", b"", "Remote end closed connection without response"),
        (
            "https",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "the server does not speak TLS on this port: change https:// to http://, or name its TLS port",
        ),
    ],
)
def test_a_server_that_speaks_something_else(scheme: str, answer: bytes, said: str) -> None:
    """As by a server that dies, or by one that speaks something else: no names of Python's classes in the reason."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer_each() -> None:
        with suppress(OSError):  # the end of the test
            while True:
                accepted, _ = server.accept()
                with accepted:
                    accepted.settimeout(0.1)
                    with suppress(TimeoutError):  # unread, the rest of the request would reset the connection
                        while accepted.recv(65_536):
                            pass
                    accepted.sendall(answer)

    Thread(target=answer_each, daemon=True).start()
    url = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(Unreachable) as raised:
        ClickHouseClient(Connection((url,))).query("SELECT 1")
    server.close()
    assert str(raised.value) == f"{url}: {said}"
