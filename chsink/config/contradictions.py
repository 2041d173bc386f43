"""Checks for contradictions between values that are each valid by themselves.

A check is a function whose parameters are the sections it reads, named as in :class:`chsink.config.model.Config`.  It
runs if all of them are valid, so its problems are reported together with the errors of other sections.  The docstring
of a check states the rule that must hold.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from chsink.config.mirror import Mirror, MirrorRouteSection
from chsink.config.problems import Problem, problem
from chsink.config.routes import Route, RouteSection, Routing
from chsink.config.sections import ClickHouse, DeadLetters, Errors, Kafka, Observe, SinkSection, Trigger
from chsink.errors import job_file
from chsink.fields import has_login, is_credential, reveal
from chsink.formats.settings import JSON, FormatSettings, Protobuf
from chsink.notation.hash_functions import hash_function
from chsink.notation.sql import parse_table
from chsink.registry.settings import SchemaRegistry
from chsink.state import KeeperMap, StoreSettings, ZooKeeper

Problems = Iterator[Problem]
_SECRET_IN_JAAS = re.compile(r"(?i)(password|clientSecret)\s*=")
_PROTOCOLS = {"sasl": '"SASL_SSL" or "SASL_PLAINTEXT"', "ssl": '"SSL" or "SASL_SSL"'}


def contradictions(sections: Mapping[str, Any]) -> Problems:
    """The problems found by all checks that need only these sections.  If ``routes`` is missing, the checks get the
    routes of the topics that the job file names.
    """
    if "route_sections" in sections and "routes" not in sections:
        routes, _ = Routing(sections["route_sections"], frozenset()).routes()
        sections = {**sections, "routes": tuple(routes)}
    if sections.get("clickhouse_section") is not None:
        sections = {**sections, "clickhouse": sections["clickhouse_section"]}
    for check in CHECKS:
        needed = inspect.signature(check).parameters
        if needed.keys() <= sections.keys():
            yield from check(**{name: sections[name] for name in needed})


def routing_of(route_sections: tuple[RouteSection, ...], dead_letters: DeadLetters, mirror: Mirror) -> Routing[Route]:
    """The routes of a job file.  No pattern matches the topics that chsink writes to."""
    topics = (mirror.control_topic, dead_letters.topic)
    return Routing(route_sections, frozenset(topic for topic in topics if topic is not None))


def records_land(
    clickhouse_section: ClickHouse | None, route_sections: tuple[RouteSection, ...], mirror: Mirror
) -> Problems:
    """There are `[clickhouse]` and routes to it.  An enabled mirror needs neither."""
    if clickhouse_section is None and not mirror.enabled:
        yield problem("clickhouse", job_file.MISSING_KEY(advice="add a section [clickhouse]"))
    if not route_sections and not (clickhouse_section is None and mirror.enabled):
        yield problem("route", job_file.NO_ROUTE())


def routes_are_whole(route_sections: tuple[RouteSection, ...], mirror: Mirror) -> Problems:
    """A route sets exactly one of its topic keys and one of its table keys, and every placeholder has a value."""
    for at, route in _all_sections(route_sections, mirror):
        keys = [key for key in ("topic", "topics", "topic_pattern") if getattr(route, key)]
        if not keys:
            yield problem(at, job_file.NO_TOPIC())
        if len(keys) > 1:
            yield problem(at, job_file.TWO_KINDS_OF_TOPICS(keys=" and ".join(keys)))
        for name, key in route.unknown_placeholders.items():
            yield problem(f"{at}.{key}", job_file.UNKNOWN_PLACEHOLDER(name=name))
        if (route.table is None) == (route.table_by is None):
            yield problem(at, job_file.TABLE_OR_TABLE_BY())


def _all_sections(
    route_sections: tuple[RouteSection, ...], mirror: Mirror
) -> Iterator[tuple[str, RouteSection | MirrorRouteSection]]:
    """ClickHouse's sections and the mirror's, each with its place in the job file."""
    yield from ((f"route[{index}]", route) for index, route in enumerate(route_sections))
    yield from ((f"mirror.route[{index}]", route) for index, route in enumerate(mirror.route_sections))


def one_route_per_table(routes: tuple[Route, ...], clickhouse: ClickHouse) -> Problems:
    """At most one route leads from a topic to a table."""
    places: dict[tuple[str, str], list[str]] = {}
    for route in routes:
        table = route.table_name.within(clickhouse.database).canonical
        places.setdefault((route.topic, table), []).append(route.at)
    for (topic, table), at in places.items():
        if len(at) > 1:
            yield problem("route", job_file.TOPIC_TWICE(topic=repr(topic), table=table, routes=" and ".join(at)))


def topics_are_named_once(route_sections: tuple[RouteSection, ...], mirror: Mirror) -> Problems:
    """No topic appears twice in ``topics``."""
    for at, route in _all_sections(route_sections, mirror):
        for topic, count in Counter(route.named).items():
            if count > 1:
                yield problem(f"{at}.topics", job_file.TOPIC_LISTED_TWICE(topic=repr(topic), count=count))


def records_name_tables(
    route_sections: tuple[RouteSection, ...], mirror: Mirror, dead_letters: DeadLetters
) -> Problems:
    """``table_by`` sets exactly one source, and ``field`` only with JSON.  The mirror's ``column`` is the key."""
    for at, route in _all_sections(route_sections, mirror):
        by, key = route.table_by, f"{at}.table_by"
        if by is None:
            continue
        if not (by.tables or by.patterns):
            yield problem(key, job_file.TABLE_BY_NO_TABLE())
        if len(by.sources) != 1:
            yield problem(key, job_file.TABLE_BY_WHAT(keys=" and ".join(by.sources) or "none of them"))
        if isinstance(route, MirrorRouteSection) and by.column not in {None, "key"}:
            yield problem(f"{key}.column", job_file.TABLE_BY_NO_COLUMN(column=repr(by.column)))
        if isinstance(route, MirrorRouteSection) and route.table_by and route.table_by.others:
            if not (mirror.auto_create if route.auto_create is None else route.auto_create):
                yield problem(f"{key}.others", job_file.TABLE_BY_NOT_CREATED())
            if mirror.coordinator == "apart":
                yield problem(f"{key}.others", job_file.TABLE_BY_APART())
        value = route.format or _same_format(route.named, route_sections, mirror, dead_letters)
        if by.field is not None and value.before_json is None:
            yield problem(f"{key}.field", job_file.TABLE_BY_NO_JSON(format=value.type))


