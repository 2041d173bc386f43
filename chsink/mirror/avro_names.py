"""Names of types in an Avro schema, as Java's Avro writes them.

Iceberg's types have no namespace, inside a record that has one, and are referred to by their bare names.  By Avro's
specification, such a reference is one to the record's namespace; Java looks in both, fastavro does not.
"""

from __future__ import annotations

from typing import Any

NONE = "none"
"""The namespace that takes the place of none."""
NAMED = ("record", "fixed", "enum", "error")


def with_full_names(schema: Any) -> Any:
    """The schema with every name in full."""
    return _full(schema, "", set())


def _full(node: Any, space: str, known: set[str]) -> Any:
    match node:
        case str():
            return next((name for name in (f"{space}.{node}", f"{NONE}.{node}") if name in known), node)
        case list():
            return [_full(each, space, known) for each in node]
        case {"type": kind, "name": str(name)} if kind in NAMED:
            return _named(node, name, node.get("namespace", space) or NONE, known)
        case {"type": _}:
            return {k: _full(v, space, known) if k in {"type", "items", "values"} else v for k, v in node.items()}
        case _:
            return node


def _named(node: dict[str, Any], name: str, space: str, known: set[str]) -> dict[str, Any]:
    full = name if "." in name else f"{space}.{name}"
    known.add(full)
    space = full.rpartition(".")[0]
    found = {k: v for k, v in node.items() if k != "namespace"} | {"name": full}
    if "fields" in node:
        found["fields"] = [{**field, "type": _full(field["type"], space, known)} for field in node["fields"]]
    return found
