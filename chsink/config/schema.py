"""The keys of the job file, read off the model: for look-up by name, environment variables, the reference page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types as bounds
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from chsink.config.clickhouse import Endpoint
from chsink.config.model import Config
from chsink.config.problems import closest
from chsink.config.reserved import KEYS_ELSEWHERE
from chsink.config.sections import Route

Kind = Literal["text", "number", "list", "map", "secret"]
_WORDS = {str: "text", int: "integer", float: "number", bool: "boolean", SecretStr: "reference"}
_LISTED: dict[str, type[BaseModel]] = {"route": Route, "clickhouse.endpoints": Endpoint}
# In these option tables an underscore is part of the names; elsewhere names have dots.
_UNDERSCORED = frozenset({"clickhouse.settings"})


@dataclass(frozen=True, slots=True)
class Key:
    """A key that can be set: ``path`` is dotted."""

    path: str
    field: FieldInfo
    annotation: Any
    kind: Kind

    @property
    def type_text(self) -> str:
        """The type and its bounds, for people."""
        return _type_text(self.annotation) + _bounds_text(self.field)


def name_of(name: str, field: FieldInfo) -> str:
    """The key's name in the file."""
    return field.alias or name


@cache
def keys() -> dict[str, Key]:
    """All keys that can be set, by path, in the order of the model."""
    return {key.path: key for key in _keys_of(Config, "")}


@cache
def element_keys() -> dict[str, Key]:
    """The keys of the tables in lists, by the list's path and their name."""
    return {key.path: key for path, model in _LISTED.items() for key in _keys_of(model, f"{path}.")}


@cache
def names_in(table: str) -> tuple[str, ...]:
    """The names that a table may hold; elements of a list are looked up by the list's path."""
    model: Any = _LISTED.get(table, Config)
    if table and table not in _LISTED:
        for part in table.split("."):
            model = core({name_of(*item): item[1] for item in model.model_fields.items()}[part].annotation)
    return tuple(name_of(*item) for item in model.model_fields.items())


def resolve(path: str) -> tuple[Key, str] | None:
    """The key of a dotted path and, within an option table, the option; None when there is no such key."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        key = keys().get(".".join(parts[:length]))
        if key is not None:
            option = ".".join(parts[length:])
            return (key, option) if (key.kind == "map") == bool(option) else None
    return None


def path_of_variable(name: str) -> str:
    """The dotted path that ``CHSINK__SECTION__KEY`` names.

    In option tables, an underscore stands for a dot where the names have dots, and upper case for lower case when there
    is no lower case in the option: ``CHSINK__KAFKA__OPTIONS__SASL_JAAS_CONFIG`` is ``kafka.options.sasl.jaas.config``.
    """
    parts = name.split("__")[1:]
    for length in range(1, len(parts)):
        table = ".".join(parts[:length]).lower()
        if table in keys() and keys()[table].kind == "map":
            option = "__".join(parts[length:])
            option = option.lower() if option == option.upper() else option
            return f"{table}.{option if table in _UNDERSCORED else option.replace('_', '.')}"
    return ".".join(parts).lower()


def advice(path: str, table: str) -> str:
    """What to do about an unknown key: ``path`` is its dotted path, ``table`` the path of the table it stands in."""
    if path in KEYS_ELSEWHERE:
        return KEYS_ELSEWHERE[path]
    name = path.rpartition(".")[2]
    meant = closest(name, names_in(table))
    if meant:
        return f"did you mean `{table}.{meant}`?" if table else f"did you mean `{meant}`?"
    elsewhere = next((key for key in keys() if key.rpartition(".")[2] == name), None)
    if elsewhere:
        return f"did you mean `{elsewhere}`?"
    return f"remove it; {f'[{table}] has' if table else 'the sections are'}: {', '.join(names_in(table))}"


def is_table(path: str) -> bool:
    """Whether there is a table of this path."""
    return any(key.startswith(f"{path}.") for key in keys())


def core(annotation: Any) -> Any:
    """The annotation without None and without Annotated."""
    options = [option for option in get_args(annotation) if option is not type(None)]
    if get_origin(annotation) in (Union, UnionType) and len(options) == 1:
        return core(options[0])
    return core(options[0]) if hasattr(annotation, "__metadata__") else annotation


def _keys_of(model: type[BaseModel], prefix: str) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        path, annotation = prefix + name_of(name, field), core(field.annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _keys_of(annotation, f"{path}.")
        else:
            yield Key(path, field, annotation, _kind_of(annotation))


def _kind_of(annotation: Any) -> Kind:
    origin = get_origin(annotation)
    if origin is tuple:
        return "list"
    if origin is dict:
        return "map"
    if annotation is SecretStr:
        return "secret"
    return "number" if annotation in (int, float, bool) else "text"


def _type_text(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(f'`"{choice}"`' for choice in get_args(annotation))
    if get_origin(annotation) is tuple:
        element = core(get_args(annotation)[0])
        return "list of texts" if element is str else "list of tables"
    return "table of options" if get_origin(annotation) is dict else _WORDS[annotation]


def _bounds_text(field: FieldInfo) -> str:
    texts = []
    for bound in field.metadata:
        if isinstance(bound, bounds.Ge):
            texts.append(f"≥ {bound.ge:,}")
        elif isinstance(bound, bounds.Gt):
            texts.append(f"> {bound.gt:,}")
        elif isinstance(bound, bounds.Le):
            texts.append(f"≤ {bound.le:,}")
    return f" {', '.join(texts)}" if texts else ""
