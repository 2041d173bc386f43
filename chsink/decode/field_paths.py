"""The places of fields in a record: by name in one of its objects (the envelope), or at a path of their own.

Rules:
- A path is a list of names, starting at the record.  Each name but the last must lead to an object.  A null on the
  path, or a missing name, makes the field null.  A record with any other value there, or a repeated name, does not fit.
- The envelope must be an object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from chsink.decode.values import JsonValue, MisfitError, Pairs, kind_of, members

Path = tuple[str, ...]


def shown(path: Path) -> str:
    """A path in the notation of the job file."""
    return "$" + "".join(f".{name}" if name.isidentifier() else f"['{name}']" for name in path)


def is_plain(name: str) -> bool:
    """Whether JSON writes the name as it is.  msgspec takes no others as members of a struct."""
    return name.isprintable() and not {'"', "\\"} & set(name)


def no_object(path: Path) -> str:
    """The reason for a record without the object at ``path``."""
    return f"no object at {shown(path)}"


@dataclass(frozen=True)
class Places:
    """Fields in ``paths`` are read at their path, all others by name in the object at ``envelope``."""

    envelope: Path = ()
    paths: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def plain(self) -> bool:
        """Whether every field is read by its name from the record itself."""
        return not self.envelope and not self.paths

    def of(self, names: Collection[str]) -> Places:
        """Without the paths of other fields: nothing is expected there."""
        return Places(self.envelope, {name: path for name, path in self.paths.items() if name in names})

    def path(self, name: str) -> Path:
        """The path of a field."""
        return self.paths.get(name) or (*self.envelope, name)

    def view(self, record: Pairs, known: Collection[str]) -> dict[str, JsonValue]:
        """The values of a record, by field name.  Raises MisfitError, also if a ``known`` name is repeated."""
        if self.plain:
            return members(record, known)
        around = _at(record, self.envelope)
        if around is None:
            raise MisfitError(no_object(self.envelope))
        if not isinstance(around, Pairs):
            raise MisfitError(f"{kind_of(around)} at {shown(self.envelope)}, not an object")
        by_name = [name for name in known if name not in self.paths]
        found = {name: value for name, value in members(around, by_name).items() if name not in self.paths}
        return found | {name: _at(record, path) for name, path in self.paths.items()}


PLAIN = Places()


def _at(record: Pairs, path: Path) -> JsonValue:
    """The value at a path; None if there is none."""
    value: JsonValue = record
    for depth, name in enumerate(path):
        if value is None:
            return None
        if not isinstance(value, Pairs):
            raise MisfitError(f"{kind_of(value)} at {shown(path[:depth])}, not an object")
        value = members(value, (name,)).get(name)
    return value


ANY_OBJECT = pa.struct([])
"""A type with which the parser accepts any object and ignores its members."""


class Trees:
    """The Arrow types to parse, each at its path.  Paths that cannot be in one schema go to different schemas: equal
    paths with different types, or a path that leads into the value of another.
    """

    def __init__(self) -> None:
        self._trees: list[Object] = [Object()]
        self._placed: dict[str, tuple[int, Path]] = {}

    def place(self, name: str, path: Path, kind: pa.DataType) -> None:
        """Parse the type ``kind`` at the path; :meth:`columns` returns its array under ``name``."""
        taken = (number for number, tree in enumerate(self._trees) if put(tree, path, kind))
        number = next(taken, len(self._trees))
        if number == len(self._trees):
            self._trees.append(Object())
            put(self._trees[number], path, kind)
        self._placed[name] = number, path

    def schemas(self) -> list[pa.Schema]:
        """One for each tree."""
        return [pa.schema(_struct(tree)) for tree in self._trees]

    def columns(self, tables: list[pa.Table]) -> dict[str, pa.Array]:
        """The array of each name, taken from ``tables``: one for each schema."""
        arrays: list[dict[Path, pa.Array]] = []
        for tree, table in zip(self._trees, tables, strict=True):
            arrays.append({})
            for name, node in tree.items():
                _collect((name,), node, table.column(name).combine_chunks(), arrays[-1])
        return {name: arrays[number][path] for name, (number, path) in self._placed.items()}


class Object(dict[str, Any]):
    """An inner node of a tree: an object that holds placed types, or that is placed itself."""


def put(tree: Object, path: Path, kind: Any) -> bool:
    """Put the type into the tree.  Returns False, without changing the tree, if it conflicts with another type."""
    way, leaf = (path, None) if kind == ANY_OBJECT else (path[:-1], kind)
    node: Any = tree
    for name in way:
        node = node.get(name, Object())
        if not isinstance(node, dict):
            return False
    if leaf is not None and node.get(path[-1], leaf) != leaf:
        return False
    node = tree
    for name in way:
        node = node.setdefault(name, Object())
    if leaf is not None:
        node[path[-1]] = leaf
    return True


def _struct(tree: Object) -> list[pa.Field]:
    return [
        pa.field(name, pa.struct(_struct(node)) if isinstance(node, Object) else node) for name, node in tree.items()
    ]


def _collect(path: Path, node: Object | pa.DataType, array: pa.Array, into: dict[Path, pa.Array]) -> None:
    into[path] = array
    if isinstance(node, Object):
        assert isinstance(array, pa.StructArray), "an object is parsed as a struct"
        for (name, inner), child in zip(node.items(), array.flatten(), strict=True):
            _collect((*path, name), inner, child, into)