def _same_format(
    topics: Sequence[str], route_sections: tuple[RouteSection, ...], mirror: Mirror, dead_letters: DeadLetters
) -> FormatSettings:
    """The format of ClickHouse's route for the first of these topics."""
    routing = routing_of(route_sections, dead_letters, mirror)
    with suppress(KeyError, ValueError):  # `routes_are_whole` and the routes' own problems report it
        return next((route.format for topic in topics for route in routing.of(topic)), JSON)
    return JSON


def keys_have_columns(route_sections: tuple[RouteSection, ...], mirror: Mirror) -> Problems:
    """``key_format`` and ``key_columns`` are set together; columns are distinct, and the format is not ``debezium``."""
    for at, route in _all_sections(route_sections, mirror):
        if route.key_format and not route.key_columns:
            yield problem(f"{at}.key_format", job_file.KEY_WITHOUT_COLUMNS())
        if route.key_format and route.key_format.type == "debezium":
            yield problem(f"{at}.key_format", job_file.KEY_IS_NO_EVENT())
        if route.key_columns and not route.key_format:
            yield problem(f"{at}.key_columns", job_file.KEY_WITHOUT_FORMAT())
        if len(set(route.key_columns)) < len(route.key_columns):
            yield problem(f"{at}.key_columns", job_file.KEY_COLUMN_TWICE())


def no_credentials(kafka: Kafka) -> Problems:
    """Credentials in Kafka's options are references, not plain text."""
    for table, options in (("options", kafka.options), ("client_options", kafka.client_options_)):
        for name, value in options.items():
            plain = isinstance(value, str) and is_credential(name)
            if plain and (name != "sasl.jaas.config" or _SECRET_IN_JAAS.search(reveal(value))):
                yield problem(f"kafka.{table}.{name}", job_file.CREDENTIAL_IN_FILE())


def translatable(kafka: Kafka) -> Problems:
    """Every option of the Java client can be translated for librdkafka."""
    for option, error in kafka.translated()[1]:
        yield problem(f"kafka.options.{option}", error)


