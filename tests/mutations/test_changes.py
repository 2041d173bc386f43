"""What defects may change, and what is said when it is not there.  Nothing is run here: all defects are made in seconds."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import pytest

from tests.mutations.changes import (
    Change,
    added,
    always,
    answers,
    argument,
    becomes,
    constant,
    drop,
    instead,
    moved,
    never,
    without,
)
from tests.mutations.code import Code, StaleError
from tests.mutations.every import DEFECTS
from tests.mutations.patching import ROOT, install, patched, path_of

ROOMS = (ROOT / "chsink", ROOT / "statemachine")
CODE = '''
LIMIT: int = 3
TABLE = (
    Row("FIRST", "one", lambda x: x.a == 0 and x.b),
    Row("SECOND", "two", lambda x: x.a == 1),
)


class Sink:
    size: int = 5

    def land(self, batch, key):
        """Land it."""
        if not self.ready(batch):
            return None
        self.look(key, whole=True)
        with self.timed("insert"):
            sent = self.client.insert(batch, key, settings)
        for one in sent:
            self.store(one)
        names = [key.topic, self.held.nonce, 7]
        return [n for n in names if n is not None], sent and key.table and batch

    def end(self):
        def close():
            self.client.close()
        try:
            close()
        finally:
            self.stop()
'''


def changed(change: Change) -> str:
    """The lines that the change takes away and brings."""
    tree = ast.parse(CODE)
    before = ast.unparse(tree).splitlines()
    change.make(Code(tree, f"here.{change.where}", change.where))
    ast.parse(ast.unparse(tree))
    compile(ast.fix_missing_locations(tree), "here", "exec")
    after = ast.unparse(tree).splitlines()
    gone = [f"-{line.strip()}" for line in before if line not in after]
    come = [f"+{line.strip()}" for line in after if line not in before]
    return "\n".join(gone + come) or "\n".join(after)


def test_every_defect_fits() -> None:
    """New code names only what production code names: otherwise it would fail, but not as the defect."""
    said = {
        word for room in ROOMS for file in room.rglob("*.py") for word in re.findall(r"\w+", file.read_text("utf-8"))
    }
    stale = []
    for defect in DEFECTS:
        assert defect.changes, defect.name
        try:
            for module in patched(defect.changes).values():
                compile(ast.fix_missing_locations(module), defect.name, "exec")
                used = {node.attr for node in ast.walk(module) if isinstance(node, ast.Attribute)}
                stale += [f"{defect.name}: nothing is called `{name}`" for name in used - said]
        except StaleError as error:
            stale.append(f"{defect.name}: {error}")
    assert not stale, "\n".join(stale)


def test_a_statement_goes() -> None:
    assert changed(drop("Sink.land", "look(...)")) == "-self.look(key, whole=True)"
    assert changed(drop("Sink.land", "ready(...)")) == "-if not self.ready(batch):\n-return None"
    assert changed(drop("Sink.land", "store(...)")) == "-self.store(one)\n+pass"
    assert changed(drop("Sink.end", "client.close()")) == "-self.client.close()\n+pass"


def test_other_statements_take_its_place() -> None:
    wrapped = instead("Sink.land", "store(A)", "if A:\n    _\n    A.seen()")
    assert changed(wrapped) == "-self.store(one)\n+if one:\n+self.store(one)\n+one.seen()"


def test_a_statement_is_moved() -> None:
    for change in (
        moved("Sink.land", "look(...)", before="ready(...)"),
        moved("Sink.land", "look(...)", after="timed(...)"),
    ):
        lines = [line.strip() for line in changed(change).splitlines()]
        look, timed = lines.index("self.look(key, whole=True)"), lines.index("with self.timed('insert'):")
        assert (look < lines.index("if not self.ready(batch):")) if look < timed else look == timed + 2


def test_a_class_has_another_member() -> None:
    assert changed(added("Sink", "more: int = 0")) == "+more: int = 0"


def test_a_function_answers_at_once() -> None:
    said = changed(answers("Sink.land", "key"))
    assert said.startswith("-if not self.ready(batch):") and said.endswith("+return key") and "Land it" not in said


def test_the_condition_of_a_row_answers() -> None:
    assert "Row('SECOND', 'two', lambda x: False)" in changed(answers("TABLE.SECOND", "False"))


@pytest.mark.parametrize(("change", "value"), [(always, "True"), (never, "False")])
def test_a_condition_is_settled(change: Callable[[str, str], Change], value: str) -> None:
    assert changed(change("Sink.land", "ready(...)")) == f"-if not self.ready(batch):\n+if {value}:"
    assert f"for n in names if {value}]" in changed(change("Sink.land", "A is not None"))


def test_a_part_is_left_out() -> None:
    assert changed(without("Sink.land", "nonce")).endswith("+names = [key.topic, 7]")
    assert changed(without("Sink.land", "table")).endswith("sent and batch)")
    assert "Row('FIRST', 'one', lambda x: x.b)" in changed(without("TABLE.FIRST", "a == 0"))


def test_an_expression_becomes_another() -> None:
    assert (
        changed(becomes("Sink.land", "A is not None", "not A"))
        .splitlines()[-1]
        .startswith("+return ([n for n in names if not n]")
    )
    assert changed(becomes("Sink.land", "insert(...)", "_ or [key]")).endswith(
        "+sent = self.client.insert(batch, key, settings) or [key]"
    )
    assert changed(becomes("Sink.land", "insert(A, ..., B)", "self.look(B, A)")).endswith(
        "+sent = self.look(settings, batch)"
    )


def test_an_argument_has_another_value() -> None:
    assert changed(argument("Sink.land", "look", "whole", "not _")).endswith("+self.look(key, whole=not True)")
    assert changed(argument("Sink.land", "look", "again", "1")).endswith("+self.look(key, whole=True, again=1)")
    assert changed(argument("Sink.land", "insert(A, ...)", 2, "{**_, 1: A}")).endswith(
        "(batch, key, {**settings, 1: batch})"
    )


def test_a_constant_and_a_default_have_another_value() -> None:
    assert changed(constant("LIMIT", "4")) == "-LIMIT: int = 3\n+LIMIT: int = 4"
    assert changed(constant("Sink.size", "None")) == "-size: int = 5\n+size: int = None"


def test_patterns_know_no_names_of_variables_and_a_hole_is_one_thing() -> None:
    assert changed(becomes("Sink.land", "A and B.table and C", "A")).endswith("if n is not None], sent)")
    with pytest.raises(StaleError, match="nothing fits `A and A.table and B`"):
        changed(becomes("Sink.land", "A and A.table and B", "A"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop("Sink.lend", "look(...)"), r"here.Sink.lend: `lend` is there 0 times; nearest: end, land"),
        (drop("TABLE.THIRD", "a"), r"here.TABLE.THIRD: `THIRD` is there 0 times; nearest: .*FIRST"),
        (drop("Sink.land", "looks(...)"), r"here.Sink.land: nothing fits `looks\(...\)`; nearest: look"),
        (drop("Sink.land", "look()"), r"nothing fits `look\(\)`; nearest: `self.look\(key, whole=True\)` \(line 16\)"),
        (becomes("Sink.land", "key", "None"), r"`key` fits 4 times \(lines 16, 18, 21, 22\)"),
        (never("Sink.land", "store(...)"), r"nothing fits `store\(...\)` in a condition; nearest: `self.store\(one\)`"),
        (without("Sink.land", "store(...)"), r"nothing fits `store\(...\)` in a list, `and` or `or`"),
        (argument("Sink.land", "look", 1, "1"), r"`self.look\(key, whole=True\)` has no argument 1"),
        (
            becomes("Sink.land", "look(...)", "print(kay)"),
            r"here.Sink.land: nothing there is called `kay`; nearest: .*key",
        ),
        (answers("Sink.end", "key"), r"here.Sink.end: nothing there is called `key`"),
        (answers("TABLE", "False"), r"`lambda` fits 2 times \(lines 4, 5\)"),
    ],
)
def test_what_is_stale_says_what_is_there(change: Change, said: str) -> None:
    with pytest.raises(StaleError, match=said):
        changed(change)


def test_a_module_is_found_by_its_name() -> None:
    assert path_of("chsink.statemachine.tokens.piece_token") == "statemachine/tokens.py"
    assert path_of("chsink.clickhouse.writer.ShardWriter.insert") == "chsink/clickhouse/writer.py"
    with pytest.raises(StaleError, match=r"no such module; nearest: .*chsink\.statemachine\.tokens"):
        patched([drop("chsink.statemachine.token.piece_token", "x")])


def test_a_module_that_is_there_already_cannot_be_changed() -> None:
    import chsink.statemachine.tokens

    with pytest.raises(ValueError, match="already imported: chsink.statemachine.tokens"):
        install([constant(f"{chsink.statemachine.tokens.__name__}.TOKEN_VERSION", "3")])
