"""The configuration as one immutable value, made from a mapping.

A ``Config`` that was made here is free of contradictions.  It is small and pickles, so it may travel to executors; it
then carries the credentials, which it never prints.  Sections are validated one by one, so one broken section does not
hide what is wrong in the others, nor the contradictions between those that are right.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import Field, PrivateAttr, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from chsink.config.checks import contradictions
from chsink.config.clickhouse import ClickHouse
from chsink.config.kafka import Kafka
from chsink.config.options import flat_items
from chsink.config.problems import InvalidConfigError, Problem, closest, problem
from chsink.config.schema import Schema
from chsink.config.sections import Errors, InDoubt, Observe, Route, Sink, Spark, Trigger
from chsink.errors import ChsinkError, job_file
from chsink.fields import Section, is_reference
from chsink.notation.sql import TableName
from chsink.state import AnyStore, KeeperMap

DEFAULT_ORIGIN = "default"
Place = tuple[int | str, ...]

_WRONG_TYPES = {
    "string_type": "it must be text",
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

    sink: Sink
    kafka: Kafka
    routes: tuple[Route, ...] = Field(alias="route")
    clickhouse: ClickHouse
    state: AnyStore = Field(default=KeeperMap())
    errors: Errors = Field(default=Errors())
    trigger: Trigger = Field(default=Trigger())
    in_doubt: InDoubt = Field(default=InDoubt())
    observe: Observe = Field(default=Observe())
    spark: Spark = Field(default=Spark())

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def from_mapping(
        cls, data: Mapping[str, Any], *, source: str = "mapping", environ: Mapping[str, str] | None = None
    ) -> Config:
        """The configuration in ``data``, which is shaped like the job file.

        ``source`` is what provenance calls it.  ``environ`` (default: the process's) resolves ``{ env = … }``.
        Raises InvalidConfigError with every problem found.
        """
        return build(data, origins_in(data, source), environ=os.environ if environ is None else environ)

    def origin(self, key: str) -> str:
        """Where the value of a dotted key came from: a file's name, ``environment variable X``, … or ``default``."""
        return self._origins.get(key, DEFAULT_ORIGIN)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, in the order of the routes."""
        return tuple(route.topic for route in self.routes)

    def route_of(self, topic: str) -> Route:
        """The one route of a topic (KeyError when there is none)."""
        return {route.topic: route for route in self.routes}[topic]

    def table_of(self, route: Route) -> TableName:
        """The route's table with its database."""
        return route.target.within(self.clickhouse.database)

    def shard_key_of(self, route: Route) -> tuple[str, ...]:
        """The columns that choose the shard of the route's rows; empty where there is one shard and no key."""
        return self.clickhouse.shard_key if route.shard_key is None else route.shard_key

    @property
    def app_name(self) -> str:
        """What the cluster shows."""
        return self.spark.app_name or f"chsink {self.sink.name}"

    def required_checkpoint(self) -> str:
        """``sink.checkpoint``, which running needs.  Raises InvalidConfigError CHS-110 without one."""
        if self.sink.checkpoint is None:
            raise InvalidConfigError([problem("sink.checkpoint", job_file.NO_CHECKPOINT())])
        return self.sink.checkpoint


@cache
def schema() -> Schema:
    """The keys of the job file."""
    return Schema(Config)


# --- from a mapping --------------------------------------------------------------------------------------------------


def build(
    data: Mapping[str, Any], origins: Mapping[str, str], *, environ: Mapping[str, str], folder: Path | None = None
) -> Config:
    """The configuration in ``data``, with the origin of each dotted key.

    References to files are taken from ``folder``.  Raises InvalidConfigError with every problem found.
    """
    context = {"environ": environ, "folder": folder or Path()}
    names = {field.alias or name: name for name, field in Config.model_fields.items()}
    unknown = [name for name in data if name not in names]
    found = [problem(name, job_file.UNKNOWN_SECTION(advice=schema().advice(name))) for name in unknown]
    sections: dict[str, Any] = {}
    for name, field_name in names.items():
        if name not in data:
            if Config.model_fields[field_name].is_required():
                found.append(problem(name, _is_missing((name,))))
            else:
                sections[field_name] = Config.model_fields[field_name].default
            continue
        raw = tuple(data[name]) if name == "route" and isinstance(data[name], list) else data[name]
        try:
            sections[field_name] = _adapter(field_name).validate_python(raw, context=context)
        except ValidationError as error:
            found.extend(_problem_of(details, name, raw) for details in error.errors(include_url=False))
    found.extend(contradictions(sections))
    if found:
        raise InvalidConfigError(_with_origin(each, origins) for each in found)
    config = Config(**{name: sections[field_name] for name, field_name in names.items()})
    config._origins = dict(origins)
    return config


@cache
def _adapter(field_name: str) -> TypeAdapter[Any]:
    return TypeAdapter(get_type_hints(Config, include_extras=True)[field_name])


def _problem_of(details: ErrorDetails, section: str, raw: Any) -> Problem:
    union = len(schema().sections[section]) > 1  # then the place begins with the variant
    place: Place = (section, *details["loc"][union:])
    if details["type"] == "union_tag_invalid":
        place = (section, "store")
    return problem(_key_text(place), _error_of(details, place, raw))


def _error_of(details: ErrorDetails, place: Place, raw: Any) -> ChsinkError:
    kind, context = details["type"], details.get("ctx", {})
    if isinstance(raised := context.get("error"), ChsinkError):
        return raised
    if kind == "missing":
        return _is_missing(place)
    if kind == "extra_forbidden":
        return _unknown_key(place, raw)
    if kind in ("literal_error", "union_tag_invalid"):
        given = details["input"] if kind == "literal_error" else context["tag"]
        return _not_allowed(given, schema().keys[_path(place)].choices)
    reason = _WRONG_TYPES.get(kind) or details["msg"].replace("Input should", "it must", 1)
    return job_file.WRONG_VALUE(reason=reason, advice=_type_advice(place))


def _not_allowed(given: Any, choices: tuple[str, ...]) -> ChsinkError:
    if not isinstance(given, str):
        return job_file.WRONG_VALUE(reason=_WRONG_TYPES["string_type"], advice=f"use {_either(choices)}")
    ambiguous = sum(given in choice for choice in choices) > 1
    meant = None if ambiguous else closest(given, choices)
    advice = f'did you mean "{meant}"?' if meant else f"use {_either(choices)}"
    return job_file.NOT_ALLOWED(value=repr(given), advice=advice)


def _unknown_key(place: Place, raw: Any) -> ChsinkError:
    path = _path(place)
    section, _, name = path.partition(".")
    others = [
        _either(schema().choices(variant, "store"))
        for variant in schema().sections[section]
        if len(schema().sections[section]) > 1 and name in variant["properties"]
    ]
    if others:
        return job_file.KEY_OF_ANOTHER_STORE(store=raw.get("store", "keepermap"), others=" or ".join(others))
    return job_file.UNKNOWN_KEY(advice=schema().advice(path))


def _is_missing(place: Place) -> ChsinkError:
    path = _path(place)
    if path == "route":
        return job_file.NO_ROUTE()
    key = schema().keys.get(path)
    advice = f"set it: {key.description}" if key else f"add a section [{path}]"
    return job_file.MISSING_KEY(advice=advice)


def _type_advice(place: Place) -> str:
    if place == ("route",):
        return "write [[route]], with two brackets, once for each topic"
    for length in range(len(place), 0, -1):
        if key := schema().keys.get(_path(place[:length])):
            return f"`{key.path}` takes: {key.type_text}. {key.description}".rstrip()
    return f"write a table [{_path(place)}]"


def _either(choices: Sequence[str]) -> str:
    *others, last = (f'"{choice}"' for choice in choices)
    return f"{', '.join(others)} or {last}" if others else last


def _with_origin(each: Problem, origins: Mapping[str, str]) -> Problem:
    """The problem with the origin of its key: the list's for an element, the first inner key's for a table."""
    path = each.key.partition("[")[0]
    inner = (origin for key, origin in origins.items() if key.startswith(f"{path}."))
    return replace(each, origin=origins.get(path) or next(inner, ""))


def _path(place: Place) -> str:
    """The dotted path without indices: what the schema knows."""
    return ".".join(part for part in place if isinstance(part, str) and part != "[key]")


def _key_text(place: Place) -> str:
    """The dotted path with indices: what a person reads."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place if part != "[key]")
    return "".join(parts).removeprefix(".")


# --- origins ---------------------------------------------------------------------------------------------------------


def origins_in(data: Mapping[str, Any], source: str, prefix: str = "") -> dict[str, str]:
    """The origin of each key of a mapping: ``source``, or what a reference in it names."""
    found: dict[str, str] = {}
    for name, value in data.items():
        path = f"{prefix}{name}"
        key = schema().keys.get(path)
        if isinstance(value, Mapping) and value and not is_reference(value):
            if key is not None and key.options:
                found.update((f"{path}.{option}", _origin_of(leaf, source)) for option, leaf in flat_items(value))
            else:
                found.update(origins_in(value, source, f"{path}."))
        else:
            found[path] = _origin_of(value, source)
    return found


def _origin_of(value: Any, source: str) -> str:
    if not is_reference(value):
        return source
    kinds = {"env": "environment variable", "file": "file"}
    named = " and ".join(f"{kinds[kind]} {target}" for kind, target in value.items())
    return f"{named}, named in {source}"
