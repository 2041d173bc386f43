"""Loading: the layers, their order, where each value came from, and files that are no job file."""

from __future__ import annotations

import pickle
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from chsink.config import Config, InvalidConfigError, load
from chsink.errors import ConfigError
from chsink.state import KeeperMap
from tests.unit.config.conftest import LEAST, merged

Load = Callable[..., Config]


def test_the_least_job_gets_the_defaults(load_text: Load) -> None:
    config = load_text()
    assert config.sink.checkpoint is None
    assert config.topics == ("flights",)
    assert config.kafka.starting_offsets == "earliest"
    assert config.kafka.isolation_level == "read_committed"
    assert config.clickhouse.chunk_offsets == 100_000
    assert config.clickhouse.max_chunk_bytes == 256 * 1024 * 1024
    assert config.state.store == "keepermap"
    assert config.errors.on_bad_value == "halt"
    assert config.trigger.interval_ms == 10_000
    assert config.app_name == "chsink flights"
    assert config.state == KeeperMap()


def test_override_beats_environment_beats_file_beats_default(load_text: Load, tmp_path: Path) -> None:
    text = LEAST + '[observe]\nlog_level = "debug"\nlog_format = "json"\nmetrics_port = 1\n'
    environ = {"CHSINK__OBSERVE__LOG_FORMAT": "console", "CHSINK__OBSERVE__METRICS_PORT": "2"}
    config = load_text(text, environ, observe__metrics_port=3)
    assert (config.observe.log_level, config.observe.log_format, config.observe.metrics_port) == ("debug", "console", 3)
    assert config.origin("observe.log_level") == str(tmp_path / "job.toml")
    assert config.origin("observe.log_format") == "environment variable CHSINK__OBSERVE__LOG_FORMAT"
    assert config.origin("observe.metrics_port") == "override"
    assert config.origin("observe.progress") == "default"
    assert config.job_words == ["-c", str(tmp_path / "job.toml")]


def test_commands_reach_the_sink_that_was_named(load_text: Load, tmp_path: Path) -> None:
    """⚡ The page of a job that was started with --set sink.name offered commands for another sink."""
    named = load_text(LEAST, {}, sink__name="other")
    assert named.job_words == ["-c", str(tmp_path / "job.toml"), "--set", "sink.name=other"]
    assert Config.from_mapping(tomllib.loads(LEAST), environ={}).job_words == []


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("CHSINK__SINK__NAME", "123", "sink.name", "123"),
        ("CHSINK__KAFKA__BOOTSTRAP", "a:1, b:2", "kafka.bootstrap", "a:1,b:2"),
        ("CHSINK__KAFKA__BOOTSTRAP", '["a:1", "b:2"]', "kafka.bootstrap", "a:1,b:2"),
        ("CHSINK__KAFKA__MAX_OFFSETS_PER_TRIGGER", "5_000", "kafka.max_offsets_per_trigger", 5000),
        ("CHSINK__STATE__CREATE_TABLE", "false", "state.create_table", False),
        ("CHSINK__STATE__TIMEOUT_S", "0.5", "state.timeout_s", 0.5),
        ("CHSINK__CLICKHOUSE__TLS__VERIFY", "true", "clickhouse.tls.verify", True),
        ("CHSINK__TRIGGER__MODE", '"available_now"', "trigger.mode", "available_now"),
        ("chsink__STATE__PATH", "/ignored", "state.path", "/chsink/state"),
    ],
)
def test_a_variable_is_read_by_the_type_of_its_key(
    load_text: Load, variable: str, text: str, key: str, value: object
) -> None:
    tls = "CHSINK__CLICKHOUSE__ENDPOINTS"
    config: Any = load_text(environ={variable: text, tls: "https://a:8443"})
    for part in key.split("."):
        config = getattr(config, part)
    assert config == value


def test_lists_of_tables_come_from_a_variable_as_toml(load_text: Load) -> None:
    environ = {
        "CHSINK__CLICKHOUSE__ENDPOINTS": '[{url = "http://a:1", weight = 2}, "http://b:2"]',
        "CHSINK__CLICKHOUSE__SHARD_KEY": "tailnum,origin",
        "CHSINK__ROUTE": '[{topic = "t", table = "u"}]',
    }
    config = load_text(environ=environ)
    assert [(endpoint.url, endpoint.weight) for endpoint in config.clickhouse.endpoints] == [
        ("http://a:1", 2),
        ("http://b:2", 1),
    ]
    assert config.clickhouse.total_weight == 3
    assert config.shard_key_of(config.routes[0]) == ("tailnum", "origin")


