"""Every key of the job file is read by code: a key that nothing reads promises what does not happen.

A key is read where its name is taken as an attribute of its section.  What stands for a section is found by name
(``config.trigger``), by assignment (``ch = self.config.clickhouse``), by annotation, by iteration over its list, and,
inside its own class, as ``self``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel

from chsink.config import mirror, routes, sections
from chsink.formats.readers import READERS as FORMATS
from chsink.formats.settings import JsonFields
from chsink.registry.settings import SchemaRegistry
from chsink.state import KeeperMap, Memory, ZooKeeper

CHSINK = Path(__file__).parents[3] / "chsink"
READS_NOTHING = {"config/contradictions.py", "config/page.py", "config/schema.py", "config/show.py"}
"""They treat keys as such; a contradiction with a key nobody reads is no use of it."""

MODELS: dict[str, tuple[type[BaseModel], ...]] = {
    "sink": (sections.SinkSection,),
    "kafka": (sections.Kafka,),
    "route_sections": (routes.TopicsSection, routes.RouteSection, mirror.MirrorRouteSection),
    "settings": (*FORMATS, JsonFields, SchemaRegistry),
    "clickhouse": (sections.ClickHouse,),
    "endpoints": (sections.Endpoint,),
    "tls": (sections.Tls,),
    "state": (KeeperMap, ZooKeeper, Memory),
    "tables": (sections.Tables,),
    "errors": (sections.Errors,),
    "trigger": (sections.Trigger,),
    "in_doubt": (sections.InDoubt,),
    "mirror": (mirror.Mirror,),
    "observe": (sections.Observe,),
    "spark": (sections.Spark,),
}
SECTIONS = {
    model.__name__: [section for section, models in MODELS.items() if model in models]
    for models in MODELS.values()
    for model in models
}
"""The sections that a class is the model of."""
DISPATCHED = {("state", "store"), ("settings", "type"), ("endpoints", "name")}


def names_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and the values they are bound to."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.target, node.iter


def read_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Sections and the attributes that are taken of them."""
    stands_for = {name: {name} for name in MODELS}
    nodes = list(ast.walk(tree))
    for node in nodes:
        for target, value in pairs(node):
            if isinstance(target, ast.Name) and names_of(value) in MODELS:
                stands_for[names_of(value)].add(target.id)
        if isinstance(node, ast.arg) and node.annotation:
            for section in SECTIONS.get(names_of(node.annotation), ()):
                stands_for[section].add(node.arg)
        if isinstance(node, ast.ClassDef):
            for section in SECTIONS.get(node.name, ()):
                yield from ((section, attribute) for attribute in taken_of({"self"}, ast.walk(node)))
    for section, names in stands_for.items():
        yield from ((section, attribute) for attribute in taken_of(names, nodes))


def taken_of(names: set[str], nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Attribute):
            base = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            if names_of(base) in names:
                yield node.attr


def test_every_key_is_read() -> None:
    read: set[tuple[str, str]] = set(DISPATCHED)
    for file in CHSINK.rglob("*.py"):
        if str(file.relative_to(CHSINK)) not in READS_NOTHING:
            read.update(read_in(ast.parse(file.read_text(encoding="utf-8"))))
    keys = {(section, name) for section, models in MODELS.items() for model in models for name in model.model_fields}

    assert keys - read == set()


def test_a_key_that_nothing_reads_is_noticed() -> None:
    tree = ast.parse("ch = config.clickhouse\nfor e in ch.endpoints:\n    use(e.url, config.trigger.mode)")

    assert set(read_in(tree)) == {("clickhouse", "endpoints"), ("endpoints", "url"), ("trigger", "mode")}
