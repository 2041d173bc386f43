"""The keys of the job file, derived from the model: to find keys by name, for variables, hints and the docs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from chsink.config.docstrings import docstrings
from chsink.config.options import reserved
from chsink.config.problems import closest
from chsink.fields import Section, TextFile

Table = type[Section]
_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "table of options", TextFile: "path"}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤"}
# In these option tables, names contain underscores; in all others, dots.
_UNDERSCORED = frozenset({"clickhouse.settings"})


@dataclass(frozen=True, slots=True)
class Key:
    """A key: ``path`` is dotted, ``type`` is the Python type, ``choices`` are the allowed values if they can be listed.
    ``table`` has the attribute ``name`` for it.

    A ``listed`` key is a key of the tables in a list; ``path`` has no index, so the key cannot be set by its path.
    """

    path: str
    table: Table
    name: str
    type: type
    choices: tuple[str, ...] = ()
    listed: bool = False

    @property
    def options(self) -> bool:
        """Whether the key is a table of options, whose names the model does not define."""
        return self.type is dict

    @property
    def field(self) -> FieldInfo:
        """What the model knows of it."""
        return self.table.model_fields[self.name]

    @property
    def description(self) -> str:
        """The key's description, for users."""
        return " ".join(docstrings(self.table).get(self.name, "").split())

    @property
    def type_text(self) -> str:
        """The type and its bounds, for users."""
        if self.choices:
            return " or ".join(f'`"{choice}"`' for choice in self.choices)
        if self.type is tuple:
            return "list of tables" if tables(self.field.annotation)[0] else "list of strings"
        if self.type is SecretStr:
            return "reference"
        limits = ((sign, getattr(each, name, None)) for each in self.field.metadata for name, sign in _BOUNDS.items())
        bounds = ", ".join(f"{sign} {limit:,}" for sign, limit in limits if limit is not None)
        return f"{_WORDS[self.type]} {bounds}".rstrip()


def rows(table: Table, prefix: str = "", *, listed: bool = False) -> Iterator[Key]:
    """The keys of a table and of its nested tables."""
    for name, field in table.model_fields.items():
        path, plain = prefix + (field.alias or name), _plain(field.annotation)
        inner, in_list = tables(plain)
        named = len(inner) > 1 and tag_of(inner[0])[0] == "type"  # a union such as `format`: a name, or a table
        inline = any(each.inline for each in inner)
        if in_list or named or inline or not inner:
            choices = get_args(plain) if get_origin(plain) is Literal else ()
            choices = tuple(tag_of(each)[1] for each in inner) if named else choices
            yield Key(
                path, table, name, dict if inline else str if choices else get_origin(plain) or plain, choices, listed
            )
        for each in inner:
            yield from rows(each, f"{path}.", listed=listed or in_list or named or inline)


def tables(annotation: Any) -> tuple[tuple[Table, ...], bool]:
    """The table types that a value may have (several for a union), and whether the value is a list of tables."""
    plain = _plain(annotation)
    if get_origin(plain) is tuple:
        return tables(get_args(plain)[0])[0], True
    members = get_args(plain) if get_origin(plain) in {Union, UnionType} else (plain,)
    return tuple(each for each in members if isinstance(each, type) and issubclass(each, Section)), False


def _plain(annotation: Any) -> Any:
    """The type without ``| None`` and without validators."""
    members = [each for each in get_args(annotation) if each is not NoneType]
    optional = get_origin(annotation) in {Union, UnionType} and len(members) == 1
    return _plain(members[0]) if optional or get_origin(annotation) is Annotated else annotation


class Schema:
    """All keys of a model.

    ``keys`` maps paths to keys, in the model's order.  ``sections`` maps each section to its possible table types.
    ``unions`` maps the path of each union to its table types.
    """

    def __init__(self, root: Table) -> None:
        self.keys: dict[str, Key] = {}
        for key in rows(root):
            known = self.keys.setdefault(key.path, key)
            if known.choices != key.choices:  # two tables of a union have this key
                self.keys[key.path] = replace(known, choices=(*known.choices, *key.choices))
        self.sections = {field.alias or name: tables(field.annotation)[0] for name, field in root.model_fields.items()}
        self.unions = dict(_unions(root))

    def kinds_with(self, union: str, name: str) -> list[str]:
        """The tags of the union's tables that have a key ``name``."""
        return [tag_of(table)[1] for table in self.unions[union] if name in table.model_fields]

    def names_in(self, table: str) -> list[str]:
        """The names of a table's keys.  For the tables in a list, ``table`` is the path of the list."""
        prefix = f"{table}." if table else ""
        paths = (path.removeprefix(prefix) for path in self.keys if path.startswith(prefix))
        return list(dict.fromkeys(path.partition(".")[0] for path in paths))

    def find(self, path: str) -> tuple[Key, str] | None:
        """The key of a dotted path, and the option if the key is an option table; None if there is no such key."""
        key, option = self.longest(path)
        return (key, option) if key and not key.listed and key.options == bool(option) else None

    def longest(self, path: str) -> tuple[Key | None, str]:
        """The key whose path is the longest prefix of a dotted path, and the rest of the path."""
        head, rest = path, ""
        while head and head not in self.keys:
            head, _, last = head.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        return self.keys.get(head), rest

    def path_of_variable(self, name: str) -> str:
        """The dotted path that ``CHSINK__SECTION__KEY`` names.

        In option tables whose names have dots, an underscore stands for a dot.  A name without lower case is converted
        to lower case: ``CHSINK__KAFKA__OPTIONS__SASL_MECHANISM`` is ``kafka.options.sasl.mechanism``.
        """
        parts = name.split("__")[1:]
        table, option = self.longest(".".join(parts).lower())
        if table is None or not table.options or not option:
            return ".".join(parts).lower()
        option = "__".join(parts[table.path.count(".") + 1 :])
        option = option.lower() if option == option.upper() else option
        return f"{table.path}.{option if table.path in _UNDERSCORED else option.replace('_', '.')}"

    def advice(self, path: str) -> str:
        """The fix for an unknown key."""
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
    """The key that identifies the table among those of its union, and its value in this table."""
    tags = ((name, get_args(field.annotation)) for name, field in table.model_fields.items())
    return next((name, values[0]) for name, values in tags if len(values) == 1 and isinstance(values[0], str))


def _unions(table: Table, prefix: str = "") -> Iterator[tuple[str, tuple[Table, ...]]]:
    for name, field in table.model_fields.items():
        path, (inner, _) = prefix + (field.alias or name), tables(field.annotation)
        if len(inner) > 1:
            yield path, inner
        for each in inner:
            yield from _unions(each, f"{path}.")
