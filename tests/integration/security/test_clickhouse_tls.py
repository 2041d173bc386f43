"""ClickHouse behind TLS: certificates of the server and of the client, and what a wrong one says.

The embedded server has no HTTPS, so TLS ends before it: at a proxy, as behind a load balancer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from chsink.clickhouse.client import ClickHouseClient, Connection
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.ports import Unreachable
from tests.integration.job.conftest import MakeJob, make_job, services
from tests.support.certificates import Authority, Certificate
from tests.support.tls_proxy import TlsProxy

__all__ = ["make_job", "services"]

pytestmark = pytest.mark.slow


class Bench(NamedTuple):
    """Who signs, a client's certificate, and a proxy that asks for one."""

    authority: Authority
    stranger: Authority
    mine: Certificate
    proxy: TlsProxy

    def connection(self, **changes: object) -> Connection:
        """As it should be, with changes; files by their paths."""
        files = {"ca_file": self.authority.ca, "cert_file": self.mine.cert, "key_file": self.mine.key}
        given = {name: None if file is None else str(file) for name, file in {**files, **changes}.items()}
        return Connection((f"https://{self.proxy.address}",), **given)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def bench(authority: Authority, stranger: Authority, clickhouse: list[EmbeddedClickHouse]) -> Iterator[Bench]:
    with TlsProxy(clickhouse[0].address, authority.issue("clickhouse"), authority.ca) as proxy:
        yield Bench(authority, stranger, authority.issue("client"), proxy)


def said(connection: Connection) -> str:
    """What an unsuccessful first statement says."""
    client = ClickHouseClient(connection)
    try:
        with pytest.raises(Unreachable) as raised:
            client.query("SELECT 1")
    finally:
        client.close()
    return str(raised.value)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS")
def test_a_client_with_a_certificate_is_served(bench: Bench) -> None:
    client = ClickHouseClient(bench.connection())
    assert client.query("SELECT 1") == [(1,)]
    client.close()
    unverified = ClickHouseClient(replace(bench.connection(ca_file=None), verify=False))
    assert unverified.query("SELECT 2") == [(2,)]
    unverified.close()


def test_a_server_that_is_not_trusted(bench: Bench, clickhouse: list[EmbeddedClickHouse]) -> None:
    assert "clickhouse.tls.ca_file" in said(bench.connection(ca_file=None))
    assert "clickhouse.tls.ca_file" in said(bench.connection(ca_file=bench.stranger.ca))
    for issued, words in (
        (bench.authority.issue("old", valid=timedelta(hours=-1)), "has expired: renew it"),
        (bench.authority.issue("other", "db.example.org"), "clickhouse.endpoints"),
    ):
        with TlsProxy(clickhouse[0].address, issued) as proxy:
            connection = Connection((f"https://{proxy.address}",), ca_file=str(bench.authority.ca))
            assert words in said(connection)
            assert proxy.served == 0


@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_a_client_that_is_not_trusted(bench: Bench, who: str) -> None:
    theirs = bench.stranger.issue("client")
    files: Mapping[str, object] = (
        {"cert_file": None, "key_file": None} if who == "nobody" else {"cert_file": theirs.cert, "key_file": theirs.key}
    )
    assert "clickhouse.tls.cert_file" in said(bench.connection(**files))


def test_files_that_cannot_be_used(bench: Bench, clickhouse: list[EmbeddedClickHouse], tmp_path: Path) -> None:
    (empty := tmp_path / "empty.pem").touch()
    for changes, words in (
        ({"ca_file": "/no/such.pem"}, "clickhouse.tls.ca_file: /no/such.pem: No such file"),
        ({"key_file": "/no/such.key"}, "clickhouse.tls.key_file: /no/such.key: No such file"),
        ({"ca_file": empty}, "clickhouse.tls.ca_file"),
        ({"key_file": bench.stranger.issue("x").key}, "clickhouse.tls.key_file"),
    ):
        assert words in said(bench.connection(**changes))
    plain = Connection((f"https://{clickhouse[0].address}",), ca_file=str(bench.authority.ca))
    assert "change https:// to http://" in said(plain)


@pytest.mark.soak
def test_a_job_lands(bench: Bench, make_job: MakeJob, spark: SparkSession) -> None:
    job = make_job()
    job.send(0, 10)
    job.drain(
        spark,
        {
            "clickhouse.endpoints": f"https://{bench.proxy.address}",
            "clickhouse.tls.ca_file": str(bench.authority.ca),
            "clickhouse.tls.cert_file": str(bench.mine.cert),
            "clickhouse.tls.key_file": str(bench.mine.key),
        },
    )
    job.check()
