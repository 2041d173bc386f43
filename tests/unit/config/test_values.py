"""Values: what may be written for each key, and what is refused with which words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from chsink.config import Config, Problem
from chsink.fields import reveal
from chsink.state import KeeperMap

Build = Callable[..., Config]
Problems = Callable[..., dict[str, Problem]]


@pytest.mark.parametrize(
    ("changes", "id", "key", "words"),
    [
        ('[sink]\nname = "a/b"', "CHS-104", "sink.name", "not a sink name"),
        ('[sink]\ncheckpoint = " "', "CHS-104", "sink.checkpoint", "it is empty"),
        ("[sink]\nname = 3", "CHS-104", "sink.name", "it must be a string"),
        ("sink = 3", "CHS-104", "sink", "it must be a table"),
        ("kafka = []", "CHS-104", "kafka", "it must be a table"),
        ('[kafka]\nbootstrap = "localhost"', "CHS-104", "kafka.bootstrap", "'localhost' is not host:port"),
        ('[kafka]\nbootstrap = "a:1,b:70000"', "CHS-104", "kafka.bootstrap", "'b:70000' is not host:port"),
        ('[kafka]\nbootstrap = ""', "CHS-104", "kafka.bootstrap", "not a list of addresses"),
        ("[kafka]\nbootstrap = 9092", "CHS-104", "kafka.bootstrap", "not a list of addresses"),
        ('[kafka]\nstarting_offsets = "earlest"', "CHS-104", "kafka.starting_offsets", "'earlest' is not allowed"),
        ("[kafka]\nmax_offsets_per_trigger = 0", "CHS-104", "kafka.max_offsets_per_trigger", "greater than 0"),
        (
            "[kafka]\nmax_offsets_per_trigger = 1.5",
            "CHS-104",
            "kafka.max_offsets_per_trigger",
            "it must be a whole number",
        ),
        (
            '[kafka]\nmax_offsets_per_trigger = "5"',
            "CHS-104",
            "kafka.max_offsets_per_trigger",
            "it must be a whole number",
        ),
        ("[kafka]\nfail_on_data_loss = true", "CHS-102", "kafka.fail_on_data_loss", "no such key"),
        ('[kafka]\noptions = "x"', "CHS-104", "kafka.options", "it must be a table"),
        ("[kafka.options]\nx = []", "CHS-104", "kafka.options.x", "it must be a string, a number or a boolean"),
        ('[kafka.options]\n"a.b" = 1\na.b = 2', "CHS-106", "kafka.options", "'a.b' is set twice"),
        ('[route]\ntopic = "t"', "CHS-104", "route", "it must be a list"),
        ('[[route]]\ntopic = "a*"\ntable = "t"', "CHS-104", "route[0].topic", "not a topic name"),
        ('[[route]]\ntopic = ".."\ntable = "t"', "CHS-104", "route[0].topic", "not a topic name"),
        ('[[route]]\ntopic = "a"\ntable = "a.b.c"', "CHS-104", "route[0].table", "not a table name"),
        ("route = []", "CHS-103", "route", "it is missing"),
        ("[clickhouse]\nendpoints = []", "CHS-104", "clickhouse.endpoints", "the list is empty"),
        ('[clickhouse]\nendpoints = ["localhost:8123"]', "CHS-104", "clickhouse.endpoints[0].url", "not the URL"),
        ('[clickhouse]\nendpoints = ["http://a:x"]', "CHS-104", "clickhouse.endpoints[0].url", "not the URL"),
        ('[clickhouse]\nendpoints = ["http://a/path"]', "CHS-104", "clickhouse.endpoints[0].url", "not the URL"),
        ('[clickhouse]\nendpoints = ["tcp://a:9000"]', "CHS-104", "clickhouse.endpoints[0].url", "not the URL"),
        (
            '[clickhouse]\nendpoints = ["http://u:p@a"]',
            "CHS-107",
            "clickhouse.endpoints[0].url",
            "must not contain a credential",
        ),
        ('[clickhouse]\npassword = "p"', "CHS-107", "clickhouse.password", "must not contain a password"),
        ("[clickhouse]\npassword = {}", "CHS-104", "clickhouse.password", "not a reference"),
        ('[clickhouse]\npassword = { env = "A", file = "b" }', "CHS-104", "clickhouse.password", "not a reference"),
        ("[clickhouse]\npassword = { env = 1 }", "CHS-104", "clickhouse.password", "not a reference"),
        ('[clickhouse]\npassword = { env = "NOT_SET" }', "CHS-108", "clickhouse.password", "NOT_SET is not set"),
        ('[clickhouse]\npassword = { file = "nope" }', "CHS-108", "clickhouse.password", "No such file"),
        ('[clickhouse]\npassword = { command = "pass x" }', "CHS-104", "clickhouse.password", "list of strings"),
        ("[clickhouse]\npassword = { command = [] }", "CHS-104", "clickhouse.password", "list of strings"),
        ('[clickhouse]\npassword = { command = ["/no/such"] }', "CHS-108", "clickhouse.password", "No such file"),
        ('[clickhouse]\npassword = { command = ["false"] }', "CHS-108", "clickhouse.password", "ended with 1"),
        ('[clickhouse]\npassword = { command = ["true"] }', "CHS-108", "clickhouse.password", "printed nothing"),
        (
            "[clickhouse]\nconnect_timeout_s = inf",
            "CHS-104",
            "clickhouse.connect_timeout_s",
            "it must be a finite number",
        ),
        (
            "[clickhouse]\nconnect_timeout_s = nan",
            "CHS-104",
            "clickhouse.connect_timeout_s",
            "it must be a finite number",
        ),
        ("[clickhouse]\nchunk_offsets = 10_000_001", "CHS-104", "clickhouse.chunk_offsets", "less than or equal"),
        ('[clickhouse]\nhash_function = "xxhash64"', "CHS-104", "clickhouse.hash_function", "is not allowed"),
        ("[clickhouse.settings]\nx = { env = 1 }", "CHS-104", "clickhouse.settings.x", "it must be a string, a number"),
        ('[state]\npath = "state"', "CHS-104", "state.path", "not a Keeper path"),
        ('[state]\npath = "/a/../b"', "CHS-104", "state.path", "not a Keeper path"),
        ('[state]\npath = "/a/"', "CHS-104", "state.path", "not a Keeper path"),
        ("[state]\ncreate_table = 1", "CHS-104", "state.create_table", "it must be true or false"),
        ('[trigger]\nmode = "continuous"', "CHS-104", "trigger.mode", "continuous processing has no micro-batches"),
        ('[trigger]\nmode = "real_time"', "CHS-104", "trigger.mode", "logs a batch's offsets after"),
        ('[trigger]\ninterval = "10s"', "CHS-104", "trigger.interval", "not an interval"),
        ("[observe]\nlog_level = 3", "CHS-104", "observe.log_level", "it must be a string"),
        ("[mirror]\nenable = true", "CHS-102", "mirror.enable", "no such key"),
        ('[mirror]\nenabled = "yes"', "CHS-104", "mirror.enabled", "it must be true or false"),
        ("[mirror]\ninterval_s = 0", "CHS-104", "mirror.interval_s", "greater than 0"),
        ('[mirror]\ncontrol_topic = "a b"', "CHS-104", "mirror.control_topic", "not a topic name"),
        ("[mirror.catalog]\nuri = []", "CHS-104", "mirror.catalog.uri", "it must be a string, a number or a boolean"),
        ('[mirror.catalog]\nuri = { env = "NOPE" }', "CHS-108", "mirror.catalog.uri", "NOPE is not set"),
        ('[mirror.route]\ntopic = "a"', "CHS-104", "mirror.route", "it must be a list"),
        ('[[mirror.route]]\ntopic = "a"', "CHS-106", "mirror.route[0]", "either table or table_by"),
        ('[[mirror.route]]\ntopic = "a"\ntable = "t"', "CHS-104", "mirror.route[0].table", "of an Iceberg table"),
        ('[[mirror.route]]\ntopic = "a*"\ntable = "s.t"', "CHS-104", "mirror.route[0].topic", "not a topic name"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(problems: Problems, changes: str, id: str, key: str, words: str) -> None:
    found = problems(changes)
    assert set(found) == {key}
    assert found[key].id == id
    assert words in found[key].message
    assert found[key].hint
    if id != "CHS-103":
        assert "job.toml" in found[key].origin


@pytest.mark.parametrize(
    ("changes", "key", "hint"),
    [
        ('[kafka]\nstarting_offsets = "earlest"', "kafka.starting_offsets", 'did you mean "earliest"?'),
        ('[clickhouse]\nhash_function = "xxhash64"', "clickhouse.hash_function", 'did you mean "xxHash64"?'),
        ('[observe]\nlog_level = "INFO"', "observe.log_level", 'did you mean "info"?'),
        ('[errors]\non_gap = "zzz"', "errors.on_gap", 'use "halt" or "record"'),
        ("[sink]\nchekpoint = 1", "sink.chekpoint", "did you mean `sink.checkpoint`?"),
        ("[sink]\nbootstrap = 1", "sink.bootstrap", "did you mean `kafka.bootstrap`?"),
        ("[kafka]\nmin_partitions = 3", "kafka.min_partitions", "splits one topic-partition"),
        ("[kafka]\nqqq = 3", "kafka.qqq", "[kafka] has: bootstrap, starting_offsets"),
        ("[routes]", "routes", "did you mean `route`?"),
        ("[clickhouse.tls]\nca_fle = 1", "clickhouse.tls.ca_fle", "did you mean `clickhouse.tls.ca_file`?"),
        (
            '[[clickhouse.endpoints]]\nurl = "http://a:1"\nwieght = 1',
            "clickhouse.endpoints[0].wieght",
            "did you mean `clickhouse.endpoints.weight`?",
        ),
        ('[[route]]\ntopic = "a"\ntable = "b"\nshardkey = 1', "route[0].shardkey", "did you mean `route.shard_key`?"),
        ("[kafka]\nmax_offsets_per_trigger = true", "kafka.max_offsets_per_trigger", "takes: integer > 0"),
        ('[route]\ntopic = "t"', "route", "[[route]], with two brackets"),
        (
            '[clickhouse]\nendpoints = [{url = "http://a", weight = 0}]',
            "clickhouse.endpoints[0].weight",
            "takes: integer ≥ 1",
        ),
        ('[[mirror.route]]\ntopic = "a"', "mirror.route[0]", 'set table = "'),
        ("[clickhouse]\nport = 8123", "clickhouse.port", "into each URL"),
    ],
)
def test_the_fix_is_told(problems: Problems, changes: str, key: str, hint: str) -> None:
    assert hint in problems(changes)[key].hint


def test_all_problems_are_told_at_once_contradictions_too(problems: Problems) -> None:
    found = problems(
        '[sink]\nname = "/"\n[kafka]\nbootstrap = "x"\nother = 1\n'
        '[trigger]\nmode = "available_now"\ninterval = "1 second"\n'
    )
    assert set(found) == {"sink.name", "kafka.bootstrap", "kafka.other", "trigger.interval"}


def test_no_message_holds_a_credential(problems: Problems) -> None:
    found = problems(
        '[clickhouse]\npassword = "hush-1"\nendpoints = ["http://u:hush-2@a:1"]\n'
        '[kafka.options]\n"security.protocol" = "SASL_SSL"\n"sasl.mechanism" = "PLAIN"\n'
        '"sasl.jaas.config" = "PlainLoginModule required username=u password=hush-3;"\n"ssl.key.password" = "hush-4"\n'
    )
    assert set(found) == {
        "clickhouse.password",
        "clickhouse.endpoints[0].url",
        "kafka.options.sasl.jaas.config",
        "kafka.options.ssl.key.password",
    }
    assert {problem.id for problem in found.values()} == {"CHS-107"}
    assert "hush" not in "".join(f"{problem}{problem.hint}" for problem in found.values())


def test_a_command_prints_a_credential(load_text: Build, tmp_path: Path) -> None:
    """In the job file's folder, with the job's environment, without a shell; what it says is never in an error."""
    (tmp_path / "secret").write_text("p$(w) 1\n")
    config = load_text(
        '[sink]\nname = "s"\n[[route]]\ntopic = "t"\ntable = "t"\n'
        '[clickhouse]\nendpoints = "http://a"\npassword = { command = ["cat", "secret"] }\n'
        '[kafka]\nbootstrap = "a:1"\n[kafka.options]\n"client.id" = { command = ["printenv", "WHO"] }\n',
        {"WHO": "me", "PATH": os.environ["PATH"]},
    )
    assert reveal(config.clickhouse.password) == "p$(w) 1"
    assert reveal(config.kafka.options["client.id"]) == "me"
    assert config.origin("clickhouse.password").startswith("command cat, named in")


def test_what_a_failed_command_says_is_kept_to_itself(problems: Problems) -> None:
    found = problems("""[clickhouse]\npassword = { command = ["sh", "-c", "echo hush; echo hush >&2; exit 3"] }""")
    assert "hush" not in str(found)
    assert "ended with 3" in found["clickhouse.password"].message


def test_a_reference_is_resolved_and_its_origin_told(load_text: Build, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "password").write_text(" from file \r\n", encoding="utf-8")
    least = (
        '[sink]\nname = "s"\n[kafka]\nbootstrap = "a:1"\noptions."ssl.truststore.certificates" = { env = "PEM" }\n'
        'options."security.protocol" = "SSL"\n[[route]]\ntopic = "t"\ntable = "t"\n[clickhouse]\nendpoints = "http://a"\n'
    )
    config = load_text(least + 'password = { file = "secrets/password" }\n', {"PEM": "from env"})
    assert config.clickhouse.password.get_secret_value() == " from file "
    assert config.origin("clickhouse.password") == f"file secrets/password, named in {tmp_path / 'job.toml'}"
    assert config.kafka.spark_options()["kafka.ssl.truststore.certificates"] == "from env"
    assert config.origin("kafka.options.ssl.truststore.certificates").startswith("environment variable PEM, named in")


def test_a_file_of_bytes_is_no_credential(problems: Problems, tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(b"\xff")
    found = problems(f'[clickhouse]\npassword = {{ file = "{path}" }}')
    assert "not UTF-8" in found["clickhouse.password"].message


def test_credentials_may_be_set_by_variable_or_program(load_text: Build) -> None:
    least = '[sink]\nname="s"\n[kafka]\nbootstrap="a:1"\n[[route]]\ntopic="t"\ntable="t"\n[clickhouse]\nendpoints="http://a"\n'
    environ = {
        "CHSINK__CLICKHOUSE__PASSWORD": "[x",
        "CHSINK__KAFKA__OPTIONS__SSL_KEY_PASSWORD": "k",
        "CHSINK__KAFKA__OPTIONS__SECURITY_PROTOCOL": "SSL",
    }
    config = load_text(least, environ)
    assert config.clickhouse.password == SecretStr("[x")
    assert config.kafka.options["ssl.key.password"] == SecretStr("k")
    assert load_text(least, clickhouse__password="w").clickhouse.password == SecretStr("w")
    assert load_text(least).clickhouse.password == SecretStr("")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://a", "http://a:8123"),
        ("https://a/", "https://a:8443"),
        ("http://A.example:80", "http://a.example:80"),
        ("http://[::1]:8123", "http://[::1]:8123"),
    ],
)
def test_urls_get_one_spelling(build: Build, text: str, url: str) -> None:
    assert build(f'[clickhouse]\nendpoints = ["{text}"]').clickhouse.endpoints[0].url == url


def test_replicas_follow_their_endpoint(build: Build) -> None:
    config = build('[[clickhouse.endpoints]]\nurl = "http://a"\nreplicas = ["http://b", "http://c"]')
    assert config.clickhouse.endpoints[0].urls == ("http://a:8123", "http://b:8123", "http://c:8123")


def test_the_default_database_fills_in(build: Build) -> None:
    config = build(
        '[clickhouse]\ndatabase = "air"\n[[route]]\ntopic = "a"\ntable = "x"\n[[route]]\ntopic = "b"\ntable = "d.x"'
    )
    assert [config.table_of(route).canonical for route in config.routes] == ["air.x", "d.x"]
    assert isinstance(config.state, KeeperMap)
    assert str(config.state.table_name(config.clickhouse.database)) == "`air`.`chsink_state`"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500 milliseconds", 500), ("1 second", 1000), ("2 minutes", 120_000), ("1 hour", 3_600_000), ("0 seconds", 0)],
)
def test_intervals(build: Build, text: str, milliseconds: int) -> None:
    assert build(f'[trigger]\ninterval = "{text}"').trigger.interval_ms == milliseconds


def test_nothing_can_be_changed_later(build: Build) -> None:
    with pytest.raises(ValueError, match="frozen"):
        build().sink.name = "other"


@pytest.mark.parametrize(
    ("text", "key", "id", "sentence"),
    [
        ('"jsn"', "route[0].format", "CHS-104", "'jsn' is not allowed"),
        ("5", "route[0].format", "CHS-104", "it must be a string or a table"),
        ('{ column = "v" }', "route[0].format.type", "CHS-103", "it is missing"),
        (
            '{ type = "json", column = "v" }',
            "route[0].format.column",
            "CHS-102",
            'type = "json" does not have this key',
        ),
        ('{ type = "raw", colum = "v" }', "route[0].format.colum", "CHS-102", "there is no such key"),
        ('{ type = "raw", column = 3 }', "route[0].format.column", "CHS-104", "it must be a string"),
        (
            '{ type = "json", epoch = { at = "milis" } }',
            "route[0].format.epoch.at",
            "CHS-104",
            "'milis' is not allowed",
        ),
    ],
)
def test_a_format_and_its_options_are_checked(problems: Problems, text: str, key: str, id: str, sentence: str) -> None:
    (found,) = problems(f'[[route]]\ntopic = "t"\ntable = "t"\nformat = {text}').values()

    assert (found.key, found.id, found.message) == (key, id, sentence)


def test_the_mirror_reads_a_topic_as_its_route_does(build: Build) -> None:
    config = build(
        '[[route]]\ntopic = "t"\ntable = "t"\nformat = "raw"\n'
        '[[mirror.route]]\ntopic = "t"\ntable = "a.b"\n'
        '[[mirror.route]]\ntopic = "t"\ntable = "a.c"\nformat = "string"\n'
        '[[mirror.route]]\ntopic = "other"\ntable = "a.b"'
    )

    assert [config.mirror_format_of(route).type for route in config.mirror.routes] == ["raw", "string", "json"]
