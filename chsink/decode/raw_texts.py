"""Reads selected values of many records as their original JSON texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa

from chsink.decode.field_paths import Object, Path, is_plain, put

_RAW: Final = "raw"
_MISSING: Final = msgspec.Raw(b"")


class RawTexts:
    """Reads the JSON text at each of these paths."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        self._trees: list[Object] = []
        for path in paths:
            if not any(put(tree, path, _RAW) for tree in self._trees):
                self._trees.append(Object())
                put(self._trees[-1], path, _RAW)
        self._plain = all(is_plain(name) for path in paths for name in path)
        self._decoders = [msgspec.json.Decoder(_struct(tree)) for tree in self._trees] if self._plain else []

    def read(self, records: pa.Array) -> list[list[bytes]]:
        """For each path, the texts of all records; empty if a record has no value there.

        Raises msgspec.DecodeError if a value on a path is neither an object nor null, or if a name is written with
        escapes: then the reference reads the records.
        """
        if not self._plain:
            raise msgspec.DecodeError("a name with escapes")
        values = records.to_pylist()
        found: dict[Path, list[bytes]] = {}
        for tree, decoder in zip(self._trees, self._decoders, strict=True):
            _collect(tree, (), [decoder.decode(value) for value in values], found)
        return [found[path] for path in self._paths]


def _struct(tree: Object) -> type[msgspec.Struct]:
    """A struct type: raw JSON for each leaf (empty if missing), a nested struct for each object (None if missing)."""
    fields: list[tuple[str, Any, Any]] = []
    for at, node in enumerate(tree.values()):
        leaf = (msgspec.Raw, _MISSING) if node == _RAW else (_struct(node) | None, None)
        fields.append((f"f{at}", *leaf))
    rename = {f"f{at}": name for at, name in enumerate(tree)}
    return msgspec.defstruct("Raws", fields, rename=rename, gc=False)


def _collect(tree: Object, way: Path, rows: list[Any], into: dict[Path, list[bytes]]) -> None:
    """Collect the texts of all rows for each leaf of the tree; a row that is None has empty texts."""
    there = [row for row in rows if row is not None] if way else rows
    for at, (name, node) in enumerate(tree.items()):
        column: Iterable[Any] = map(attrgetter(f"f{at}"), there)
        if len(there) < len(rows):
            absent = _MISSING if node == _RAW else None
            found = iter(column)
            column = [absent if row is None else next(found) for row in rows]
        if node == _RAW:
            into[*way, name] = [bytes(text) for text in column]
        else:
            _collect(node, (*way, name), list(column), into)
