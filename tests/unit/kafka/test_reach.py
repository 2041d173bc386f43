"""A broker that refuses connections is reported in a few seconds, not after librdkafka's timeout."""

from __future__ import annotations

import socket
import time

import pytest

from chsink.embedded.base.ports import free_port
from chsink.embedded.kafka import EmbeddedKafka
from chsink.errors import UnavailableError
from chsink.kafka import admin


def test_nobody_listens() -> None:
    bootstrap = f"127.0.0.1:{free_port()},[::1]:{free_port()}"
    cluster = admin.KafkaAdmin({"bootstrap.servers": bootstrap}, timeout_s=60)
    began = time.monotonic()

    with pytest.raises(UnavailableError, match="CHS-702.*does not answer: Connection refused") as raised:
        cluster.topic_ids(["t"])

    assert raised.value.message.count(bootstrap) == 1
    assert "`chsink dev status` prints" in raised.value.hint, "the ports of `chsink dev up` are free ones"
    assert time.monotonic() - began < 20


def test_one_of_several_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert admin._refusals(f"127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}") == []


def test_a_name_that_is_not_known() -> None:
    [why] = admin._refusals("no-such-host.invalid:9092")
    assert "not known" in why or "resolution" in why


def test_silence_says_nothing_of_a_topics_settings() -> None:
    """Taken for settings that this user may not see, the topic would seem to keep its records for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = admin.KafkaAdmin({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"}, timeout_s=0.3)
        with pytest.raises(UnavailableError, match="CHS-702"):
            cluster.retention_ms("t")


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_the_wrong_security_protocol_is_named(kafka: EmbeddedKafka, protocol: str) -> None:
    """Its client only says that it waited for the controller."""
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hush"}
    options = {"bootstrap.servers": kafka.bootstrap, "security.protocol": protocol} | (
        login if "SASL" in protocol else {}
    )
    with pytest.raises(UnavailableError, match="CHS-702") as raised:
        admin.KafkaAdmin(options, timeout_s=3).topic_ids(["t"])
    assert f"security.protocol is {protocol}; the last connection: " in raised.value.message
    assert "closed by peer" in raised.value.message or "handshake failed" in raised.value.message
    assert '"security.protocol" in [kafka.options]' in raised.value.hint
    assert "hush" not in str(raised.value)


def test_a_service_that_is_not_kafka() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        cluster = admin.KafkaAdmin({"bootstrap.servers": f"127.0.0.1:{other.getsockname()[1]}"}, timeout_s=1)
        with pytest.raises(UnavailableError, match=r"security\.protocol is PLAINTEXT") as raised:
            cluster.topics()
    assert "names a Kafka listener" in raised.value.hint
