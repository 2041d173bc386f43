"""The configuration as one immutable value, made from a mapping.

A ``Config`` made here is free of contradictions.  It is small and picklable, so it may be sent to executors; it then
carries the credentials, which it never prints.  Sections are validated one by one: an invalid section hides neither the
errors in other sections nor contradictions between valid ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import ErrorDetails

from chsink.as_typed import job_words
from chsink.config.contradictions import contradictions, routing_of
from chsink.config.mirror import Mirror, MirrorRoute
from chsink.config.options import flat_items
from chsink.config.problems import InvalidConfigError, Problem, closest, problem
from chsink.config.routes import Route, RouteSection, Routing
from chsink.config.schema import Schema, tag_of
from chsink.config.sections import (
    ClickHouse,
    DeadLetters,
    Errors,
    InDoubt,
    Kafka,
    Observe,
    SinkSection,
    Spark,
    Tables,
    Trigger,
)
from chsink.errors import ChsinkError, job_file
from chsink.fields import AsTuple, Section, is_reference
from chsink.formats.settings import JSON, FormatSettings, KeyColumns
from chsink.formats.table_by import Choice
from chsink.notation.sql import TableName, parse_table
from chsink.registry.settings import SchemaRegistry
from chsink.state import AnyStore, KeeperMap

MAPPING: Final = "mapping"
OVERRIDE: Final = "override"
"""Origins of values that no file and no variable gave."""
_INDEX = re.compile(r"\[\d+\]")
_WRONG_TYPES = {
    "string_type": "it must be a string",
    "int_type": "it must be a whole number",
    "float_type": "it must be a number",
    "bool_type": "it must be true or false",
    "tuple_type": "it must be a list",
    "dict_type": "it must be a table",
    "model_type": "it must be a table",
    "model_attributes_type": "it must be a table",
    "finite_number": "it must be a finite number",
}


class Config(Section):
    """The whole job file.  Make it by :func:`chsink.config.load` or :meth:`from_mapping`."""

    sink: SinkSection
    kafka: Kafka
    route_sections: Annotated[tuple[RouteSection, ...], AsTuple] = Field(default=(), alias="route")
    clickhouse_section: ClickHouse | None = Field(default=None, alias="clickhouse")
    state: AnyStore = KeeperMap()
    tables: Tables = Field(default=Tables(), alias="schema")
    errors: Errors = Errors()
    dead_letters: DeadLetters = DeadLetters()
    trigger: Trigger = Trigger()
    in_doubt: InDoubt = InDoubt()
    mirror: Mirror = Mirror()
    observe: Observe = Observe()
    schema_registry: SchemaRegistry = SchemaRegistry()
    spark: Spark = Spark()

    model_config = ConfigDict(validate_default=True)
    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _source: str = PrivateAttr(default=MAPPING)
    _routes: tuple[Route, ...] | None = PrivateAttr(default=None)
    _waiting: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _share(self) -> Self:
        """Give the registry to the formats that use it."""
        for each in self.formats:
            each.use(self.schema_registry)
        return self

    @property
    def formats(self) -> list[FormatSettings]:
        """Those that routes name, of values and keys."""
        formats = [each for route in self.route_sections for each in (route.format, route.key_format)]
        formats += [each for route in self.mirror.route_sections for each in (route.format, route.key_format)]
        return [each for each in formats if each is not None]

    @field_validator("*")
    @classmethod
    def _collect(cls, section: object, info: ValidationInfo) -> object:
        """Keep each valid section for :meth:`from_mapping`, even if another section is invalid."""
        if info.context:
            info.context["valid"][info.field_name] = section
        return section

    @classmethod
    def from_mapping(
        cls,
        data: Mapping[str, object],
        *,
        source: str = MAPPING,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
        origins: Mapping[str, str] | None = None,
        problems: Sequence[Problem] = (),
    ) -> Config:
        """The configuration in ``data``, which is shaped like the job file.

        ``origins`` maps dotted keys to their origin; ``source`` is the origin of all other keys.  ``environ`` (default:
        the process's) resolves ``{ env = … }``; paths in ``{ file = … }`` are relative to ``folder``.
        Raises InvalidConfigError with ``problems`` and every problem found.
        """
        origins = origins_in(data, source) | dict(origins or {})
        valid: dict[str, Any] = {}
        found: list[Problem] = []
        context = {"environ": os.environ if environ is None else environ, "folder": folder or Path(), "valid": valid}
        try:
            config = cls.model_validate(dict(data), context=context)
        except ValidationError as error:
            found = [_problem_of(details) for details in error.errors(include_url=False)]
        found.extend(contradictions(valid))
        if problems or found:
            raise InvalidConfigError(_misspelt_first([*problems, *(_with_origin(each, origins) for each in found)]))
        config._origins, config._source = origins, source
        if config.topic_pattern is None:
            config._routes = tuple(config._routing.routes()[0])
        return config

    @property
    def clickhouse(self) -> ClickHouse:
        """``[clickhouse]``, which all commands but the mirror's need."""
        return self.required_clickhouse()

    # --- routes -------------------------------------------------------------------------------------------------------

    def expanded(self, topics: Collection[str]) -> Config:
        """The configuration with routes for those of ``topics`` (Kafka's topics) that a pattern matches.

        Raises InvalidConfigError if the routes then contradict each other.
        """
        if self.topic_pattern is None:
            return self
        routes, problems = self._routing.routes(topics)
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        problems += contradictions(sections | {"routes": tuple(routes)})
        if problems:
            raise InvalidConfigError(problems)
        config = self.model_copy()
        config._routes, config._waiting = tuple(routes), ()
        return config

    def without(self, topics: Collection[str]) -> Config:
        """The configuration without the routes of these topics, which are :attr:`waiting` from now on."""
        config = self.model_copy()
        config._routes = tuple(route for route in self.routes if route.topic not in topics)
        config._waiting = tuple(topics)
        return config

    @property
    def waiting(self) -> tuple[str, ...]:
        """Topics that a pattern matches, and that have no route until their first record."""
        return self._waiting

    @property
    def topic_pattern(self) -> str | None:
        """A Java pattern that matches the topics of all routes; None if the job file names every topic."""
        return self._routing.java_pattern

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes, one for each topic and table: of named topics in the file's order, then of matched topics."""
        assert self._routes is not None, "a configuration with patterns has routes once it is expanded"
        return self._routes

    @property
    def _routing(self) -> Routing[Route]:
        return routing_of(self.route_sections, self.dead_letters, self.mirror)

    def with_mirrored(self, topics: Callable[[], Collection[str]]) -> Config:
        """The configuration with the mirror's routes for those of Kafka's ``topics`` that a pattern matches.  Kafka is
        asked only if there is one.  Raises InvalidConfigError.
        """
        if not self.mirror.matches_topics:
            return self
        routes, problems = self._mirror_routing.routes(topics())
        return self._with_mirror(self.mirror.with_routes(routes), problems)

    def with_named(self, named: Mapping[str, Collection[str]]) -> Config:
        """See :meth:`Mirror.with_named`.  Raises InvalidConfigError."""
        return self._with_mirror(self.mirror.with_named(named), [])

    def _with_mirror(self, mirror: Mirror, problems: list[Problem]) -> Config:
        sections = {name: getattr(self, name) for name in type(self).model_fields} | {"mirror": mirror}
        problems = [*problems, *contradictions(sections)]
        if problems:
            raise InvalidConfigError(problems)
        return self.model_copy(update={"mirror": mirror})

    @property
    def mirror_pattern(self) -> str | None:
        """A Java pattern that matches the topics of the mirror's routes; None if the job file names every topic."""
        return self._mirror_routing.java_pattern

    @property
    def _mirror_routing(self) -> Routing[MirrorRoute]:
        return self.mirror.routing([topic for topic in (self.dead_letters.topic,) if topic is not None])

    def origin(self, key: str) -> str:
        """Where the value of a dotted key came from: a file's name, ``environment variable X``, … or ``default``."""
        return self._origins.get(key, "default")

    @property
    def job_words(self) -> list[str]:
        """What commands need to reach this job: its file, and the sink's name where that was given by ``--set``."""
        given = self.sink.name if self.origin("sink.name") == OVERRIDE else None
        return job_words(None if self._source == MAPPING else self._source, given)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of :attr:`routes`, in their order."""
        return tuple(dict.fromkeys(route.topic for route in self.routes))

    @property
    def matched_topics(self) -> tuple[str, ...]:
        """The :attr:`topics` that no route names: a pattern matched them."""
        named = {topic for section in self.route_sections for topic in section.named}
        return tuple(topic for topic in self.topics if topic not in named)

    def mirror_format_of(self, route: MirrorRoute) -> FormatSettings:
        """The format in which the mirror reads the route's values."""
        same = next(iter(self._routing.of(route.topic)), None)
        return route.format or (same.format if same else JSON)

    def mirror_choice_of(self, route: MirrorRoute) -> Choice | None:
        """Which records of its topic the mirror's route takes; None: all."""
        return route.choice and replace(route.choice, header=self.mirror_format_of(route).before_json or 0)

    def mirror_keys_of(self, route: MirrorRoute) -> KeyColumns | None:
        """How the mirror reads the route's keys; None if it does not."""
        if route.format or route.keys:
            return route.keys
        same = next(iter(self._routing.of(route.topic)), None)
        return same.keys if same else None

    def table_of(self, route: Route) -> TableName:
        """The route's table with its database."""
        return route.table_name.within(self.clickhouse.database)

    def canonical(self, table: str) -> str:
        """The full name of a table that a user gave, as in the state and in dead letters: ``default.flights`` for
        ``flights``.  Returns text that is not a table name unchanged.
        """
        try:
            return parse_table(table).within(self.clickhouse.database).canonical
        except ValueError:
            return table

    def adds_columns(self, route: Route) -> bool:
        """Whether chsink adds a column to the route's table for a field that has none."""
        return (route.own.evolution or self.tables.evolution) == "add_columns"

    def creates(self, route: Route) -> bool:
        """Whether chsink creates the route's table if it is missing."""
        return self.tables.auto_create if route.own.auto_create is None else route.own.auto_create

    def keys_of_new(self, route: Route) -> tuple[tuple[str, ...], str | None]:
        """The sorting key and the partition key with which chsink creates the route's table."""
        return route.own.order_by or self.tables.order_by, route.own.partition_by or self.tables.partition_by

    @property
    def engine_of_new(self) -> str:
        """The name of the engine with which chsink creates tables."""
        if self.tables.engine:
            return self.tables.engine.partition("(")[0].strip()
        replicated = any(endpoint.replicas for endpoint in self.clickhouse.endpoints)
        return "ReplicatedMergeTree" if replicated else "MergeTree"

    @property
    def keeps_dead_letters(self) -> bool:
        """Whether chsink writes dead letters at all: for records without a row, or for offsets that Kafka deleted."""
        return self.keeps_records or self.errors.in_doubt == "dead_letter"

    @property
    def keeps_records(self) -> bool:
        """Whether records without a row can become dead letters."""
        return "dead_letter" in (self.errors.on_bad_value, self.errors.on_tombstone)

    @property
    def dead_letters_table(self) -> TableName | None:
        """The table of dead letters with its database; None if none is set."""
        if self.dead_letters.table is None:
            return None
        database = self.clickhouse.endpoints[0].database or self.clickhouse.database
        return parse_table(self.dead_letters.table).within(database)

    def shard_key_of(self, route: Route) -> tuple[str, ...]:
        """The columns that choose the shard of the route's rows; may be empty with one shard or ``rand``."""
        return self.clickhouse.shard_key if route.shard_key is None else route.shard_key

    def databases_of(self, route: Route) -> tuple[str, ...]:
        """For each endpoint: its own database if the route's table is there; "" if the table is in the database of
        :meth:`table_of`.
        """
        own = not route.table_name.database
        return tuple(endpoint.database if own else "" for endpoint in self.clickhouse.endpoints)

    @property
    def app_name(self) -> str:
        """The application name that the cluster shows."""
        return self.spark.app_name or f"chsink {self.sink.name}"

    def required_checkpoint(self) -> str:
        """``sink.checkpoint``, which a running job needs.  Raises InvalidConfigError CHS-110 if it is not set."""
        if self.sink.checkpoint is None:
            raise InvalidConfigError([problem("sink.checkpoint", job_file.NO_CHECKPOINT())])
        return self.sink.checkpoint

    def required_mirror(self) -> Mirror:
        """``[mirror]``, which the mirror's commands need.  Raises InvalidConfigError CHS-111 if it is not enabled."""
        if not self.mirror.enabled:
            raise InvalidConfigError([problem("mirror.enabled", job_file.NO_MIRROR())])
        return self.mirror

    def required_apart(self) -> Mirror:
        """``[mirror]`` of a coordinator apart.  Raises InvalidConfigError CHS-111 if the driver commits by itself."""
        if self.required_mirror().coordinator != "apart":
            raise InvalidConfigError([problem("mirror.coordinator", job_file.COORDINATES_ITSELF())])
        return self.mirror

    def required_clickhouse(self) -> ClickHouse:
        """``[clickhouse]``.  Raises InvalidConfigError CHS-112 where the job file describes a mirror alone."""
        if self.clickhouse_section is None:
            raise InvalidConfigError([problem("clickhouse", job_file.NO_CLICKHOUSE())])
        return self.clickhouse_section

    @property
    def verify_result(self) -> Path | None:
        """``observe.verify_result``, or the sink's file next to a checkpoint that is a folder of this machine; or None.

        A new checkpoint beside the old one keeps it.
        """
        if self.observe.verify_result is not None:
            return Path(self.observe.verify_result)
        checkpoint = urlsplit(self.sink.checkpoint or "none:")
        kept = Path(checkpoint.path).parent / f"{self.sink.name}-verify.json"
        return kept if checkpoint.scheme in ("", "file") else None

    def mirror_checkpoint(self) -> str:
        """``mirror.checkpoint``, or the one next to ``sink.checkpoint``.  Raises InvalidConfigError CHS-110."""
        return self.mirror.checkpoint or f"{self.required_checkpoint().rstrip('/')}-mirror"

    def at_the_mirrors_pace(self) -> Config:
        """The configuration with the mirror's trigger, and no fewer offsets per second than without it."""
        interval, most = self.mirror.trigger_interval, self.kafka.max_offsets_per_trigger
        if interval is None:
            return self
        trigger, kafka = self.trigger.model_copy(update={"interval": interval}), self.kafka
        if most is not None:
            times = max(1.0, trigger.interval_ms / max(1, self.trigger.interval_ms))
            kafka = kafka.model_copy(update={"max_offsets_per_trigger": int(most * times)})
        return self.model_copy(update={"trigger": trigger, "kafka": kafka})


@cache
def schema() -> Schema:
    """The keys of the job file."""
    return Schema(Config)


def origins_in(data: Mapping[str, object], source: str) -> dict[str, str]:
    """The origin of each key of a mapping: ``source``, or the variable, file or command of a reference."""
    return {
        path: " and ".join(_named(kind, name) for kind, name in leaf.items()) + f", named in {source}"
        if is_reference(leaf)
        else source
        for path, leaf in flat_items(data)
    }


def _named(kind: str, name: object) -> str:
    """What a reference points to; of a command, the program."""
    if kind == "command":
        return f"command {name[0]}" if isinstance(name, list) and name else "command"
    return f"{'environment variable' if kind == 'env' else kind} {name}"


# --- pydantic's errors as problems -----------------------------------------------------------------------------------


def _problem_of(details: ErrorDetails) -> Problem:
    key, tag, waiting = "", "", list(details["loc"])
    while waiting:
        part = waiting.pop(0)
        if part != "[key]":
            key += f"[{part}]" if isinstance(part, int) else f".{part}"
        key = key.removeprefix(".")
        if waiting and _path(key) in schema().unions:
            tag = str(waiting.pop(0))  # for a union, pydantic's location holds the tag of the chosen table
    untold = details["type"] == "union_tag_not_found"
    if untold or (key in schema().sections and details["type"] == "union_tag_invalid"):
        key += f".{tag_of(schema().unions[_path(key)][0])[0]}"
    return problem(key, _error_of(details, _path(key), tag))


def _path(key: str) -> str:
    return _INDEX.sub("", key)


def _error_of(details: ErrorDetails, path: str, tag: str) -> ChsinkError:
    kind, context = details["type"], details.get("ctx", {})
    if isinstance(raised := context.get("error"), ChsinkError):
        return raised
    if kind in ("missing", "union_tag_not_found"):
        return _is_missing(path)
    if kind == "extra_forbidden":
        return _unknown_key(path, tag)
    if kind in ("literal_error", "union_tag_invalid"):
        given = details["input"] if kind == "literal_error" else context["tag"]
        known = schema().keys.get(path)  # none of a key that the user names, in a table such as format.epoch
        return _not_allowed(given, known.choices if known else tuple(re.findall(r"'([^']+)'", context["expected"])))
    reason = _WRONG_TYPES.get(kind) or details["msg"].replace("Input should", "it must", 1)
    if path in schema().keys and path in schema().unions:
        reason = "it must be a string or a table"
    return job_file.WRONG_VALUE(reason=reason, advice=_type_advice(path))


def _not_allowed(given: Any, choices: tuple[str, ...]) -> ChsinkError:
    use = f"use {_either(choices)}"
    if not isinstance(given, str):
        return job_file.WRONG_VALUE(reason=_WRONG_TYPES["string_type"], advice=use)
    ambiguous = sum(given in choice for choice in choices) > 1
    meant = None if ambiguous else closest(given, choices)
    return job_file.NOT_ALLOWED(value=repr(given), advice=f'did you mean "{meant}"?' if meant else use)


def _unknown_key(path: str, tag: str) -> ChsinkError:
    union, _, name = path.rpartition(".")
    if not union:
        return job_file.UNKNOWN_SECTION(advice=schema().advice(path))
    if union in schema().unions and (others := schema().kinds_with(union, name)):
        chosen, _ = tag_of(schema().unions[union][0])
        return job_file.KEY_OF_ANOTHER_KIND(chosen=chosen, tag=tag, union=union, others=_either(others))
    return job_file.UNKNOWN_KEY(advice=schema().advice(path))


def _is_missing(path: str) -> ChsinkError:
    if path == "route":
        return job_file.NO_ROUTE()
    key = schema().keys.get(path)
    return job_file.MISSING_KEY(advice=f"set it. {key.description}" if key else f"add a section [{path}]")


def _type_advice(path: str) -> str:
    if path == "route":
        return "write [[route]], with two brackets, once for each topic"
    key, _ = schema().longest(path)
    return f"`{key.path}` takes: {key.type_text}. {key.description}" if key else f"write a table [{path}]"


def _either(choices: Sequence[str]) -> str:
    *others, last = (f'"{choice}"' for choice in choices)
    return f"{', '.join(others)} or {last}" if others else last


def _misspelt_first(problems: Sequence[Problem]) -> list[Problem]:
    """Unknown keys before all others: a key that is missing may be one of them, misspelt."""
    return sorted(problems, key=lambda each: each.id != job_file.UNKNOWN_KEY.id)


def _with_origin(each: Problem, origins: Mapping[str, str]) -> Problem:
    """The problem with the origin of its key.  An element has the origin of its list, a table that of its first key."""
    path = each.key.partition("[")[0]
    inner = (origin for key, origin in origins.items() if key.startswith(f"{path}."))
    return replace(each, origin=origins.get(path) or next(inner, ""))
