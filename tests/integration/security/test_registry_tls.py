"""A Schema Registry behind TLS that asks for a client certificate and a login; and what a wrong one says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from pydantic import SecretStr

from chsink.errors import UnavailableError
from chsink.registry.client import Registry
from chsink.registry.settings import SchemaRegistry
from tests.support.certificates import Authority, Certificate
from tests.support.registry import RegistryService
from tests.support.tls_proxy import TlsProxy

SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})


class Bench(NamedTuple):
    """Who signs, a client's certificate, and where the registry is."""

    authority: Authority
    stranger: Authority
    mine: Certificate
    url: str
    upstream: str

    def ask(self, **changes: Any) -> str:
        """The kind of schema 1, asked for as it should be, with changes."""
        files = {"ca_file": self.authority.ca, "cert_file": self.mine.cert, "key_file": self.mine.key}
        given = {name: None if file is None else str(file) for name, file in {**files, **changes}.items()}
        password, url = given.pop("password", "pass word"), given.pop("url", self.url)
        settings = SchemaRegistry.model_validate(
            {
                "url": url,
                "user": "reader",
                "password": SecretStr(password or ""),
                "retry_for_s": 0.0,
                "timeout_s": 5.0,
                **given,
            }
        )
        registry = Registry(settings)
        try:
            found = registry.schema(1)
        finally:
            registry.close()
        assert found is not None
        return found.kind


@pytest.fixture(scope="module")
def bench(authority: Authority, stranger: Authority) -> Iterator[Bench]:
    with RegistryService(login="reader:pass word") as service:
        service.known.answer("POST", "/subjects/r/versions", json.dumps({"schema": SCHEMA}).encode())
        address = service.url.removeprefix("http://")
        with TlsProxy(address, authority.issue("registry"), authority.ca) as proxy:
            yield Bench(authority, stranger, authority.issue("reader"), f"https://{proxy.address}", address)


def test_certificate_and_login_are_accepted(bench: Bench) -> None:
    assert bench.ask() == "AVRO"


def test_a_wrong_password(bench: Bench) -> None:
    with pytest.raises(UnavailableError, match="401") as raised:
        bench.ask(password="hush")
    assert "schema_registry.user" in raised.value.hint
    assert "hush" not in str(raised.value)


def refusal(bench: Bench, **changes: Any) -> str:
    """What an unsuccessful request says."""
    with pytest.raises(UnavailableError, match="CHS-730") as raised:
        bench.ask(**changes)
    return str(raised.value.message)


def test_a_server_that_is_not_trusted(bench: Bench) -> None:
    for ca_file in (None, bench.stranger.ca):
        assert "in schema_registry.ca_file" in refusal(bench, ca_file=ca_file)
    for issued, words in (
        (bench.authority.issue("old", valid=timedelta(hours=-1)), "has expired: renew it"),
        (bench.authority.issue("other", "registry.example.org"), "in schema_registry.url"),
    ):
        with TlsProxy(bench.upstream, issued) as proxy:
            assert words in refusal(bench, url=f"https://{proxy.address}")
            assert proxy.served == 0
    assert "change https:// to http://" in refusal(bench, url=f"https://{bench.upstream}")


@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_a_client_that_is_not_trusted(bench: Bench, who: str) -> None:
    theirs = bench.stranger.issue("reader")
    files = {"cert_file": theirs.cert, "key_file": theirs.key}
    said = refusal(bench, **(dict.fromkeys(files) if who == "nobody" else files))
    assert "set schema_registry.cert_file" in said


def test_files_that_cannot_be_used(bench: Bench) -> None:
    for changes, words in (
        ({"ca_file": "/no/such.pem"}, "schema_registry.ca_file: /no/such.pem: No such file"),
        ({"key_file": "/no/such.key"}, "schema_registry.key_file: /no/such.key: No such file"),
        ({"key_file": bench.stranger.issue("x").key}, "schema_registry.key_file is not the key of"),
    ):
        assert words in refusal(bench, **changes)
