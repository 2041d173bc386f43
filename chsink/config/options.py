"""Tables of options that pass through to Kafka, ClickHouse and Spark, except those on which exactly once depends.

An option table may be written with quoted names (``"security.protocol" = "SSL"``) or without the quotes, which TOML
reads as nested tables.  Both mean the same.  ``reserved.toml`` lists the refused options and the reasons.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo

from chsink.errors import job_file
from chsink.fields import is_reference, resolved

_RESERVED = tomllib.loads(files("chsink.config").joinpath("reserved.toml").read_text(encoding="utf-8"))


def reserved_by_reason(table: str) -> dict[str, list[str]]:
    """Maps each reason (or the key to set instead) to the options that an option table, such as ``kafka.options``,
    refuses for it.
    """
    return {entry["because"]: entry["names"] for entry in _RESERVED[table]}


@cache
def reserved() -> dict[str, dict[str, str]]:
    """Maps each option table to its refused options, and these to the reason or to the key to set instead.  A name that
    ends in ``…`` is a prefix.  ``keys`` holds common wrong names of keys, ``triggers`` the refused trigger modes.
    """
    return {
        table: {name: reason for reason, names in reserved_by_reason(table).items() for name in names}
        for table in _RESERVED
    }


def refused(table: str, option: str) -> str | None:
    """Why a table refuses an option; None if the option passes through."""
    reasons = reserved()[table]
    prefixes = (reason for name, reason in reasons.items() if name[-1] == "…" and option.startswith(name[:-1]))
    return reasons.get(option) or next(prefixes, None) or _by_form(table, option)


def _by_form(table: str, option: str) -> str | None:
    if table == "kafka.options" and option.startswith("kafka."):
        return f"set `{option.removeprefix('kafka.')}`: option names have no prefix here"
    if table == "kafka.options" and option != option.lower():
        return "it is an option of Spark's source, not of the Kafka client"
    if table == "spark.conf" and not option.startswith("spark."):
        return "Spark ignores names that do not start with `spark.`"
    return None


def flat_items(value: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """The options of a table; options in nested tables get dotted names."""
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner and not is_reference(inner):
            yield from ((f"{name}.{rest}", leaf) for rest, leaf in flat_items(inner))
        else:
            yield name, inner


def _flatten(value: object) -> object:
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, Any] = {}
    for name, leaf in flat_items(value):
        if name in flat:
            raise job_file.OPTION_TWICE(option=repr(name))
        flat[name] = leaf
    return flat


def _passing(table: str) -> AfterValidator:
    def check(name: str) -> str:
        if reason := refused(table, name):
            instead = reason.startswith("set `")
            raise job_file.SET_ELSEWHERE(advice=reason) if instead else job_file.RESERVED(reason=reason)
        return name

    return AfterValidator(check)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise job_file.NOT_AN_OPTION_VALUE()


def _as_setting(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else _as_text(value)


def _as_option(value: object, info: ValidationInfo) -> object:
    if isinstance(value, Mapping):
        return resolved(value, info)
    return value if isinstance(value, SecretStr) else _as_text(value)


_Option = Annotated[str | SecretStr, BeforeValidator(_as_option)]
KafkaOptions = Annotated[dict[Annotated[str, _passing("kafka.options")], _Option], BeforeValidator(_flatten)]
ClientOptions = Annotated[dict[Annotated[str, _passing("kafka.client_options")], _Option], BeforeValidator(_flatten)]
CatalogProperties = Annotated[dict[str, _Option], BeforeValidator(_flatten)]
ClickHouseSettings = dict[Annotated[str, _passing("clickhouse.settings")], Annotated[str, BeforeValidator(_as_setting)]]
SparkConf = Annotated[
    dict[Annotated[str, _passing("spark.conf")], Annotated[str, BeforeValidator(_as_text)]], BeforeValidator(_flatten)
]
