"""Kafka client properties: pass-through to Spark, translation for librdkafka, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from chsink.config import Config, Problem
from chsink.config.librdkafka import LOGIN_HANDLERS
from chsink.config.options import reserved

Build = Callable[..., Config]
Problems = Callable[..., dict[str, Problem]]

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="us\\"er" password=\'p;w=1\' ;'
OAUTH = 'a.OAuthBearerLoginModule required clientId="me" clientSecret="s" scope="kafka";'


def test_spark_gets_the_properties_as_they_are(build: Build) -> None:
    config = build(
        '[kafka.options]\nfetch.min.bytes = 1\ncheck.crcs = true\n"client.id" = { env = "ID" }', {"ID": "me"}
    )
    assert config.kafka.spark_options() == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.min.bytes": "1",
        "kafka.check.crcs": "true",
        "kafka.client.id": "me",
    }
    assert config.kafka.client_options() == {"bootstrap.servers": "localhost:9092", "client.id": "me"}


TRUST = 'security.protocol = "SSL"\n"ssl.truststore.certificates" = "PEM"'
PEM_KEY = 'security.protocol = "SSL"\nssl.keystore.type = "PEM"'
P12_KEY = 'security.protocol = "SSL"\nssl.keystore.type = "PKCS12"'
SASL = 'security.protocol = "SASL_SSL"'
BEARER = f'{SASL}\nsasl.mechanism = "OAUTHBEARER"\nsasl.oauthbearer.token.endpoint.url = "http://127.0.0.1:1/t"'


@pytest.mark.parametrize(
    ("options", "translated"),
    [
        ("", {}),
        (
            'security.protocol = "SSL"\nssl.truststore.type = "PEM"\nssl.truststore.location = "/etc/ssl/ca.pem"',
            {"security.protocol": "SSL", "ssl.ca.location": "/etc/ssl/ca.pem"},
        ),
        (
            f'{TRUST}\n"ssl.endpoint.identification.algorithm" = ""',
            {"security.protocol": "SSL", "ssl.ca.pem": "PEM", "ssl.endpoint.identification.algorithm": "none"},
        ),
        (
            f'{PEM_KEY}\nssl.keystore.location = "/me.pem"\nssl.protocol = "TLSv1.3"',
            {"security.protocol": "SSL", "ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"},
        ),
        (
            f'{P12_KEY}\nssl.keystore.location = "/me.p12"\nssl.keystore.password = {{ env = "SCRAM" }}',
            {"security.protocol": "SSL", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": SCRAM},
        ),
        (
            f'{PEM_KEY}\n"ssl.keystore.certificate.chain" = "C"\n"ssl.keystore.key" = {{ env = "SCRAM" }}',
            {"security.protocol": "SSL", "ssl.certificate.pem": "C", "ssl.key.pem": SCRAM},
        ),
        (
            f'{SASL}\nsasl.mechanism = "SCRAM-SHA-512"\nsasl.jaas.config = {{ env = "SCRAM" }}',
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": 'us"er',
                "sasl.password": "p;w=1",
            },
        ),
        (
            f'{BEARER}\nsasl.jaas.config = {{ env = "OAUTH" }}\nsasl.login.retry.backoff.ms = 1',
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.scope": "kafka",
                "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/t",
            },
        ),
    ],
)
def test_the_connection_is_translated(build: Build, options: str, translated: dict[str, str]) -> None:
    config = build(f"[kafka.options]\n{options}\nfetch.min.bytes = 1", {"SCRAM": SCRAM, "OAUTH": OAUTH})
    assert config.kafka.client_options() == {"bootstrap.servers": "localhost:9092", **translated}


@pytest.mark.parametrize(
    "options",
    [
        f'{SASL}\nsasl.mechanism = "SCRAM-SHA-512"\nsasl.jaas.config = {{ env = "SCRAM" }}',
        'security.protocol = "SSL"\n"ssl.endpoint.identification.algorithm" = ""',
        'security.protocol = "SASL_PLAINTEXT"\nsasl.mechanism = "PLAIN"\nsasl.jaas.config = { env = "SCRAM" }',
        'client.id = "me"\nclient.rack = "r"\nclient.dns.lookup = "use_all_dns_ips"',
    ],
)
def test_librdkafka_takes_the_translation(build: Build, options: str) -> None:
    config = build(f'[kafka]\nbootstrap = "127.0.0.1:1"\n[kafka.options]\n{options}', {"SCRAM": SCRAM})
    AdminClient({**config.kafka.client_options(), "log_level": 0})  # refuses a property it does not know


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ('security.protocol = "SSL"\nssl.keystore.location = "/a.jks"', "ssl.keystore.location", "PEM"),
        ('security.protocol = "SSL"\nssl.engine.factory.class = "x"', "ssl.engine.factory.class", "client_options"),
        ('security.protocol = "SSL"\nssl.truststor.type = "PEM"', "ssl.truststor.type", "`ssl.truststore.type`"),
        ('security.protocol = "SASL_SSL"\nsasl.mechanism = "GSSAPI"', "sasl.mechanism", "SCRAM-SHA-512"),
        ('security.protocol = "SASL_SSL"', "sasl.mechanism", "SCRAM-SHA-512"),
        (
            'security.protocol = "SASL_SSL"\nsasl.mechanism = "PLAIN"\nsasl.jaas.config = "x required;"',
            "sasl.jaas.config",
            "username=",
        ),
        (
            'security.protocol = "SASL_SSL"\nsasl.mechanism = "OAUTHBEARER"\nsasl.jaas.config = "x required;"',
            "sasl.jaas.config",
            "clientId=",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused(problems: Problems, options: str, key: str, words: str) -> None:
    found = problems(f"[kafka.options]\n{options}")
    assert set(found) == {f"kafka.options.{key}"}
    assert found[f"kafka.options.{key}"].id == "CHS-109"
    assert words in found[f"kafka.options.{key}"].hint


def test_client_options_answer_for_their_family(build: Build, problems: Problems) -> None:
    java = f'[kafka.options]\n{SASL}\nsasl.mechanism = "AWS_MSK_IAM"\nssl.truststore.location = "/a"\n'
    config = build(java + '[kafka.client_options]\n"sasl.mechanism" = "PLAIN"\n"ssl.ca.location" = "/ca"')
    assert config.kafka.client_options() == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.ca.location": "/ca",
    }
    found = problems(java + '[kafka.client_options]\n"sasl.mechanism" = "PLAIN"')
    assert set(found) == {"kafka.options.ssl.truststore.location"}


@pytest.mark.parametrize("option", [*reserved()["kafka.options"], "kafka.fetch.min.bytes", "fetchOffset.numRetries"])
def test_reserved_kafka_options_are_refused(problems: Problems, option: str) -> None:
    found = problems(f'[kafka.options]\n"{option}" = 1')
    assert found[f"kafka.options.{option}"].id == "CHS-105"


@pytest.mark.parametrize("option", reserved()["kafka.client_options"])
def test_reserved_client_options_are_refused(problems: Problems, option: str) -> None:
    """Z-2: among them, what the mirror's promise hangs on."""
    found = problems(f'[kafka.client_options]\n"{option}" = "x"')
    assert found[f"kafka.client_options.{option}"].id == "CHS-105"


