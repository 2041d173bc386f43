"""An address stands once in a message, and urllib3's own names do not."""

from __future__ import annotations

import pytest

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.embedded.ports import free_port
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
