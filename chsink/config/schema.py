"""The keys of the job file, read off the model: for look-up by name, variables, hints and the docs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from chsink.config.options import reserved
from chsink.config.problems import closest
from chsink.fields import Section, TextFile

Table = type[Section]
_WORDS = {str: "text", int: "integer", float: "number", bool: "boolean", dict: "table of options", TextFile: "path"}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤"}
# In these option tables an underscore is part of the names; elsewhere names have dots.
_UNDERSCORED = frozenset({"clickhouse.settings"})


@dataclass(frozen=True, slots=True)
class Key:
    """A key: ``path`` is dotted, ``type`` is Python's, ``choices`` are the values allowed where these can be listed.

    A ``listed`` key belongs to the tables in a list, whose path comes before its name: it cannot be set by its path.
    """

    path: str
    field: FieldInfo
    type: type
    choices: tuple[str, ...] = ()
    listed: bool = False

    @property
    def options(self) -> bool:
        """Whether it is a table of options, which have names of their own."""
        return self.type is dict

    @property
    def description(self) -> str:
        """What the key means."""
        return " ".join((self.field.description or "").split())

    @property
    def type_text(self) -> str:
        """The type and its bounds, for people."""
        if self.choices:
            return " or ".join(f'`"{choice}"`' for choice in self.choices)
        if self.type is tuple:
            return "list of tables" if tables(self.field.annotation)[0] else "list of texts"
        if self.type is SecretStr:
            return "reference"
        limits = ((sign, getattr(each, name, None)) for each in self.field.metadata for name, sign in _BOUNDS.items())
        bounds = ", ".join(f"{sign} {limit:,}" for sign, limit in limits if limit is not None)
        return f"{_WORDS[self.type]} {bounds}".rstrip()


def rows(table: Table, prefix: str = "", *, listed: bool = False) -> Iterator[Key]:
    """The keys of a table and of the tables in it."""
    for name, field in table.model_fields.items():
        path, plain = prefix + (field.alias or name), _plain(field.annotation)
        inner, in_list = tables(plain)
        named = len(inner) > 1 and tag_of(inner[0])[0] == "type"  # one of several tables, by its name or with options
        inline = any(each.inline for each in inner)
        if in_list or named or inline or not inner:
            choices = get_args(plain) if get_origin(plain) is Literal else ()
            choices = tuple(tag_of(each)[1] for each in inner) if named else choices
            yield Key(path, field, dict if inline else str if choices else get_origin(plain) or plain, choices, listed)
        for each in inner:
            yield from rows(each, f"{path}.", listed=listed or in_list or named or inline)


def tables(annotation: Any) -> tuple[tuple[Table, ...], bool]:
    """The tables that a value may be, several for a union, and whether the value is a list of them."""
    plain = _plain(annotation)
    if get_origin(plain) is tuple:
        return tables(get_args(plain)[0])[0], True
    members = get_args(plain) if get_origin(plain) in {Union, UnionType} else (plain,)
    return tuple(each for each in members if isinstance(each, type) and issubclass(each, Section)), False


def _plain(annotation: Any) -> Any:
    """The type itself, without None and what validates it."""
    members = [each for each in get_args(annotation) if each is not NoneType]
    optional = get_origin(annotation) in {Union, UnionType} and len(members) == 1
    return _plain(members[0]) if optional or get_origin(annotation) is Annotated else annotation


class Schema:
    """All keys of a model: ``keys`` by path, in the order of the model; the tables that each section may be; and, by
    path, those of which a value chooses one.
    """

    def __init__(self, root: Table) -> None:
        self.keys: dict[str, Key] = {}
        for key in rows(root):
            known = self.keys.setdefault(key.path, key)
            if known.choices != key.choices:  # the same key of another table of a union
                self.keys[key.path] = replace(known, choices=(*known.choices, *key.choices))
        self.sections = {field.alias or name: tables(field.annotation)[0] for name, field in root.model_fields.items()}
        self.unions = dict(_unions(root))

    def kinds_with(self, union: str, name: str) -> list[str]:
        """The tags of those tables of a union that have a key ``name``."""
        return [tag_of(table)[1] for table in self.unions[union] if name in table.model_fields]

    def names_in(self, table: str) -> list[str]:
        """The names that a table may hold; those of tables in a list by the list's path."""
        prefix = f"{table}." if table else ""
        paths = (path.removeprefix(prefix) for path in self.keys if path.startswith(prefix))
        return list(dict.fromkeys(path.partition(".")[0] for path in paths))

    def find(self, path: str) -> tuple[Key, str] | None:
        """The key of a dotted path and, within an option table, the option; None when there is no such key."""
        key, option = self.longest(path)
        return (key, option) if key and not key.listed and key.options == bool(option) else None

    def longest(self, path: str) -> tuple[Key | None, str]:
        """The key that is the longest part of a dotted path, and what follows it."""
        head, rest = path, ""
        while head and head not in self.keys:
            head, _, last = head.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        return self.keys.get(head), rest

    def path_of_variable(self, name: str) -> str:
        """The dotted path that ``CHSINK__SECTION__KEY`` names.

        In option tables, an underscore stands for a dot where the names have dots, and upper case for lower case when
        there is no lower case: ``CHSINK__KAFKA__OPTIONS__SASL_MECHANISM`` is ``kafka.options.sasl.mechanism``.
        """
        parts = name.split("__")[1:]
        table, option = self.longest(".".join(parts).lower())
        if table is None or not table.options or not option:
            return ".".join(parts).lower()
        option = "__".join(parts[table.path.count(".") + 1 :])
        option = option.lower() if option == option.upper() else option
        return f"{table.path}.{option if table.path in _UNDERSCORED else option.replace('_', '.')}"

    def advice(self, path: str) -> str:
        """What to do about an unknown key."""
        if instead := reserved()["keys"].get(path):
            return instead
        if (key := self.keys.get(path)) and key.options:
            return f"set one option at a time: `{path}.NAME`"
        table, _, name = path.rpartition(".")
        while table and not self.names_in(table):
            table = table.rpartition(".")[0]
        if meant := closest(name, self.names_in(table)):
            return f"did you mean `{table}.{meant}`?" if table else f"did you mean `{meant}`?"
        if elsewhere := next((key for key in self.keys if key.rpartition(".")[2] == name), None):
            return f"did you mean `{elsewhere}`?"
        return f"remove it; {f'[{table}] has' if table else 'the sections are'}: {', '.join(self.names_in(table))}"


def tag_of(table: Table) -> tuple[str, str]:
    """The key that tells the table from the others of its union, and its value there."""
    tags = ((name, get_args(field.annotation)) for name, field in table.model_fields.items())
    return next((name, values[0]) for name, values in tags if len(values) == 1 and isinstance(values[0], str))


def _unions(table: Table, prefix: str = "") -> Iterator[tuple[str, tuple[Table, ...]]]:
    for name, field in table.model_fields.items():
        path, (inner, _) = prefix + (field.alias or name), tables(field.annotation)
        if len(inner) > 1:
            yield path, inner
        for each in inner:
            yield from _unions(each, f"{path}.")