def protocol_is_used(kafka: Kafka) -> Problems:
    """Options of SASL or TLS are set only if ``security.protocol`` uses it."""
    protocol = reveal(kafka.options.get("security.protocol", "PLAINTEXT")).upper()
    for family, protocols in _PROTOCOLS.items():
        named = next((name for name in kafka.options if name.startswith(f"{family}.")), None)
        if named and family.upper() not in protocol.split("_"):
            error = job_file.PROTOCOL_UNUSED(protocol=protocol, protocols=protocols, family=family)
            yield problem(f"kafka.options.{named}", error)


def endpoints_are_distinct(clickhouse: ClickHouse, routes: tuple[Route, ...]) -> Problems:
    """There is an endpoint, a server appears twice only with different databases, names are unique, weights bounded."""
    key, endpoints = "clickhouse.endpoints", clickhouse.endpoints
    if not endpoints:
        yield problem(key, job_file.NO_ENDPOINT())
    named = any(route.table_name.database for route in routes)
    places = Counter((url, "" if named else e.database or clickhouse.database) for e in endpoints for url in e.urls)
    for (url, _), count in places.items():
        if count > 1:
            yield problem(key, job_file.SERVER_TWICE(url=url, count=count))
    for name, count in Counter(endpoint.name for endpoint in endpoints if endpoint.name).items():
        if count > 1:
            yield problem(key, job_file.SHARD_NAME_TWICE(name=repr(name), count=count))
    if clickhouse.total_weight > 1_000_000:
        yield problem(key, job_file.WEIGHTS_TOO_LARGE())


def shard_keys_fit(clickhouse: ClickHouse, route_sections: tuple[RouteSection, ...]) -> Problems:
    """Each shard key has distinct columns, as many as the hash function takes.  Several shards need a shard key."""
    function = hash_function(clickhouse.hash_function)
    for index, route in enumerate(route_sections):
        columns, key = clickhouse.shard_key, "clickhouse.shard_key"
        if route.shard_key is not None:
            columns, key = route.shard_key, f"route[{index}].shard_key"
        if not columns and len(clickhouse.endpoints) > 1 and not function.takes(0):
            yield problem(key, job_file.NO_SHARD_KEY(table=", ".join(route.templates.values())))
        if len(set(columns)) < len(columns):
            yield problem(key, job_file.SHARD_COLUMN_TWICE())
        if columns and not function.takes(len(columns)):
            takes = f"takes {function.columns} column"
            yield problem(key, job_file.SHARD_KEY_TOO_WIDE(function=function.name, takes=takes, count=len(columns)))


def tables_have_one_shard_key(clickhouse: ClickHouse, routes: tuple[Route, ...]) -> Problems:
    """All routes to a table have the same shard key."""
    seen: dict[str, tuple[str, ...]] = {}
    for route in routes:
        columns = clickhouse.shard_key if route.shard_key is None else route.shard_key
        table = route.table_name.within(clickhouse.database).canonical
        if seen.setdefault(table, columns) != columns:
            key = "clickhouse.shard_key" if route.shard_key is None else f"{route.at}.shard_key"
            yield problem(key, job_file.SHARD_KEYS_DIFFER(table=table))


def tls_is_used(clickhouse: ClickHouse) -> Problems:
    """Every key in ``[clickhouse.tls]`` has an effect."""
    tls = clickhouse.tls
    plain = [url for endpoint in clickhouse.endpoints for url in endpoint.urls if url.startswith("http:")]
    if tls.model_fields_set and plain:
        yield problem("clickhouse.tls", job_file.TLS_UNUSED(url=plain[0]))
    if tls.key_file and not tls.cert_file:
        yield problem("clickhouse.tls.key_file", job_file.KEY_WITHOUT_CERTIFICATE())
    if tls.ca_file and not tls.verify:
        yield problem("clickhouse.tls.verify", job_file.CA_UNUSED())


def timeouts_nest(clickhouse: ClickHouse) -> Problems:
    """The timeout of connecting is at most that of an insert, which includes connecting."""
    if clickhouse.connect_timeout_s > clickhouse.insert_timeout_s:
        yield problem("clickhouse.connect_timeout_s", job_file.CONNECT_TIMEOUT_TOO_LONG())


def state_is_no_target(state: StoreSettings, clickhouse: ClickHouse, routes: tuple[Route, ...]) -> Problems:
    """No route leads to the table of the state store."""
    if isinstance(state, KeeperMap):
        targets = {route.table_name.within(clickhouse.database) for route in routes}
        if state.table_name(clickhouse.database) in targets:
            yield problem("state.table", job_file.STATE_TABLE_IS_TARGET())


