"""What a deliberate defect may change, said by name: where, and what of it, but never how it is laid out.

``where`` is the dotted name of a function, class or constant, or of a row of a table by what the row calls itself:
``chsink.statemachine.table.TABLE.LOG_SHRANK``.  What is changed there is found by a pattern, which must fit once
(:mod:`tests.mutations.patterns`).  So a defect outlives most changes of the code around it, and does not go stale unseen.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from tests.mutations.code import Code
from tests.mutations.patterns import filled, parsed


@dataclass(frozen=True, slots=True)
class Change:
    """One change of production code."""

    where: str
    make: Callable[[Code], None]


def drop(where: str, what: str) -> Change:
    """The statement that holds ``what`` goes.  Held by the head of an ``if``, ``for`` or ``with``, all of it goes."""
    return instead(where, what, "")


def instead(where: str, what: str, source: str) -> Change:
    """Statements in the place of the one that holds ``what``, which is ``_`` in them."""

    def make(code: Code) -> None:
        old, holes = code.statement(what)
        code.put(old, filled(ast.parse(source), {**holes, "_": old}).body)

    return Change(where, make)


def moved(where: str, what: str, *, before: str = "", after: str = "") -> Change:
    """The statement that holds ``what`` comes right before or after the one that holds the other pattern."""

    def make(code: Code) -> None:
        old, other = code.statement(what)[0], code.statement(before or after)[0]
        code.put(old, [])
        code.put(other, [old, other] if before else [other, old])

    return Change(where, make)


def added(where: str, source: str) -> Change:
    """A class ends with these members, too."""
    return Change(where, lambda code: code.body.extend(code.known(ast.parse(source).body)))


def answers(where: str, value: str) -> Change:
    """A function returns this at once.  Of a row, or a constant: its condition, the one ``lambda`` in it, does."""

    def make(code: Code) -> None:
        (new,) = code.known([parsed(value)])
        if isinstance(code.node, ast.FunctionDef):
            code.body[:] = [*code.body[: ast.get_docstring(code.node) is not None], ast.Return(new)]
        else:
            code.only("`lambda`", [n for n in ast.walk(code.node) if isinstance(n, ast.Lambda)]).body = new

    return Change(where, make)


def never(where: str, what: str) -> Change:
    """The condition that holds ``what`` is never met: of ``if`` or ``while``, of a comprehension, of ``x if … else y``."""
    return Change(where, lambda code: code.put(code.condition(what), [ast.Constant(value=False)]))


def always(where: str, what: str) -> Change:
    """The condition that holds ``what`` is always met."""
    return Change(where, lambda code: code.put(code.condition(what), [ast.Constant(value=True)]))


def without(where: str, what: str) -> Change:
    """What holds it goes from its list or tuple, or from its ``and`` or ``or``."""
    return Change(where, lambda code: code.leave_out(what))


def becomes(where: str, what: str, expression: str) -> Change:
    """Another expression.  It may use the holes of ``what``, and ``_`` for all of it."""

    def make(code: Code) -> None:
        old, holes = code.expression(what)
        code.put(old, [filled(parsed(expression), {**holes, "_": old})])

    return Change(where, make)


def argument(where: str, call: str, name: str | int, value: str) -> Change:
    """One argument of a call, by its keyword or place, has another value, which may use the old one, as ``_``.

    ``call`` is the name of what is called, or a pattern.
    """

    def make(code: Code) -> None:
        node, holes = code.expression(f"{call}(...)" if call.isidentifier() else call)
        old = _argument(node, name)
        new = filled(parsed(value), holes if old is None else {**holes, "_": old})
        if old is not None:
            code.put(old, [new])
        elif isinstance(name, str) and isinstance(node, ast.Call):
            node.keywords.append(ast.keyword(name, *code.known([new])))
        else:
            raise code.stale(f"`{ast.unparse(node)}` has no argument {name}")

    return Change(where, make)


def constant(where: str, value: str) -> Change:
    """A constant, or the default of a field, has another value."""
    return Change(where, lambda code: code.put(code.node.value, [parsed(value)]))


def _argument(call: ast.expr, name: str | int) -> ast.expr | None:
    assert isinstance(call, ast.Call), ast.unparse(call)
    if isinstance(name, int):
        return call.args[name] if name < len(call.args) else None
    return next((k.value for k in call.keywords if k.arg == name), None)
