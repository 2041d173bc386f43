"""Each halt, what a start refuses or warns of, and each refusal of ``chsink state``, has a test that reaches it, does
what its fix says, and goes on: it is marked with ``exit_of("ENTRY")``.  It takes what it does out of the message.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from chsink.errors.catalogue import CATALOGUE
from chsink.errors.families import HaltError

TESTS = Path(__file__).parents[2]
WITHOUT = {
    "PLAN_SHRANK": "Spark's own source refuses such a plan first: SOURCE_MISSES_OFFSETS, with the same fix",
    "KEY_VALUE": "only a bug of a decoder leads there",
    "UNREADABLE_LAYOUT": "written by another version of chsink, which the fix says to run",
    "SERVER_OLD": "nobody can upgrade the engine in a test",
    "STATE_STORE_OVERWRITES": "no store that chsink can be given behaves so (tests/unit/state/test_checks.py fakes one)",
    "STATE_STORE_LIES": "as STATE_STORE_OVERWRITES",
    "NO_FILE_SYSTEM": "its jars have 500 MB; test_starts_others_run.py reaches it",
}
"""Entries whose way out no test can take, and why."""

TOLD = "tests.support.told"
PROSE = frozenset({"says", "fix_of"})
"""Functions of ``TOLD`` that take no command, option, setting or statement."""
STEPS_OF_A_PERSON = {
    "GAP": "its command is for a state from an older backup; the test goes the other way",
    "PASSED_OVER": "its command is for a state from an older backup; the test goes the other way",
    "TOPIC_IS_ANOTHER": "its command is for a copy of the job on another cluster; the test goes the other way",
    "MIRROR_CONNECTOR_FILE": "its command gives the table up; the test restores the file",
    "CHECKPOINT_BEFORE_RESET": "its command is for dead letters in a topic; nothing is in doubt in its test",
    "WINDOW_SHORT": "its command only looks; nothing is in doubt in its test",
}
"""Entries that name a command which no test of theirs takes, and why."""


@cache
def marked() -> Sequence[tuple[str, str, ast.FunctionDef]]:
    """(entry, module, test) of each mark."""
    found = []
    for folder in ("chaos", "contract", "integration", "replicated", "unit"):
        for file in sorted((TESTS / folder).rglob("test_*.py")):
            module = ".".join(file.relative_to(TESTS.parent).with_suffix("").parts)
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    found += [(name, module, node) for name in _exits_of(node)]
    return found


def _exits_of(test: ast.FunctionDef) -> Iterator[str]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.exit_of":
            [name] = mark.args
            assert isinstance(name, ast.Constant)
            yield str(name.value)


@cache
def takers(module: str, leaving: frozenset[str] = frozenset()) -> frozenset[str]:
    """The functions of a module of tests, imported ones too, that take something out of a message."""
    file = TESTS.parent / f"{module.replace('.', '/')}.py"
    body = ast.parse(file.read_text(encoding="utf-8")).body if file.is_file() else []
    own = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    if module == TOLD:
        return frozenset(own) - leaving
    found = frozenset(
        alias.asname or alias.name
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests.")
        for alias in node.names
        if alias.name in takers(node.module, leaving)
    )
    while more := {name for name, node in own.items() if found & called(node)} - found:
        found |= more
    return found


def called(function: ast.FunctionDef) -> set[str]:
    """The names of the functions that it calls."""
    return {n.func.id for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def test_each_halt_and_each_refusal_of_a_start_has_a_test_of_its_way_out() -> None:
    by_id = {n for n, e in CATALOGUE.items() if e.id.startswith(("CHS-2", "CHS-3"))}
    halts = by_id | {n for n, e in CATALOGUE.items() if issubclass(e.family, HaltError)}
    tested = {name for name, _, _ in marked()}
    assert halts - tested == WITHOUT.keys()
    assert tested <= CATALOGUE.keys()


def test_each_way_out_is_taken_out_of_the_message() -> None:
    assert not [f"{module}::{test.name}" for _, module, test in marked() if not called(test) & takers(module)]


def test_a_command_that_a_message_names_is_run_as_it_stands_there() -> None:
    named = {name for name, entry in CATALOGUE.items() if any(part in entry.hint for part in ("`chsink ", "{delete}"))}
    taken = {name for name, module, test in marked() if called(test) & takers(module, PROSE)}
    assert {name for name, _, _ in marked()} & named - taken == STEPS_OF_A_PERSON.keys()