def zookeeper_login_is_whole(state: StoreSettings) -> Problems:
    """A password and a mechanism have a user, a private key its certificate, and files are used."""
    if isinstance(state, ZooKeeper):
        for key in ("password", "mechanism"):
            if state.user is None and key in state.model_fields_set:
                yield problem(f"state.{key}", job_file.ZOOKEEPER_NO_USER())
        if state.tls.key_file and not state.tls.cert_file:
            yield problem("state.tls.key_file", job_file.ZOOKEEPER_KEY_ALONE())
        for key in ("ca_file", "cert_file", "key_file"):
            if not state.tls.enabled and getattr(state.tls, key):
                yield problem(f"state.tls.{key}", job_file.ZOOKEEPER_NO_TLS())


def registry_is_whole(
    schema_registry: SchemaRegistry, route_sections: tuple[RouteSection, ...], mirror: Mirror
) -> Problems:
    """Formats with schema ids have a registry; it has one kind of login, and no private key without a certificate."""
    formats = [each for _, r in _all_sections(route_sections, mirror) for each in (r.format, r.key_format)]
    needing = [each.type for each in formats if each is not None and each.needs_registry]
    if needing and not schema_registry.url:
        yield problem("schema_registry.url", job_file.NO_REGISTRY(format=needing[0]))
    if schema_registry.user is not None and "token" in schema_registry.model_fields_set:
        yield problem("schema_registry.token", job_file.TWO_REGISTRY_LOGINS())
    if schema_registry.key_file and not schema_registry.cert_file:
        yield problem("schema_registry.key_file", job_file.REGISTRY_KEY_ALONE())


def protobuf_is_named(route_sections: tuple[RouteSection, ...], mirror: Mirror) -> Problems:
    """``schema_file`` and ``message`` are set together, because a descriptor set holds several message types."""
    for place, route in _all_sections(route_sections, mirror):
        for key, each in (("format", route.format), ("key_format", route.key_format)):
            if isinstance(each, Protobuf) and (each.schema_file is None) != (each.message is None):
                yield problem(f"{place}.{key}", job_file.PROTOBUF_FILE_AND_MESSAGE())


def interval_is_used(trigger: Trigger) -> Problems:
    """``trigger.interval`` is not set in mode ``available_now``, which ignores it."""
    if trigger.mode == "available_now" and "interval" in trigger.model_fields_set:
        yield problem("trigger.interval", job_file.INTERVAL_UNUSED())


def mirror_is_whole(mirror: Mirror) -> Problems:
    """An enabled mirror has a catalog and routes; no mirror route is repeated."""
    if mirror.enabled and "name" not in mirror.catalog:
        yield problem("mirror.catalog", job_file.NO_CATALOG())
    if mirror.enabled and not mirror.route_sections:
        yield problem("mirror.route", job_file.NO_MIRROR_ROUTE())
    for route, count in Counter((route.topic, route.table) for route in mirror.routes).items():
        if count > 1:
            yield problem("mirror.route", job_file.MIRROR_ROUTE_TWICE(topic=route[0], table=route[1], count=count))


def new_tables_are_one(mirror: Mirror) -> Problems:
    """Routes to one Iceberg table do not say different things about a new one."""
    for table in mirror.tables:
        routes = mirror.routes_to(table)
        created = [route.section.create for route in routes if route.section.create is not None]
        asked = {route.section.auto_create for route in routes if route.section.auto_create is not None}
        if len(asked) > 1 or any(each != created[0] for each in created):
            yield problem("mirror.route", job_file.NEW_TABLES_DIFFER(table=table))


def mirror_has_no_credentials(mirror: Mirror) -> Problems:
    """Credentials in the catalog's properties are references, and URLs contain no passwords."""
    for name, value in mirror.catalog.items():
        if isinstance(value, str) and (is_credential(name) or has_login(value)):
            yield problem(f"mirror.catalog.{name}", job_file.CREDENTIAL_IN_FILE())


