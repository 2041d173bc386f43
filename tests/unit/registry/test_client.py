"""The registry's client against a real HTTP service: what is known, what is not there, and what is no answer."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from pydantic import SecretStr

from chsink.errors import PreflightError, UnavailableError
from chsink.findings import Severity
from chsink.registry.checks import registry_findings
from chsink.registry.client import Registered, Registry
from chsink.registry.settings import SchemaRegistry
from tests.support.registry import RegistryService

ADDRESS = '{"type":"record","name":"Address","namespace":"shop","fields":[{"name":"city","type":"string"}]}'
ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"to","type":"Address"}]}'


@pytest.fixture(scope="module")
def service() -> Iterator[RegistryService]:
    with RegistryService() as service:
        client = SchemaRegistryClient({"url": service.url})
        assert client.register_schema("address-value", Schema(ADDRESS, "AVRO")) == 1
        reference = SchemaReference("shop.Address", "address-value", 1)
        assert client.register_schema("order-value", Schema(ORDER, "AVRO", [reference])) == 2
        client.register_schema("event-value", Schema("{}", "JSON"))
        client.close()
        yield service


OPEN: list[Registry] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def registry(service: RegistryService, *, retry_for_s: float = 0.0, **keys: Any) -> Registry:
    settings = SchemaRegistry.model_validate({"url": (service.url,), "retry_for_s": retry_for_s} | keys)
    OPEN.append(Registry(settings, sleep=lambda s: time.sleep(min(s, 0.02))))
    return OPEN[-1]


def test_a_schema_is_asked_for_once_with_what_it_refers_to(service: RegistryService) -> None:
    asked, client = len(service.asked), registry(service)
    found = [client.schema(2) for _ in range(3)]
    assert found == [Registered("AVRO", ORDER, (("shop.Address", ADDRESS),))] * 3
    assert service.asked[asked:] == ["/schemas/ids/2", "/subjects/address-value/versions/1"]
    assert client.schema(3) == Registered("JSON", "{}")


def test_an_unknown_id_is_asked_for_twice_and_then_remembered(service: RegistryService) -> None:
    asked, client = len(service.asked), registry(service)
    assert [client.schema(99) for _ in range(5)] == [None] * 5
    assert service.asked[asked:] == ["/schemas/ids/99"] * 2


def test_a_topic_of_garbage_does_not_wait_for_every_id(service: RegistryService) -> None:
    asked, client = len(service.asked), registry(service)
    assert [client.schema(1000 + at) for at in range(50)] == [None] * 50
    assert len(service.asked) - asked == 60


@pytest.mark.parametrize("status", [500, 503, 429, 404])
def test_no_answer_is_never_an_unknown_id(service: RegistryService, status: int) -> None:
    client = registry(service)
    service.broken = status  # 404 without the registry's own code: a proxy's, or a wrong path
    try:
        with pytest.raises(UnavailableError, match=rf"answered with HTTP status {status}"):
            client.schema(2)
    finally:
        service.broken = 0
    assert client.schema(2) is not None


def test_it_is_retried_while_it_restarts(service: RegistryService) -> None:
    client = registry(service, retry_for_s=20)
    service.down()
    with pytest.raises(UnavailableError, match="does not answer"):
        registry(service).schema(1)
    back = threading.Timer(0.3, service.up)
    back.start()
    assert client.schema(1) == Registered("AVRO", ADDRESS)
    back.join()


@pytest.mark.parametrize(
    ("right", "wrong", "secret"),
    [
        ({"user": "u", "password": SecretStr("hush:x")}, {"user": "u", "password": SecretStr("guess")}, "hush"),
        ({"token": SecretStr("hush")}, {"token": SecretStr("guess")}, "hush"),
    ],
)
def test_a_login_is_sent_and_a_refusal_says_so(right: dict[str, Any], wrong: dict[str, Any], secret: str) -> None:
    with RegistryService() as service:
        service.schemas[1] = {"schema": ADDRESS}
        service.login, service.token = ("u:hush:x", "") if "user" in right else ("", "hush")
        client = registry(service, **right)
        assert client.schema(1) == Registered("AVRO", ADDRESS)
        for keys in (wrong, {}):
            with pytest.raises(UnavailableError, match="HTTP status 401") as caught:
                registry(service, retry_for_s=60, **keys).schema(1)
            assert "guess" not in str(caught.value)
        settings = pickle.loads(pickle.dumps(client._settings))
        assert secret not in repr(settings) + str(settings) + settings.model_dump_json()
        assert settings == client._settings


def test_doctor_names_a_topic_without_a_subject(service: RegistryService) -> None:
    findings = list(registry_findings(registry(service), [("order", "order-value"), ("other", "other-value")]))
    assert [found.severity for found in findings] == [Severity.OK, Severity.OK, Severity.WARNING]
    assert "no subject other-value" in findings[-1].sentence


def test_missing_packages_are_named_with_their_extra(service: RegistryService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(PreflightError, match=r"chsink\[avro\]") as caught:
        registry(service).schema(1)
    assert caught.value.exit_code == 2
