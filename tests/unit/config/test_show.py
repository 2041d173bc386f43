"""Showing a configuration: every value with its origin, no credential; and the page that describes every key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from chsink.config import Config, load, page, settings
from chsink.config.model import schema
from chsink.config.schema import rows
from chsink.state import KeeperMap, ZooKeeper
from tests.unit.config.conftest import merged

Build = Callable[..., Config]
DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = DOCS / "examples"
ENVIRON = {
    "CATALOG_URI": "postgresql://me:hush@db/lake",
    "CLICKHOUSE_PASSWORD": "hush",
    "REGISTRY_PASSWORD": "hush",
    "KAFKA_LOGIN": 'a.ScramLoginModule required username="u" password="hush";',
}


def test_every_key_is_shown_with_its_origin(build: Build) -> None:
    shown = {
        setting.key: setting for setting in settings(build("[observe]\nmetrics_port = 9\n[spark.conf]\nspark.a = 1"))
    }
    scalars = {path for path, key in schema().keys.items() if not key.options and not key.listed}
    elsewhere = {key.path for key in rows(ZooKeeper, "state.")} - {key.path for key in rows(KeeperMap, "state.")}
    assert set(shown) == scalars - elsewhere | {"spark.conf.spark.a"}
    assert (shown["observe.metrics_port"].value, shown["observe.metrics_port"].origin) == (9, "job.toml")
    assert shown["spark.conf.spark.a"].origin == "job.toml"
    assert shown["observe.progress"].origin == "default"
    assert shown["route"].value == [{"topic": "flights", "table": "flights"}]


def test_no_credential_is_ever_shown(build: Build) -> None:
    config = build(
        '[clickhouse]\npassword = { env = "P" }\n[kafka.options]\n"security.protocol" = "SASL_SSL"\n'
        '"sasl.mechanism" = "PLAIN"\n"sasl.jaas.config" = { env = "J" }\n"client.id" = { env = "P" }\n'
        '[kafka.client_options]\n"ssl.key.pem" = { env = "P" }\n[mirror.catalog]\nuri = { env = "P" }',
        {"P": "hush", "J": 'x required username="u" password="hush";'},
    )
    texts = [json.dumps([s.as_dict() for s in settings(config)]), repr(config), str(config), config.model_dump_json()]
    assert "hush" not in "".join(texts)
    hidden = {setting.key for setting in settings(config) if setting.value == "***"}
    assert hidden == {
        "clickhouse.password",
        "kafka.options.sasl.jaas.config",
        "kafka.options.client.id",
        "kafka.client_options.ssl.key.pem",
        "mirror.catalog.uri",
    }


SECRETS = sorted({path for path, key in schema().keys.items() if key.type is SecretStr})
OPTIONS = ("ssl.keystore.password", "ssl.keystore.key", "ssl.key.password", "ssl.truststore.password")
IN_CATALOG = (
    *("credential", "token", "auth.oauth2.client_secret", "header.Authorization", "header.X-Api-Key"),
    *("s3.secret-access-key", "s3.session-token", "gcs.oauth2.token"),
    *("adls.account-key", "adls.sas-token", "adls.client-secret", "adls.connection-string"),
)


LOGINS = """
[state]
store = "zookeeper"
zookeeper = "z:1"
user = "u"
[schema_registry]
url = "http://r"
user = "u"
[kafka.options]
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "PLAIN"
"sasl.jaas.config" = { env = "J" }
[observe]
[mirror.catalog]
"""
TABLES = ("kafka.options", "mirror.catalog", "clickhouse", "state", "schema_registry", "observe")


def test_every_key_that_holds_a_credential_is_hidden() -> None:
    """Whatever a secret of the model, a property of Kafka's client or one of a catalog is called."""
    environ = {"P": "hush" * 4, "J": 'x required username="u" password="hush";'}
    secrets = [key for key in SECRETS if key != "schema_registry.token"]  # beside a password, it is refused
    secrets += [f"kafka.options.{name}" for name in OPTIONS] + [f"mirror.catalog.{name}" for name in IN_CATALOG]
    data = merged(LOGINS)
    for key in secrets:
        table, name = next((key[: len(t)], key[len(t) + 1 :]) for t in TABLES if key.startswith(f"{t}."))
        reduce(dict.__getitem__, table.split("."), data)[name] = {"env": "P"}
    config = Config.from_mapping(data, environ=environ)
    shown = settings(config)
    texts = [json.dumps([s.as_dict() for s in shown]), repr(config), str(config), config.model_dump_json()]
    assert [text for text in texts if "hush" in text] == []
    assert {setting.key for setting in shown if setting.value == "***"} == {*secrets, "kafka.options.sasl.jaas.config"}


@pytest.mark.parametrize("name", IN_CATALOG)
def test_no_credential_of_a_catalog_stands_in_the_job_file(problems: Any, name: str) -> None:
    found = problems(f'[mirror.catalog]\n"{name}" = "hush"')
    assert found[f"mirror.catalog.{name}"].id == "CHS-107"


def test_a_login_module_is_hidden_even_without_a_password(build: Build) -> None:
    config = build(
        '[kafka.options]\n"security.protocol" = "SASL_SSL"\n"sasl.jaas.config" = "x required ticket=hush;"\n'
        '[kafka.client_options]\n"sasl.mechanism" = "PLAIN"'
    )
    assert "hush" not in str([setting.as_dict() for setting in settings(config)])


def test_the_reference_page_is_up_to_date() -> None:
    written = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert written == f"{page.page()}\n", "run: python -m chsink.config.page > docs/configuration.md"


def test_every_section_is_described() -> None:
    text = page.page()
    for name in schema().sections:
        assert re.search(rf"^## `\[+{name}\]+`$", text, re.MULTILINE), name


def test_every_key_is_described() -> None:
    text = page.page()
    for path, key in schema().keys.items():
        if path == "route":
            continue
        assert key.description, path
        name = path.rpartition(".")[2] if key.listed else path.partition(".")[2]
        assert f"| `{name}` |" in text, path


@pytest.mark.parametrize("name", ["job.toml", "job.full.toml"])
def test_the_examples_are_right(name: str) -> None:
    config = load(EXAMPLES / name, environ=ENVIRON)
    assert config.required_checkpoint()
    assert config.clickhouse.password.get_secret_value() == "hush"


def test_the_first_example_is_short() -> None:
    lines = (EXAMPLES / "job.toml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 15


def test_the_full_example_names_every_section() -> None:
    named = set(re.findall(r"^\[+([a-z_]+)", (EXAMPLES / "job.full.toml").read_text(encoding="utf-8"), re.MULTILINE))
    assert named | {"in_doubt"} == set(schema().names_in(""))