def mirror_is_apart(mirror: Mirror, sink: SinkSection, routes: tuple[Route, ...]) -> Problems:
    """The mirror has a checkpoint of its own, and its control topic is not a source topic."""
    if sink.checkpoint and mirror.checkpoint and mirror.checkpoint.rstrip("/") == sink.checkpoint.rstrip("/"):
        yield problem("mirror.checkpoint", job_file.CHECKPOINT_SHARED())
    if mirror.control_topic in {*mirror.topics, *(route.topic for route in routes)}:
        yield problem("mirror.control_topic", job_file.CONTROL_TOPIC_IS_SOURCE(topic=mirror.control_topic))


def dead_letters_have_a_place(
    errors: Errors, dead_letters: DeadLetters, clickhouse: ClickHouse, state: StoreSettings, routes: tuple[Route, ...]
) -> Problems:
    """Dead letters go to one topic or table, which nothing else writes to and no route reads."""
    places = [place for place in (dead_letters.topic, dead_letters.table) if place is not None]
    if "dead_letter" in (errors.on_bad_value, errors.on_tombstone, errors.in_doubt) and not places:
        yield problem("dead_letters", job_file.NO_DEAD_LETTERS())
    if len(places) > 1:
        yield problem("dead_letters", job_file.TWO_DEAD_LETTERS())
    if dead_letters.topic in {route.topic for route in routes}:
        yield problem("dead_letters.topic", job_file.DEAD_LETTERS_TOPIC_READ())
    if dead_letters.table is not None and clickhouse.endpoints:
        table = parse_table(dead_letters.table).within(clickhouse.endpoints[0].database or clickhouse.database)
        taken = {route.table_name.within(clickhouse.database) for route in routes}
        taken |= {state.table_name(clickhouse.database)} if isinstance(state, KeeperMap) else set()
        if table in taken:
            yield problem("dead_letters.table", job_file.DEAD_LETTERS_TABLE_TAKEN())


def deletes_have_keys(errors: Errors, routes: tuple[Route, ...]) -> Problems:
    """With ``on_tombstone = "delete"``, every route reads keys, and none has the format ``debezium``."""
    for route in routes if errors.on_tombstone == "delete" else ():
        wrong = (
            "sets no key_format"
            if route.keys is None
            else 'has format = "debezium"'
            if route.format.type == "debezium"
            else ""
        )
        if wrong:
            yield problem("errors.on_tombstone", job_file.DELETES_NEED_KEYS(topic=route.topic, problem=wrong))
            return


def dead_letters_of_the_mirror(
    errors: Errors,
    dead_letters: DeadLetters,
    mirror: Mirror,
    route_sections: tuple[RouteSection, ...],
    clickhouse_section: ClickHouse | None,
) -> Problems:
    """The mirror neither reads nor writes the topic of dead letters.  If bad records become dead letters, every topic
    of the mirror has a route to ClickHouse too: only that side writes dead letters.
    """
    if dead_letters.topic in {mirror.control_topic, *mirror.topics} and mirror.enabled:
        yield problem("dead_letters.topic", job_file.DEAD_LETTERS_TOPIC_READ())
    routing = routing_of(route_sections, dead_letters, mirror)
    alone = [topic for topic in mirror.topics if clickhouse_section is None or not routing.covers(topic)]
    if mirror.enabled and alone and "dead_letter" in (errors.on_bad_value, errors.on_tombstone):
        yield problem("mirror.route", job_file.MIRROR_WITHOUT_DEAD_LETTERS(topic=alone[0]))


def page_is_guarded(observe: Observe) -> Problems:
    """A status page that other machines can reach has a token."""
    if not observe.ui_is_local and observe.ui_token is None:
        yield problem("observe.ui", job_file.PAGE_WITHOUT_TOKEN(address=observe.ui))


CHECKS: tuple[Callable[..., Problems], ...] = (
    records_land,
    routes_are_whole,
    one_route_per_table,
    topics_are_named_once,
    records_name_tables,
    keys_have_columns,
    no_credentials,
    translatable,
    protocol_is_used,
    endpoints_are_distinct,
    shard_keys_fit,
    tables_have_one_shard_key,
    tls_is_used,
    timeouts_nest,
    state_is_no_target,
    zookeeper_login_is_whole,
    interval_is_used,
    mirror_is_whole,
    new_tables_are_one,
    mirror_has_no_credentials,
    mirror_is_apart,
    dead_letters_have_a_place,
    deletes_have_keys,
    dead_letters_of_the_mirror,
    registry_is_whole,
    protobuf_is_named,
    page_is_guarded,
)
