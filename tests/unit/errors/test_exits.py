"""Each halt, and each refusal of ``chsink state``, has a test that reaches it, does what its fix says, and goes on: it is
marked with ``exit_of("ENTRY")``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from chsink.errors.catalogue import CATALOGUE
from chsink.errors.families import HaltError

TESTS = Path(__file__).parents[2]
WITHOUT = {
    "PLAN_SHRANK": "Spark's own source refuses such a plan first: SOURCE_MISSES_OFFSETS, with the same fix",
    "KEY_VALUE": "only a bug of a decoder leads there",
    "UNREADABLE_LAYOUT": "written by another version of chsink, which the fix says to run",
}
"""Halts that no test can reach through the services, and why."""


def marked() -> Iterator[tuple[str, str]]:
    """(entry, test) of each mark."""
    for folder in ("chaos", "contract", "integration", "unit"):
        for file in sorted((TESTS / folder).rglob("test_*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    yield from ((name, f"{file.name}::{node.name}") for name in _exits_of(node))


def _exits_of(test: ast.FunctionDef) -> Iterator[str]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.exit_of":
            [name] = mark.args
            assert isinstance(name, ast.Constant)
            yield str(name.value)


def test_each_halt_has_a_test_of_its_way_out() -> None:
    halts = {n for n, e in CATALOGUE.items() if issubclass(e.family, HaltError) or e.id.startswith("CHS-3")}
    tested = {name for name, _ in marked()}
    assert halts - tested == WITHOUT.keys()
    assert tested <= CATALOGUE.keys()
