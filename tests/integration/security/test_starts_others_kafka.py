"""What a start says of logins to Kafka, of TLS and of rights: what it tells to do leads on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chsink.errors import PreflightError
from chsink.kafka import admin
from tests.integration.exits.looked import leads_on, look
from tests.integration.security.conftest import SECRET
from tests.integration.security.test_acls import Bench, Make, make
from tests.support.acl_lines import Allowed, allowed
from tests.support.certificates import Authority
from tests.support.kafka_logins import ENVIRON, Options, bearer, bearer_jaas, logins, trusting
from tests.support.secured_kafka import USER, SecuredKafka
from tests.support.token_server import TokenServer
from tests.support.told import says, topic_settings_of, words_of

__all__ = ["make"]

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@pytest.fixture
def job(make: Make, secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A job that may do all it needs, with five records."""
    monkeypatch.setattr(admin, "REFUSED_FOR_S", 0.5)
    for name, text in {**ENVIRON, "BEARER": bearer_jaas(SECRET), "BEARER_OF_OTHERS": bearer_jaas("wrong")}.items():
        monkeypatch.setenv(name, text)
    job = make({})
    secured.allow(*job.acls())
    job.send(0, 5)
    return job


def env(name: str) -> dict[str, str]:
    return {"env": name}


@pytest.fixture
def ways(
    secured: SecuredKafka, authority: Authority, stranger: Authority, tokens: TokenServer
) -> Mapping[str, tuple[str, Options, Mapping[str, Any]]]:
    """By name: the broker's address, options that are right, and the ones of them that are wrong at first."""
    sasl, mtls = logins(authority)["scram-512"], logins(authority)["mtls-pem"]
    store = {name: text for name, text in mtls.items() if name.startswith("ssl.keystore")}
    token = bearer(authority, tokens)
    foreign = str(stranger.issue(USER).both)
    return {
        "password": (secured.sasl, sasl, {"sasl.jaas.config": env("OTHER_JAAS")}),
        "mechanism": (secured.sasl, sasl, {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": env("OTHER_JAAS")}),
        "token": (secured.sasl, token, {"sasl.jaas.config": env("BEARER_OF_OTHERS")}),
        "authority": (secured.sasl, sasl, {"ssl.truststore.location": str(stranger.ca)}),
        "certificate": (secured.tls, mtls, {"ssl.keystore.location": foreign}),
        "no certificate": (secured.tls, mtls, dict.fromkeys(store)),
        "file": (secured.sasl, sasl, {"ssl.truststore.location": "/no/such/file"}),
        "type": (secured.tls, mtls, {"ssl.keystore.type": "PKCS12"}),
    }


@pytest.mark.exit_of("KAFKA_LOGIN_REFUSED")
@pytest.mark.exit_of("KAFKA_TOKEN_REFUSED")
@pytest.mark.exit_of("KAFKA_SERVER_NOT_TRUSTED")
@pytest.mark.exit_of("KAFKA_CLIENT_NOT_TRUSTED")
@pytest.mark.exit_of("KAFKA_OPTIONS_UNUSABLE")
@pytest.mark.parametrize(
    ("entry", "way"),
    [
        ("KAFKA_LOGIN_REFUSED", "password"),
        ("KAFKA_LOGIN_REFUSED", "mechanism"),
        ("KAFKA_TOKEN_REFUSED", "token"),
        ("KAFKA_SERVER_NOT_TRUSTED", "authority"),
        ("KAFKA_CLIENT_NOT_TRUSTED", "certificate"),
        ("KAFKA_CLIENT_NOT_TRUSTED", "no certificate"),
        ("KAFKA_OPTIONS_UNUSABLE", "file"),
        ("KAFKA_OPTIONS_UNUSABLE", "type"),
    ],
)
def test_options_that_are_wrong(
    job: Bench, ways: Mapping[str, tuple[str, Options, Mapping[str, Any]]], entry: str, way: str
) -> None:
    """The message names every option that is corrected."""
    bootstrap, right, wrong = ways[way]
    job.settings = {**job.settings, "kafka.bootstrap": bootstrap}
    job.options = {name: value for name, value in {**right, **wrong}.items() if value is not None}
    before = look(job)
    says(before.fix(entry), *(name for name, value in wrong.items() if value or name == "ssl.keystore.location"))
    job.options = right
    leads_on(entry, before, job)


@pytest.mark.exit_of("KAFKA_SERVER_NOT_TRUSTED")
@pytest.mark.exit_of("KAFKA_CLIENT_NOT_TRUSTED")
@pytest.mark.parametrize(
    ("entry", "step"),
    [
        ("KAFKA_SERVER_NOT_TRUSTED", "make kafka.bootstrap and the brokers' advertised.listeners use a host name"),
        ("KAFKA_CLIENT_NOT_TRUSTED", "without such a certificate, use another listener in kafka.bootstrap"),
    ],
)
def test_an_address_that_is_wrong(
    job: Bench, secured: SecuredKafka, authority: Authority, spark: SparkSession, entry: str, step: str
) -> None:
    right, options = job.settings["kafka.bootstrap"], job.options
    if entry == "KAFKA_SERVER_NOT_TRUSTED":
        wrong = right.replace("127.0.0.1", "localhost")
    else:
        wrong, job.options = secured.tls, trusting(authority.ca, "SSL")
    job.settings = {**job.settings, "kafka.bootstrap": wrong}
    before = look(job)
    says(before.fix(entry), step)
    job.settings, job.options = {**job.settings, "kafka.bootstrap": right}, options
    leads_on(entry, before, job)
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("KAFKA_RIGHT_MISSING")
@pytest.mark.exit_of("KAFKA_READ_FORBIDDEN")
@pytest.mark.parametrize("seen", [False, True])
def test_rights_that_are_missing(make: Make, secured: SecuredKafka, spark: SparkSession, *, seen: bool) -> None:
    """``seen``: the user may see the topic, so only Spark is refused."""
    job = make({})
    job.send(0, 5)
    if seen:
        secured.allow(Allowed(USER, "Describe", "topic", job.topic, prefixed=False))
        secured.allow(*(one for one in job.acls() if (one.kind, one.operation) != ("topic", "Read")))
        with pytest.raises(PreflightError) as raised:
            job.drain(spark)
        assert raised.value.name == "KAFKA_READ_FORBIDDEN"
        fix = raised.value.hint
    else:
        fix = look(job).fix("KAFKA_RIGHT_MISSING")
    secured.allow(*allowed(job.cli(*words_of(fix, "kafka", "acls"))))
    assert not look(job).wrong
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("KAFKA_TLS_REFUSED")
def test_files_that_only_spark_uses(job: Bench, authority: Authority, stranger: Authority, spark: SparkSession) -> None:
    """Chsink's own client has options that are right."""
    right = job.options
    job.options = {**right, "ssl.truststore.location": str(stranger.ca)}
    with pytest.raises(PreflightError) as raised:
        job.drain(spark, {"kafka.client_options.ssl.ca.location": str(authority.ca)})
    assert raised.value.name == "KAFKA_TLS_REFUSED"
    says(raised.value, "check ssl.truststore.location and ssl.keystore.location in [kafka.options]")
    job.options = right
    job.drain(spark)
    job.check()


@pytest.mark.exit_of("PATTERN_MATCHES_NOTHING")
def test_a_pattern_of_topics_that_the_user_may_not_see(make: Make, secured: SecuredKafka) -> None:
    job = make({})
    job.settings = {**job.settings, "route": [{"topic_pattern": job.topic, "table": job.tables[job.topic]}]}
    before = look(job)
    says(before.fix("PATTERN_MATCHES_NOTHING"), "grant the Kafka user DESCRIBE on the topics")
    secured.allow(Allowed(USER, "Describe", "topic", job.topic, prefixed=False))
    leads_on("PATTERN_MATCHES_NOTHING", before, job)


@pytest.mark.exit_of("DEAD_LETTERS_TOPIC")
def test_a_topic_of_dead_letters_whose_settings_the_user_may_not_see(make: Make, secured: SecuredKafka) -> None:
    """It keeps all of them; chsink cannot know that."""
    job = make({"errors.on_bad_value": "dead_letter", "dead_letters.topic": "NAME-dead"})
    dead = job.settings["dead_letters.topic"]
    secured.create_topic(dead, 1, {"retention.ms": "-1"})
    every = job.acls()
    secured.allow(*(one for one in every if (one.name, one.operation) != (dead, "DescribeConfigs")))
    before = look(job)
    fix = before.fix("DEAD_LETTERS_TOPIC")
    assert topic_settings_of(fix) == {"cleanup.policy": "delete", "retention.ms": "-1"}
    says(fix, "allow the user DESCRIBE_CONFIGS on it")
    secured.allow(Allowed(USER, "DescribeConfigs", "topic", dead, prefixed=False))
    leads_on("DEAD_LETTERS_TOPIC", before, job)