@pytest.mark.parametrize(
    ("variable", "table", "option"),
    [
        ("CHSINK__KAFKA__OPTIONS__FETCH_MIN_BYTES", "kafka.options", "fetch.min.bytes"),
        ("CHSINK__KAFKA__OPTIONS__fetch.min.bytes", "kafka.options", "fetch.min.bytes"),
        ("CHSINK__KAFKA__CLIENT_OPTIONS__SOCKET_TIMEOUT_MS", "kafka.client_options_", "socket.timeout.ms"),
        ("CHSINK__SPARK__CONF__SPARK_UI_ENABLED", "spark.conf", "spark.ui.enabled"),
        ("CHSINK__SPARK__CONF__spark_executor_memoryOverhead", "spark.conf", "spark.executor.memoryOverhead"),
        ("CHSINK__CLICKHOUSE__SETTINGS__MAX_MEMORY_USAGE", "clickhouse.settings", "max_memory_usage"),
    ],
)
def test_a_variable_may_name_an_option(load_text: Load, variable: str, table: str, option: str) -> None:
    config: Any = load_text(environ={variable: "7"})
    for part in table.split("."):
        config = getattr(config, part)
    assert config == {option: "7"}


@pytest.mark.parametrize("spelling", ['"fetch.min.bytes" = 1', "fetch.min.bytes = 1", '"fetch.min".bytes = 1'])
def test_an_override_replaces_an_option_however_the_file_spells_it(load_text: Load, spelling: str) -> None:
    text = LEAST + f"[kafka.options]\n{spelling}\nfetch.max.bytes = 9\n"
    config = load_text(text, {"CHSINK__KAFKA__OPTIONS__FETCH_MIN_BYTES": "2"})
    assert config.kafka.options == {"fetch.max.bytes": "9", "fetch.min.bytes": "2"}
    assert config.origin("kafka.options.fetch.min.bytes").startswith("environment variable")


def test_a_variable_that_names_no_key_is_an_error_beside_the_others(load_text: Load) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        load_text(LEAST + "[observe]\nmetrics_prot = 1\n", {"CHSINK__KAFKA__BOOTSTRP": "a:1", "CHSINK__TYPO": "x"})
    found = {problem.key: problem for problem in caught.value.problems}
    assert set(found) == {"kafka.bootstrp", "typo", "observe.metrics_prot"}
    assert {problem.id for problem in found.values()} == {"CHS-102"}
    assert found["kafka.bootstrp"].origin == "environment variable CHSINK__KAFKA__BOOTSTRP"
    assert found["kafka.bootstrp"].hint == "did you mean `kafka.bootstrap`?"
    assert found["observe.metrics_prot"].hint == "did you mean `observe.metrics_port`?"


def test_an_unknown_override_alone_is_an_error(load_text: Load) -> None:
    with pytest.raises(InvalidConfigError, match=r"CHS-102.*sink\.naem"):
        load_text(sink__naem="x")


@pytest.mark.parametrize("table", ["mirror.catalog", "kafka.options"])
def test_an_override_of_a_table_of_options_says_how_to_set_one(load_text: Load, table: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"set one option at a time: `{table}.NAME`"):
        load_text(**{table: '{ name = "x" }'})


def test_an_override_inside_what_is_no_table_is_reported_once(load_text: Load) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        load_text(
            "kafka = 3\n" + LEAST.replace("[kafka]", "").replace('bootstrap = "localhost:9092"', ""),
            kafka__bootstrap="a:1",
        )
    assert [(problem.id, problem.key) for problem in caught.value.problems] == [("CHS-104", "kafka")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[sink\n", "is not valid TOML"),
        (b'[sink]\nname = "\xff"', "is not UTF-8"),
        (b"a.b = 1\na.b.c = 2\n", "is not valid TOML"),
    ],
)
def test_a_file_that_is_not_toml_is_one_error(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidConfigError, match=reason) as caught:
        load(path, environ={"CHSINK__TYPO": "x"})
    assert [problem.id for problem in caught.value.problems] == ["CHS-101"]


