"""The ways in which a job file may say who it is to Kafka, as the text of ``[kafka.options]``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chsink.config import Config, load
from tests.support.certificates import Authority
from tests.support.secured_kafka import PASSWORD, USER
from tests.support.token_server import TokenServer

_MODULES: Final = "org.apache.kafka.common.security"
SCRAM: Final = {"sasl.mechanism": "SCRAM-SHA-512"}
JAAS: Final = f'{_MODULES}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
OTHER_JAAS: Final = f'{_MODULES}.scram.ScramLoginModule required username="{USER}" password="wrong";'
PLAIN_JAAS: Final = f'{_MODULES}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";'
STORE_PASSWORD: Final = "storepass"
ENVIRON: Final = {"JAAS": JAAS, "OTHER_JAAS": OTHER_JAAS, "PLAIN_JAAS": PLAIN_JAAS, "STORE": STORE_PASSWORD}
Options = Mapping[str, str | Mapping[str, str]]


def trusting(ca: Path, protocol: str = "SASL_SSL") -> dict[str, str]:
    """TLS that trusts the authority."""
    return {"security.protocol": protocol, "ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca)}


def logins(authority: Authority) -> dict[str, Options]:
    """Each way to log in as ``USER``, by name.  ``mtls`` ones are for the listener ``tls``."""
    mine, sasl, tls = authority.issue(USER), trusting(authority.ca), trusting(authority.ca, "SSL")
    return {
        "scram-512": {**sasl, **SCRAM, "sasl.jaas.config": {"env": "JAAS"}},
        "scram-256": {**sasl, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": {"env": "JAAS"}},
        "plain": {**sasl, "sasl.mechanism": "PLAIN", "sasl.jaas.config": {"env": "PLAIN_JAAS"}},
        "mtls-pem": {**tls, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(mine.both)},
        "mtls-pkcs12": {
            **tls,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(mine.store),
            "ssl.keystore.password": {"env": "STORE"},
        },
    }


def bearer(authority: Authority, tokens: TokenServer) -> Options:
    """OAUTHBEARER: each client asks the server for a token."""
    return {
        **trusting(authority.ca),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"{tokens.url}/token",
        "sasl.jaas.config": {"env": "BEARER"},
    }


def bearer_jaas(secret: str) -> str:
    """The login module's options."""
    return f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required clientId="{USER}" clientSecret="{secret}" scope="kafka";'


def options_toml(options: Options) -> str:
    """The section."""
    lines = (f"{json.dumps(name)} = {_value(value)}\n" for name, value in options.items())
    return "[kafka.options]\n" + "".join(lines)


def _value(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    return "{ " + ", ".join(f"{name} = {json.dumps(text)}" for name, text in value.items()) + " }"


def config_of(
    folder: Path,
    bootstrap: str,
    options: Options,
    topic: str = "t",
    environ: Mapping[str, str] = ENVIRON,
) -> Config:
    """The configuration of a job that reads the topic with these options."""
    file = folder / "job.toml"
    file.write_text(
        f'[sink]\nname = "s"\n[[route]]\ntopic = "{topic}"\ntable = "t"\n[clickhouse]\nendpoints = ["http://a"]\n'
        f'[kafka]\nbootstrap = "{bootstrap}"\ntimeout_s = 10\n' + options_toml(options)
    )
    return load(file, environ=environ)
