"""Contradictions: what is wrong although every value is right by itself.

Each check names the sections it reads, so it runs even when another section could not be read: then a person sees
its finding together with the typing errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from chsink.config import problems
from chsink.config.problems import Problem
from chsink.config.values import is_credential, reveal

if TYPE_CHECKING:
    from chsink.config.model import Config

_Check = Callable[["Config"], Iterator[Problem]]
_CHECKS: list[tuple[frozenset[str], _Check]] = []
_KEEPERMAP_ONLY = ("table", "endpoint", "create_table")
_SECRET_IN_JAAS = re.compile(r"(?i)(password|clientSecret)\s*=")


def contradictions(config: Config, readable: frozenset[str]) -> list[Problem]:
    """What the checks find that need only the ``readable`` sections (names of Config's fields)."""
    return [problem for needs, check in _CHECKS if needs <= readable for problem in check(config)]


def _check(*needs: str) -> Callable[[_Check], _Check]:
    def register(function: _Check) -> _Check:
        _CHECKS.append((frozenset(needs), function))
        return function

    return register


def _contradiction(key: str, message: str, hint: str) -> Problem:
    return Problem(problems.CONTRADICTION, key, message, hint)


@_check("routes")
def _routes(config: Config) -> Iterator[Problem]:
    if not config.routes:
        hint = 'add a table [[route]] with topic = "…" and table = "…" for each topic'
        yield Problem(problems.MISSING_KEY, "route", "no topic has a table", hint)
    for topic, count in Counter(route.topic for route in config.routes).items():
        if count > 1:
            hint = "land the topic in one table, and let a materialized view fill the others"
            yield _contradiction("route", f"the topic {topic!r} has {count} routes", hint)


@_check("kafka", "routes")
def _topics(config: Config) -> Iterator[Problem]:
    stated, routed = set(config.kafka.topics or config.topics), set(config.topics)
    hint = "leave `kafka.topics` out: the topics are those of the routes"
    for topic in sorted(stated - routed):
        yield _contradiction("kafka.topics", f"the topic {topic!r} has no route", f"add a [[route]] for it, or {hint}")
    for topic in sorted(routed - stated):
        yield _contradiction("kafka.topics", f"the topic {topic!r} of a route is not among them", f"add it, or {hint}")


@_check("kafka")
def _credentials(config: Config) -> Iterator[Problem]:
    for table, options in (("options", config.kafka.options), ("client_options", config.kafka.client_options_)):
        for name, value in options.items():
            if not isinstance(value, str) or not is_credential(name):
                continue
            if name != "sasl.jaas.config" or _SECRET_IN_JAAS.search(value):
                hint = 'write { env = "NAME" } or { file = "path" }'
                message = "a credential does not belong in a job file"
                yield Problem(problems.PLAIN_CREDENTIAL, f"kafka.{table}.{name}", message, hint)


@_check("kafka")
def _both_clients(config: Config) -> Iterator[Problem]:
    for refused in config.kafka.translated().refused:
        yield Problem(problems.UNTRANSLATABLE, f"kafka.options.{refused.option}", refused.message, refused.hint)
    if "bootstrap.servers" in config.kafka.client_options_:
        key = "kafka.client_options.bootstrap.servers"
        yield Problem(
            problems.RESERVED, key, "it cannot be set here", "set `kafka.bootstrap`: both clients use one cluster"
        )


@_check("kafka")
def _protocol(config: Config) -> Iterator[Problem]:
    protocol = reveal(config.kafka.options.get("security.protocol", "PLAINTEXT")).upper()
    for family, fix in (("sasl", '"SASL_SSL" or "SASL_PLAINTEXT"'), ("ssl", '"SSL" or "SASL_SSL"')):
        named = next((name for name in config.kafka.options if name.startswith(f"{family}.")), None)
        if named and family.upper() not in protocol.split("_"):
            hint = f'set "security.protocol" to {fix}, or remove the {family}.* properties'
            yield _contradiction(f"kafka.options.{named}", f"the protocol {protocol} does not use it", hint)


@_check("clickhouse")
def _endpoints(config: Config) -> Iterator[Problem]:
    endpoints = config.clickhouse.endpoints
    if not endpoints:
        hint = 'write endpoints = ["http://host:8123"], one for each shard'
        yield Problem(problems.WRONG_VALUE, "clickhouse.endpoints", "it names no endpoint", hint)
    for url, count in Counter(url for endpoint in endpoints for url in endpoint.urls).items():
        if count > 1:
            hint = "list each server once; replicas of one shard belong in its `replicas`"
            yield _contradiction("clickhouse.endpoints", f"{url} is listed {count} times", hint)
    for name, count in Counter(endpoint.name for endpoint in endpoints if endpoint.name).items():
        if count > 1:
            yield _contradiction("clickhouse.endpoints", f"{count} shards are named {name!r}", "give each its own name")
    if config.clickhouse.total_weight > 1_000_000:
        hint = "use smaller weights in the same proportion"
        yield _contradiction("clickhouse.endpoints", "the weights add up to more than 1,000,000", hint)


@_check("clickhouse", "routes")
def _shard_keys(config: Config) -> Iterator[Problem]:
    sharded = len(config.clickhouse.endpoints) > 1
    seen: dict[str, tuple[str, ...]] = {}
    for index, route in enumerate(config.routes):
        columns, table = config.shard_key_of(route), str(config.table_of(route))
        key = "clickhouse.shard_key" if route.shard_key is None else f"route[{index}].shard_key"
        if not columns and sharded:
            hint = "set `clickhouse.shard_key`, or `shard_key` of the route, to the columns that choose the shard"
            yield _contradiction(key, f"with several endpoints, the rows of {table} need a shard key", hint)
        if len(set(columns)) < len(columns):
            yield _contradiction(key, "it names a column twice", "name each column once")
        if columns and config.clickhouse.hash_function == "intHash64" and len(columns) != 1:
            hint = 'use one integer column, or hash_function = "xxHash64"'
            yield _contradiction(key, f"intHash64 takes one column, not {len(columns)}", hint)
        if seen.setdefault(table, columns) != columns:
            hint = "rows of one table must be spread by one key, or a Distributed table over it reads them wrongly"
            yield _contradiction(key, f"two routes to {table} have different shard keys", hint)


@_check("clickhouse")
def _tls(config: Config) -> Iterator[Problem]:
    tls = config.clickhouse.tls
    plain = [url for endpoint in config.clickhouse.endpoints for url in endpoint.urls if url.startswith("http:")]
    if tls.model_fields_set and plain:
        yield _contradiction("clickhouse.tls", f"{plain[0]} does not use TLS", "write https://, or remove the tls keys")
    if tls.key_file and not tls.cert_file:
        yield _contradiction(
            "clickhouse.tls.key_file", "a key without a certificate", "set `clickhouse.tls.cert_file` too"
        )
    if tls.ca_file and not tls.verify:
        hint = "remove `verify = false`: with `ca_file` the server can be checked"
        yield _contradiction("clickhouse.tls.verify", "it switches off what `ca_file` is for", hint)


@_check("clickhouse")
def _timeouts(config: Config) -> Iterator[Problem]:
    if config.clickhouse.connect_timeout_s > config.clickhouse.insert_timeout_s:
        hint = "opening a connection is part of an insert: lower it, or raise `clickhouse.insert_timeout_s`"
        yield _contradiction("clickhouse.connect_timeout_s", "it is longer than `clickhouse.insert_timeout_s`", hint)


@_check("state")
def _state(config: Config) -> Iterator[Problem]:
    state = config.state
    if state.store == "zookeeper" and state.zookeeper is None:
        hint = 'set zookeeper = "host:2181"'
        yield Problem(problems.MISSING_KEY, "state.zookeeper", 'store = "zookeeper" needs its address', hint)
    if state.store != "zookeeper" and state.zookeeper is not None:
        hint = 'remove it, or set store = "zookeeper"'
        yield _contradiction("state.zookeeper", f'it has no use with store = "{state.store}"', hint)
    unused = () if state.store == "keepermap" else _KEEPERMAP_ONLY
    for name in (*unused, *(("path",) if state.store == "memory" else ())):
        if name in state.model_fields_set:
            hint = 'remove it, or set store = "keepermap"'
            yield _contradiction(f"state.{name}", f'it has no use with store = "{state.store}"', hint)


@_check("state", "clickhouse", "routes")
def _state_is_no_target(config: Config) -> Iterator[Problem]:
    targets = {config.table_of(route) for route in config.routes}
    if config.state.store == "keepermap" and config.state_table in targets:
        yield _contradiction("state.table", "it is also the table of a route", "name another table for the state")


@_check("trigger")
def _trigger(config: Config) -> Iterator[Problem]:
    if config.trigger.mode == "available_now" and "interval" in config.trigger.model_fields_set:
        hint = 'remove it, or set mode = "processing_time"'
        yield _contradiction("trigger.interval", 'it has no use with mode = "available_now"', hint)


@_check("in_doubt", "clickhouse")
def _in_doubt(config: Config) -> Iterator[Problem]:
    doubt, insert_s = config.in_doubt, config.clickhouse.insert_timeout_s
    if doubt.max_age_s <= doubt.margin_s + insert_s:
        hint = "raise `in_doubt.max_age_s`, or lower `clickhouse.insert_timeout_s` or `in_doubt.margin_s`"
        what = f"an insert that may take {insert_s:g} s and the margin of {doubt.margin_s} s leave nothing of it"
        yield _contradiction("in_doubt.max_age_s", what, hint)
