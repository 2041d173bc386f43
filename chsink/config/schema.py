"""The keys of the job file, read off the model's JSON schema: for look-up by name, variables, hints and the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from chsink.config.options import reserved
from chsink.config.problems import closest

Node = Mapping[str, Any]
_WORDS = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "table of options",
}
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
# In these option tables an underscore is part of the names; elsewhere names have dots.
_UNDERSCORED = frozenset({"clickhouse.settings"})


@dataclass(frozen=True, slots=True)
class Key:
    """A key: ``path`` is dotted, ``node`` its JSON schema without null.  A ``listed`` key belongs to the tables in a
    list, whose path comes before its name, so it cannot be set by its path.
    """

    path: str
    node: Node
    required: bool
    listed: bool = False

    @property
    def options(self) -> bool:
        """Whether it is a table of options, which have names of their own."""
        return self.node.get("type") == "object"

    @property
    def secret(self) -> bool:
        """Whether its value is a credential."""
        return self.node.get("format") == "password"

    @property
    def choices(self) -> tuple[str, ...]:
        """The values allowed; empty where they cannot be listed."""
        return tuple(self.node.get("enum", ()))

    @property
    def description(self) -> str:
        """What the key means."""
        return " ".join(self.node.get("description", "").split())

    @property
    def type_text(self) -> str:
        """The type and its bounds, for people."""
        if self.choices:
            return " or ".join(f'`"{choice}"`' for choice in self.choices)
        if self.secret:
            return "reference"
        if self.node["type"] == "array":
            return "list of texts" if self.node["items"].get("type") == "string" else "list of tables"
        bounds = [f"{sign} {self.node[bound]:,}" for bound, sign in _BOUNDS.items() if bound in self.node]
        return f"{_WORDS[self.node['type']]} {', '.join(bounds)}".rstrip()


class Schema:
    """All keys of a model: ``keys`` by path, in the order of the model."""

    def __init__(self, root: type[BaseModel]) -> None:
        schema = root.model_json_schema()
        self._definitions: Mapping[str, Node] = schema["$defs"]
        self.keys: dict[str, Key] = {}
        for key in self.rows(schema):
            known = self.keys.setdefault(key.path, key)
            if known.choices != key.choices:  # the same key of another table of a union
                self.keys[key.path] = replace(known, node={**known.node, "enum": [*known.choices, *key.choices]})
        self.sections = {name: self.tables(node)[0] for name, node in schema["properties"].items()}

    def rows(self, table: Node, prefix: str = "", *, listed: bool = False) -> Iterator[Key]:
        """The keys of a table and of the tables in it."""
        for name, bare in table["properties"].items():
            node, path = self._resolved(bare), prefix + name
            tables, in_list = self.tables(node)
            if in_list or not tables:
                yield Key(path, node, name in table.get("required", ()), listed)
            for inner in tables:
                yield from self.rows(inner, f"{path}.", listed=listed or in_list)

    def tables(self, node: Node) -> tuple[tuple[Node, ...], bool]:
        """The tables that a value may be, several for a union, and whether the value is a list of them."""
        node = self._resolved(node)
        in_list = node.get("type") == "array"
        inner = self._resolved(node["items"]) if in_list else node
        union = (self._resolved(variant) for variant in inner.get("oneOf", (inner,)))
        return tuple(variant for variant in union if "properties" in variant), in_list

    def stores_with(self, name: str) -> list[str]:
        """The state stores that have a key ``name``."""
        return [store_of(table) for table in self.sections["state"] if name in table["properties"]]

    def _resolved(self, node: Node) -> Node:
        """The node without references and without null."""
        if "$ref" in node:
            own = {name: value for name, value in node.items() if name != "$ref"}
            return {**self._definitions[node["$ref"].rpartition("/")[2]], **own}
        variants = [variant for variant in node.get("anyOf", ()) if variant.get("type") != "null"]
        node = {**node, **self._resolved(variants[0])} if len(variants) == 1 else node
        return {**node, "enum": [node["const"]]} if "const" in node else node

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
        table, _, name = path.rpartition(".")
        while table and not self.names_in(table):
            table = table.rpartition(".")[0]
        if meant := closest(name, self.names_in(table)):
            return f"did you mean `{table}.{meant}`?" if table else f"did you mean `{meant}`?"
        if elsewhere := next((key for key in self.keys if key.rpartition(".")[2] == name), None):
            return f"did you mean `{elsewhere}`?"
        return f"remove it; {f'[{table}] has' if table else 'the sections are'}: {', '.join(self.names_in(table))}"


def store_of(table: Node) -> str:
    """The name of the state store whose table this is."""
    return str(table["properties"]["store"]["const"])
