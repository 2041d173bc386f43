"""Every login of a job file, with both clients that read it: Spark's source (Java) and chsink's own (librdkafka).

And wrong ones: the error says which option to change, and that another start would not help (exit code 2).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chsink.errors import PreflightError, preflight
from chsink.errors.entry import Entry
from chsink.kafka import admin
from chsink.spark.failures import stopped
from chsink.spark.session import prepare_kafka
from tests.integration.security.conftest import SECRET
from tests.support.acl_lines import Allowed
from tests.support.certificates import Authority
from tests.support.kafka import produce
from tests.support.kafka_logins import (
    ENVIRON,
    OTHER_JAAS,
    STORE_PASSWORD,
    Options,
    bearer,
    bearer_jaas,
    config_of,
    logins,
    trusting,
)
from tests.support.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.support.token_server import TokenServer

pytestmark = pytest.mark.slow
SOAK = pytest.mark.soak
WAYS = (
    "scram-512",
    "mtls-pem",
    *(pytest.param(way, marks=SOAK) for way in ("scram-256", "plain", "mtls-pkcs12", "bearer")),
)


@pytest.fixture(scope="module")
def readable(secured: SecuredKafka) -> str:
    """A topic with three records, which ``USER`` may read."""
    secured.create_topic("readable")
    secured.allow(Allowed(USER, "Read", "topic", "readable", prefixed=False))
    produce(secured.bootstrap, "readable", 0, [{"id": n} for n in range(3)])
    return "readable"


@pytest.mark.parametrize("way", WAYS)
def test_both_clients_log_in(
    way: str,
    secured: SecuredKafka,
    readable: str,
    authority: Authority,
    tokens: TokenServer,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    ways = {**logins(authority), "bearer": bearer(authority, tokens)}
    environ = {**ENVIRON, "BEARER": bearer_jaas(SECRET)}
    bootstrap = secured.tls if way.startswith("mtls") else secured.sasl
    config = config_of(tmp_path, bootstrap, ways[way], readable, environ)
    cluster = admin.open_admin(config)
    assert list(cluster.log_ends(cluster.partitions([readable])).values()) == [3]
    prepare_kafka(spark, config)
    frame = spark.read.format("kafka").options(**config.kafka.spark_options()).option("subscribe", readable).load()
    assert frame.count() == 3


def wrong(
    secured: SecuredKafka, authority: Authority, stranger: Authority, tokens: TokenServer
) -> dict[str, tuple[str, Options, Entry]]:
    """Bootstrap, options and error of each wrong way."""
    ways, tls = logins(authority), trusting(authority.ca, "SSL")
    sasl, store = ways["scram-512"], ways["mtls-pkcs12"]
    old = authority.issue("old", valid=timedelta(hours=-1))
    named = secured.sasl.replace("127.0.0.1", "localhost")
    elsewhere = {"ssl.truststore.location": str(stranger.ca)}
    foreign = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(stranger.issue(USER).both)}
    expired = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(old.both)}
    wrong_password = {"sasl.jaas.config": {"env": "OTHER_JAAS"}}
    return {
        "password": (secured.sasl, {**sasl, **wrong_password}, preflight.KAFKA_LOGIN_REFUSED),
        "authority": (secured.sasl, {**sasl, **elsewhere}, preflight.KAFKA_SERVER_NOT_TRUSTED),
        "host-name": (named, sasl, preflight.KAFKA_SERVER_NOT_TRUSTED),
        "no-certificate": (secured.tls, tls, preflight.KAFKA_CLIENT_NOT_TRUSTED),
        "foreign-certificate": (secured.tls, {**tls, **foreign}, preflight.KAFKA_CLIENT_NOT_TRUSTED),
        "expired-certificate": (secured.tls, {**tls, **expired}, preflight.KAFKA_CLIENT_NOT_TRUSTED),
        "no-file": (
            secured.sasl,
            {**sasl, "ssl.truststore.location": "/no/such/file"},
            preflight.KAFKA_OPTIONS_UNUSABLE,
        ),
        "store-password": (
            secured.tls,
            {**store, "ssl.keystore.password": {"env": "OTHER_JAAS"}},
            preflight.KAFKA_OPTIONS_UNUSABLE,
        ),
        "token": (secured.sasl, bearer(authority, tokens), preflight.KAFKA_TOKEN_REFUSED),
        "no-right": (secured.sasl, sasl, preflight.KAFKA_RIGHT_MISSING),
    }


WRONG = (
    "password",
    "authority",
    "host-name",
    "no-certificate",
    "foreign-certificate",
    "expired-certificate",
    "no-file",
    "store-password",
    "token",
    "no-right",
)


@pytest.mark.parametrize("way", WRONG)
def test_a_wrong_login_is_refused_with_what_to_change(
    way: str,
    secured: SecuredKafka,
    authority: Authority,
    stranger: Authority,
    tokens: TokenServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admin, "REFUSED_FOR_S", 0.5)
    bootstrap, options, entry = wrong(secured, authority, stranger, tokens)[way]
    config = config_of(tmp_path, bootstrap, options, "unseen", {**ENVIRON, "BEARER": bearer_jaas("wrong")})
    with pytest.raises(PreflightError) as raised:
        admin.open_admin(config).topic_ids(["unseen"])
    assert (raised.value.id, raised.value.hint, raised.value.exit_code) == (entry.id, entry.hint, 2)
    assert not any(secret in str(raised.value) for secret in (PASSWORD, "wrong", STORE_PASSWORD))


@pytest.mark.parametrize(
    ("options", "entry"),
    [
        pytest.param({"sasl.jaas.config": OTHER_JAAS}, preflight.KAFKA_LOGIN_REFUSED, marks=SOAK),
        pytest.param({"ssl.truststore.location": "stranger"}, preflight.KAFKA_TLS_REFUSED, marks=SOAK),
        ({}, preflight.KAFKA_READ_FORBIDDEN),
    ],
)
def test_what_only_spark_is_refused_is_said_in_the_same_words(
    options: dict[str, str],
    entry: Entry,
    secured: SecuredKafka,
    authority: Authority,
    stranger: Authority,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """Its options may differ from chsink's (``kafka.client_options``), and its files from those of the driver."""
    given = {name: str(stranger.ca) if value == "stranger" else value for name, value in options.items()}
    secured.create_topic(topic := f"unseen-{entry.name.lower()}")
    config = config_of(tmp_path, secured.sasl, logins(authority)["scram-512"], topic)
    more = {f"kafka.{name}": value for name, value in given.items()}
    stream = spark.readStream.format("kafka").options(**{**config.kafka.spark_options(), **more})
    reader = stream.option("subscribe", topic).option("startingOffsets", "earliest")
    query = reader.load().writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(PySparkException) as raised:
        query.awaitTermination()
    error = stopped(raised.value)
    assert (error.id, error.hint, error.exit_code) == (entry.id, entry.hint, 2), error
    assert PASSWORD not in str(error)