def test_the_reason_of_min_partitions_is_told(problems: Problems) -> None:
    found = problems("[kafka.options]\nminPartitions = 8")
    reason = "it splits one topic-partition over several tasks, which breaks exactly-once delivery"
    assert found["kafka.options.minPartitions"].message == f"it cannot be set here: {reason}"
    assert found["kafka.options.minPartitions"].hint == "remove it"
    found = problems("[kafka.options]\nmaxOffsetsPerTrigger = 8")
    assert found["kafka.options.maxOffsetsPerTrigger"].hint == "set `kafka.max_offsets_per_trigger`"


@pytest.mark.parametrize(
    "setting",
    [
        *(name.removesuffix("…") for name in reserved()["clickhouse.settings"]),
        "async_insert",
        "insert_quorum_parallel",
        "min_insert_block_size_rows",
        "max_insert_block_size_bytes",
        "input_format_arrow_import_nested",
    ],
)
def test_pinned_settings_are_refused(problems: Problems, setting: str) -> None:
    found = problems(f"[clickhouse.settings]\n{setting} = 1")
    assert found[f"clickhouse.settings.{setting}"].id == "CHS-105"


@pytest.mark.parametrize("name", [*reserved()["spark.conf"], "executor.memory"])
def test_reserved_spark_configuration_is_refused(problems: Problems, name: str) -> None:
    found = problems(f'[spark.conf]\n"{name}" = 1')
    assert found[f"spark.conf.{name}"].id == "CHS-105"


def test_other_options_pass_as_texts(build: Build) -> None:
    config = build(
        "[clickhouse.settings]\nmax_partitions_per_insert_block = 400\noptimize_on_insert = false\nx = 0.5\n"
        '[spark.conf]\nspark.speculation = true\n"spark.task.maxFailures" = 8\n'
    )
    assert config.clickhouse.settings == {
        "max_partitions_per_insert_block": "400",
        "optimize_on_insert": "0",
        "x": "0.5",
    }
    assert config.spark.conf == {"spark.speculation": "true", "spark.task.maxFailures": "8"}


def test_a_token_is_asked_for_by_kafkas_own_handler(build: Build, problems: Problems) -> None:
    """Java's default handler makes unsigned tokens of its own."""
    name, environ = "sasl.login.callback.handler.class", {"OAUTH": OAUTH}
    login = f'[kafka.options]\n{BEARER}\nsasl.jaas.config = {{ env = "OAUTH" }}\n'
    kafka = build(login, environ).kafka
    assert kafka.token_url == "http://127.0.0.1:1/t"
    assert kafka.spark_options()[f"kafka.{name}"] == LOGIN_HANDLERS[0]
    given = build(f'{login}{name} = "{LOGIN_HANDLERS[1]}"', environ).kafka
    assert given.spark_options()[f"kafka.{name}"] == LOGIN_HANDLERS[1]
    assert name not in given.client_options()
    assert set(problems(f'[kafka.options]\n{SASL}\nsasl.mechanism = "PLAIN"\n{name} = "my.Handler"')) == {
        f"kafka.options.{name}"
    }
    assert build('[kafka.options]\nsecurity.protocol = "SSL"').kafka.token_url == ""