@pytest.mark.parametrize("more", ["[mirror.route.create.types]\nx = 'y'", "[mirror.route.create]", "create.types = {}"])
def test_a_value_in_braces_that_is_extended_leads_on(tmp_path: Path, load_text: Load, more: str) -> None:
    """⚑ "Cannot declare … twice" said nothing of braces.  What the hint shows is read."""
    path, route = tmp_path / "job.toml", "[[mirror.route]]\ntopic = 't'\ntable = 'a.t'\n"
    path.write_text(f"{route}create = {{ partition = ['x'] }}\n{more}\n", encoding="utf-8")
    with pytest.raises(InvalidConfigError, match="is not valid TOML: Cannot ") as caught:
        load(path, environ={})
    assert "create = { partition = […], types = { … } }" in caught.value.hint and "a.b.c" in caught.value.hint
    for fixed in (
        "create = { partition = ['x'], types = { x = 'string' } }",
        "[mirror.route.create]\npartition = ['x']\ntypes = { x = 'string' }",
    ):
        config = load_text(f"{LEAST}\n{route}{fixed}\n")
        assert config.mirror.routes[0].section.create is not None


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="none.toml does not exist"):
        load(tmp_path / "none.toml")
    with pytest.raises(InvalidConfigError, match="cannot read"):
        load(tmp_path)


def test_a_byte_order_mark_is_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b"\xef\xbb\xbf" + LEAST.encode())
    assert load(path, environ={}).sink.name == "flights"


def test_configuration_and_errors_travel(load_text: Load) -> None:
    config = load_text(LEAST + 'password = { env = "P" }\n', {"P": "hidden"})
    copy = pickle.loads(pickle.dumps(config))
    assert copy == config
    assert copy.clickhouse.password.get_secret_value() == "hidden"
    assert copy.origin("clickhouse.password") == config.origin("clickhouse.password")
    assert len(pickle.dumps(config)) < 4096
    with pytest.raises(InvalidConfigError) as caught:
        load_text("[sink]")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems
    assert str(again) == str(caught.value)


def test_the_error_is_a_config_error_that_ends_with_2(load_text: Load) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text("")
    assert caught.value.exit_code == 2
    assert caught.value.id == "CHS-103"
    assert all(f"{key}: it is missing" in caught.value.message for key in ("sink", "kafka", "route", "clickhouse"))


def test_running_needs_a_checkpoint(load_text: Load) -> None:
    with pytest.raises(InvalidConfigError, match=r"CHS-110.*sink\.checkpoint"):
        load_text().required_checkpoint()
    assert load_text(sink__checkpoint="/x").required_checkpoint() == "/x"


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHSINK__SINK__NAME", "other")
    path = tmp_path / "job.toml"
    path.write_text(LEAST)
    assert load(path).sink.name == "other"
    assert load(path, environ={}).sink.name == "flights"


def test_the_mapping_given_is_not_changed(load_text: Load) -> None:
    override: Mapping[str, Any] = {"url": "http://b:1"}
    config = load_text(clickhouse__endpoints=[override])
    assert config.clickhouse.endpoints[0].url == "http://b:1"
    assert override == {"url": "http://b:1"}


def test_a_mode_that_is_overridden_takes_the_files_interval_with_it(load_text: Load) -> None:
    text = LEAST + '[trigger]\ninterval = "5 seconds"\n'

    config = load_text(text, trigger__mode="available_now")
    assert (config.trigger.mode, config.origin("trigger.interval")) == ("available_now", "default")
    assert load_text(text, {"CHSINK__TRIGGER__MODE": "available_now"}).trigger.mode == "available_now"
    assert load_text(text, trigger__mode="processing_time").trigger.interval_ms == 5000
    with pytest.raises(InvalidConfigError, match=r"trigger\.interval"):
        load_text(text, trigger__interval="1 second", trigger__mode="available_now")


@pytest.mark.parametrize(
    ("changes", "meant"),
    [
        ({"kafka": {"bootstraps": "localhost:9092"}}, "kafka.bootstraps"),
        ({"kafka": None, "kafak": {"bootstrap": "localhost:9092"}}, "kafak"),
    ],
)
def test_a_misspelt_key_comes_before_the_one_that_is_missing(changes: dict[str, Any], meant: str) -> None:
    """The message began with "it is missing" for the key that was meant."""
    data = {name: value for name, value in (merged("") | changes).items() if value is not None}
    with pytest.raises(InvalidConfigError) as caught:
        Config.from_mapping(data)
    problem, missing = caught.value.problems
    assert (missing.id, missing.message) == ("CHS-103", "it is missing")
    assert (problem.id, problem.key, problem.hint.startswith("did you mean")) == ("CHS-102", meant, True)
