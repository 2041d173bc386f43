"""Contradictions: each is found, named and explained, and what only looks like one passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chsink.config import Config, InvalidConfigError, Problem, contradictions

Build = Callable[..., Config]

SAME_NAMES = 'endpoints = [{url = "http://a", name = "x"}, {url = "http://b", name = "x"}]'
HEAVY = 'endpoints = [{url = "http://a", weight = 900_000}, {url = "http://b", weight = 900_000}]'
TWO = 'endpoints = ["http://a", "http://b"]'
ROUTES = '[[route]]\ntopic = "a"\ntable = "t"\n[[route]]\ntopic = "b"\ntable = "t"\n'
ON_ONE = """endpoints = [{ url = "http://a", database = "x" }, { url = "http://a", database = "y" }]
shard_key = "k"
"""
BY, TO = '[[route]]\ntopic = "a"\ntable_by = { ', 'column = "c", tables = { x = "x" } }'
DEAD = 'errors.on_bad_value = "dead_letter"'
MIRRORED = '[[mirror.route]]\ntopic = "a"\ntable = "s.t"'
ENSEMBLE = '[state]\nstore = "zookeeper"\nzookeeper = "a:2181"'
MIRRORED_B = '[[mirror.route]]\ntopic = "b"\ntable = "s.t"'

CASES = {
    "dead_letters_have_a_place": [
        (DEAD, "dead_letters", "chsink sql dead-letters"),
        ('errors.in_doubt = "dead_letter"', "dead_letters", "chsink sql dead-letters"),
        ('[dead_letters]\ntable = "t"\n' + ROUTES, "dead_letters.table", "only dead letters use"),
        ('[dead_letters]\ntable = "d"\ntopic = "d"', "dead_letters", "not both"),
        ('[dead_letters]\ntopic = "flights"', "dead_letters.topic", "only dead letters use"),
    ],
    "page_is_guarded": [
        (f'[observe]\nui = "{address}"', "observe.ui", "observe.ui_token")
        for address in ("0.0.0.0:8686", "[::]:8686", "box:8686", "10.0.0.1:8686")
    ],
    "deletes_have_keys": [('[errors]\non_tombstone = "delete"\n' + ROUTES, "errors.on_tombstone", "key_columns")],
    "dead_letters_of_the_mirror": [
        (
            f'{DEAD}\ndead_letters.table = "dead"\n[mirror]\nenabled = true\ncatalog = {{ name = "x" }}\n'
            + MIRRORED.replace('"a"', '"z"'),
            "mirror.route",
            "add a [[route]]",
        )
    ],
    "routes_are_whole": [
        ('[[route]]\ntable = "t"', "route[0]", "topic_pattern"),
        ('[[route]]\ntopic = "a"\ntopic_pattern = "b"\ntable = "t"', "route[0]", "only one"),
        ('[[route]]\ntopics = ["a"]\ntopic_pattern = "b"\ntable = "t"', "route[0]", "only one"),
        ('[[route]]\ntopic = "a"\ntable = "{db}.t"', "route[0].table", "(?<db>…)"),
        ('[[route]]\ntopic_pattern = "(?<x>a+)"\ntable = "{y}"', "route[0].table", "(?<y>…)"),
        ('[[route]]\ntopic = "a"', "route[0]", "table_by to let each record"),
    ],
    "records_land": [("route = []", "route", "[[route]]")],
    "one_route_per_table": [
        (
            '[[route]]\ntopic = "a"\ntable = "t"\n[[route]]\ntopic = "a"\ntable = "default.t"',
            "route",
            "name a different table in each",
        ),
    ],
    "topics_are_named_once": [
        ('[[route]]\ntopics = ["a", "a"]\ntable = "t"', "route[0].topics", "once"),
    ],
    "records_name_tables": [
        (f'{BY}header = "h", {TO}', "route[0].table_by", "set one of field"),
        (f'{BY}tables = {{ x = "x" }} }}', "route[0].table_by", "set one of field"),
        (f'{BY}field = "$.a", tables = {{ x = "x" }} }}\nformat = "raw"', "route[0].table_by.field", "Kafka header"),
    ],
    "keys_have_columns": [
        (
            '[[route]]\ntopic = "a"\ntable = "t"\nkey_format = "debezium"\nkey_columns = "a"',
            "route[0].key_format",
            "primary_key",
        ),
        ('[[route]]\ntopic = "a"\ntable = "t"\nkey_format = "json"', "route[0].key_format", "key_columns"),
        ('[[route]]\ntopic = "a"\ntable = "t"\nkey_columns = "a"', "route[0].key_columns", "key_format"),
        (
            '[[route]]\ntopic = "a"\ntable = "t"\nkey_format = "json"\nkey_columns = "a,a"',
            "route[0].key_columns",
            "once",
        ),
    ],
    "no_credentials": [('[kafka.client_options]\n"sasl.password" = "x"', "kafka.client_options.sasl.password", "env")],
    "translatable": [
        (
            '[kafka.options]\nsecurity.protocol = "SSL"\nssl.truststore.location = "/a.jks"',
            "kafka.options.ssl.truststore.location",
            "PEM",
        ),
    ],
    "protocol_is_used": [
        ('[kafka.options]\nsasl.mechanism = "PLAIN"', "kafka.options.sasl.mechanism", "SASL_SSL"),
        (
            '[kafka.options]\nssl.keystore.type = "PEM"',
            "kafka.options.ssl.keystore.type",
            '"SSL" or "SASL_SSL"',
        ),
    ],
    "endpoints_are_distinct": [
        (
            '[clickhouse]\nendpoints = ["http://a", "http://a:8123/"]\nshard_key = "k"',
            "clickhouse.endpoints",
            "replicas",
        ),
        (
            '[[clickhouse.endpoints]]\nurl = "http://a"\nreplicas = ["http://a"]',
            "clickhouse.endpoints",
            "list each server once",
        ),
        (
            f"[clickhouse]\n{ON_ONE}{ROUTES}".replace('table = "t"', 'table = "d.t"'),
            "clickhouse.endpoints",
            "list each server once",
        ),
        (
            f'[clickhouse]\nshard_key = "k"\n{SAME_NAMES}',
            "clickhouse.endpoints",
            "its own name",
        ),
        (
            f'[clickhouse]\nshard_key = "k"\n{HEAVY}',
            "clickhouse.endpoints",
            "smaller weights",
        ),
    ],
    "shard_keys_fit": [
        (
            f'[clickhouse]\n{TWO}\nshard_key = "k"\nhash_function = "rand"',
            "clickhouse.shard_key",
            "change the shard key",
        ),
        (f"[clickhouse]\n{TWO}", "clickhouse.shard_key", "columns that choose the shard"),
        ('[clickhouse]\nshard_key = ["k", "k"]', "clickhouse.shard_key", "each column once"),
        (
            '[clickhouse]\nshard_key = ["k", "l"]\nhash_function = "intHash64"',
            "clickhouse.shard_key",
            "which takes several columns",
        ),
        (f'[clickhouse]\n{TWO}\nshard_key = "k"\n{ROUTES}shard_key = []', "route[1].shard_key", ""),
    ],
    "tables_have_one_shard_key": [
        (
            f'[clickhouse]\n{TWO}\nshard_key = "k"\n{ROUTES}shard_key = ["l"]',
            "route[1].shard_key",
            "one shard key for all routes",
        ),
    ],
    "tls_is_used": [
        ('[clickhouse.tls]\nca_file = "/ca"', "clickhouse.tls", "https://"),
        (
            '[clickhouse]\nendpoints = "https://a"\ntls = {key_file = "/k"}',
            "clickhouse.tls.key_file",
            "clickhouse.tls.cert_file",
        ),
        (
            '[clickhouse]\nendpoints = "https://a"\ntls = {ca_file = "/k", verify = false}',
            "clickhouse.tls.verify",
            "verify = false",
        ),
    ],
    "timeouts_nest": [
        ("[clickhouse]\ninsert_timeout_s = 5", "clickhouse.connect_timeout_s", "clickhouse.insert_timeout_s"),
    ],
    "state_is_no_target": [('[state]\ntable = "default.flights"', "state.table", "another table")],
    "zookeeper_login_is_whole": [
        (f'{ENSEMBLE}\npassword = {{ file = "/dev/null" }}', "state.password", "state.user"),
        (f'{ENSEMBLE}\nmechanism = "sasl"', "state.mechanism", "state.user"),
        (f'{ENSEMBLE}\ntls = {{ enabled = true, key_file = "/k.pem" }}', "state.tls.key_file", "state.tls.cert_file"),
        (f'{ENSEMBLE}\ntls = {{ ca_file = "/ca.pem" }}', "state.tls.ca_file", "state.tls.enabled"),
    ],
    "interval_is_used": [
        ('[trigger]\nmode = "available_now"\ninterval = "10 seconds"', "trigger.interval", "processing_time"),
    ],
    "mirror_is_whole": [
        (f"[mirror]\nenabled = true\n{MIRRORED}", "mirror.catalog", 'type = "sql"'),
        ('[mirror]\nenabled = true\ncatalog = { name = "lake" }', "mirror.route", "[[mirror.route]]"),
        (f"{MIRRORED}\n{MIRRORED}", "mirror.route", "write it once"),
    ],
    "new_tables_are_one": [
        (
            f"{MIRRORED}\nauto_create = true\n{MIRRORED_B}\nauto_create = false",
            "mirror.route",
            "to the same values in all",
        ),
        (
            f'{MIRRORED}\ncreate = {{ partition = ["a"] }}\n{MIRRORED_B}\ncreate = {{ partition = ["b"] }}',
            "mirror.route",
            "to the same values in all",
        ),
    ],
    "mirror_has_no_credentials": [
        ('[mirror.catalog]\ntoken = "x"', "mirror.catalog.token", "env"),
        ('[mirror.catalog]\ns3.secret-access-key = "x"', "mirror.catalog.s3.secret-access-key", "env"),
        ('[mirror.catalog]\nuri = "postgresql://me:pw@db/lake"', "mirror.catalog.uri", "env"),
    ],
    "registry_is_whole": [
        ('[[route]]\ntopic = "a"\ntable = "t"\nformat = "avro"', "schema_registry.url", "schema_file"),
        (
            '[schema_registry]\nuser = "u"\ntoken = { file = "/dev/null" }',
            "schema_registry.token",
            "schema_registry.user or",
        ),
        ('[schema_registry]\nkey_file = "/k.pem"', "schema_registry.key_file", "schema_registry.cert_file"),
    ],
    "protobuf_is_named": [
        (
            '[[route]]\ntopic = "a"\ntable = "t"\nformat = { type = "protobuf", message = "a.B" }',
            "route[0].format",
            "set both",
        ),
    ],
    "mirror_is_apart": [
        ('[sink]\ncheckpoint = "/c/"\n[mirror]\ncheckpoint = "/c"', "mirror.checkpoint", "only the mirror"),
        ('[mirror]\ncontrol_topic = "flights"', "mirror.control_topic", "no route reads"),
        (f'[mirror]\ncontrol_topic = "a"\n{MIRRORED}', "mirror.control_topic", "no route reads"),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in CASES.items() for case in cases])
def test_a_contradiction_is_named_and_explained(
    build: Build, name: str, case: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, key, hint = case
    found = [problem for problem in _problems(build, changes) if problem.key == key]
    assert found
    assert any(hint in problem.hint for problem in found)
    others = tuple(check for check in contradictions.CHECKS if check.__name__ != name)
    monkeypatch.setattr(contradictions, "CHECKS", others)
    assert not set(found) <= set(_problems(build, changes)), "another check found it, so the case shows nothing"


def _problems(build: Build, changes: str) -> tuple[Problem, ...]:
    try:
        build(changes)
    except InvalidConfigError as error:
        return error.problems
    return ()


def test_every_check_has_a_case() -> None:
    assert {check.__name__ for check in contradictions.CHECKS} == CASES.keys()


@pytest.mark.parametrize(
    "changes",
    [
        f'[clickhouse]\n{TWO}\nshard_key = "k"\n{ROUTES}',
        f"[clickhouse]\n{TWO}\n" + ROUTES.replace('table = "t"', 'table = "t"\nshard_key = "k"'),
        '[clickhouse]\nhash_function = "intHash64"',
        f"[clickhouse]\n{ON_ONE}",
        f'[clickhouse]\n{TWO}\nhash_function = "rand"',
        '[clickhouse]\nendpoints = "https://a"',
        '[state]\nstore = "zookeeper"\nzookeeper = "a:2181,b:2181"\npath = "/x"',
        f'{ENSEMBLE}\nuser = "u"\ntls = {{ enabled = true, ca_file = "/ca.pem" }}',
        '[state]\nstore = "memory"',
        '[trigger]\nmode = "available_now"',
        '[trigger]\ninterval = "1 second"',
        '[kafka.options]\nsecurity.protocol = "PLAINTEXT"\nfetch.min.bytes = 1',
        f'[mirror]\nenabled = true\ncatalog = {{ name = "lake", uri = "sqlite:////c.db" }}\n{MIRRORED}',
        f"{MIRRORED}\n{MIRRORED.replace('s.t', 's.u')}",
    ],
)
def test_what_fits_together_passes(build: Build, changes: str) -> None:
    build(changes)
