"""Executors may ask for Kafka's tokens where the job file says, besides what it says of their Java."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from chsink.config import Config
from chsink.spark.session import EXECUTOR_JAVA, executors_tokens

JAAS = 'a.OAuthBearerLoginModule required clientId="me" clientSecret="s";'
URL = "https://login.example.org/token"


def config(options: Mapping[str, object], conf: dict[str, str]) -> Config:
    return Config.from_mapping(
        {
            "sink": {"name": "s"},
            "kafka": {"bootstrap": "k:1", "options": options},
            "route": [{"topic": "t", "table": "t"}],
            "clickhouse": {"endpoints": ["http://a"]},
            "spark": {"conf": conf},
        },
        source="test",
        environ={"JAAS": JAAS},
    )


@pytest.mark.parametrize(("given", "before"), [({}, ""), ({EXECUTOR_JAVA: "-Xss4m"}, "-Xss4m ")])
def test_the_endpoint_is_allowed(given: dict[str, str], before: str) -> None:
    bearer = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": URL,
        "sasl.jaas.config": {"env": "JAAS"},
    }
    allowed = f"{before}-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={URL}"
    assert executors_tokens(config(bearer, given)) == {EXECUTOR_JAVA: allowed}


def test_without_tokens_nothing_is_changed() -> None:
    assert executors_tokens(config({}, {EXECUTOR_JAVA: "-Xss4m"})) == {}
