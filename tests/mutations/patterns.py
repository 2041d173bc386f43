"""Find code by what it says: patterns over the syntax tree, which know neither layout nor the names of variables.

A pattern is a Python expression in which

- a single capital letter is a *hole*: any expression, the same one wherever the letter is repeated;
- ``...`` is any expression, and among arguments or elements any number of them, keyword arguments, too;
- any other name is that name with or without something before it: ``insert(...)`` is ``self.client.insert(sql, body)``.

:func:`filled` puts what the holes stood for into new code.  There ``_`` is what the pattern found.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

Holes = dict[str, ast.AST]
Tree = TypeVar("Tree", bound=ast.AST)

_HOLE = re.compile(r"[A-Z]")
_PASSED_OVER = frozenset({"ctx", "kind", "type_comment"})


def parsed(pattern: str) -> ast.expr:
    """The pattern as a tree."""
    return ast.parse(pattern, mode="eval").body


def found(pattern: str, code: ast.AST) -> Iterator[tuple[ast.expr, Holes]]:
    """Every expression in the code that fits, with what its holes stand for."""
    wanted = parsed(pattern)
    for node in ast.walk(code):
        holes: Holes = {}
        if isinstance(node, ast.expr) and _fits(wanted, node, holes):
            yield node, holes


def filled(code: Tree, holes: Mapping[str, ast.AST]) -> Tree:
    """New code with the holes filled."""
    done: Tree = _Filler(holes).visit(code)
    return done


def names(code: ast.AST) -> set[str]:
    """All names in the code but those of holes."""
    said = {n.id for n in ast.walk(code) if isinstance(n, ast.Name) and not _HOLE.fullmatch(n.id)}
    return said | {n.attr for n in ast.walk(code) if isinstance(n, ast.Attribute)}


def variables(code: ast.AST, *, set_there: bool = False) -> set[str]:
    """The names in the code that stand for themselves: all, or only those that it sets."""
    said = {n.id for n in ast.walk(code) if isinstance(n, ast.Name) and (not set_there or isinstance(n.ctx, ast.Store))}
    return said | {n.arg for n in ast.walk(code) if isinstance(n, ast.arg)}


def _fits(wanted: object, there: object, holes: Holes) -> bool:
    match wanted, there:
        case ast.Constant(value=v), ast.expr() if v is ...:
            return True
        case ast.Name(id=name), ast.expr() if _HOLE.fullmatch(name):
            return ast.unparse(holes.setdefault(name, there)) == ast.unparse(there)
        case (ast.Name(id=name), ast.Name(id=said) | ast.Attribute(attr=said)):
            return name == said
        case ast.Call(), ast.Call():
            return _call_fits(wanted, there, holes)
        case list(), list():
            return _all_fit(wanted, there, holes)
        case ast.AST(), ast.AST():
            fields = [f for f in wanted._fields if f not in _PASSED_OVER]
            return type(wanted) is type(there) and all(
                _fits(getattr(wanted, f), getattr(there, f), holes) for f in fields
            )
    return type(wanted) is type(there) and wanted == there


def _call_fits(wanted: ast.Call, there: ast.Call, holes: Holes) -> bool:
    given = {k.arg: k.value for k in there.keywords}
    asked = {k.arg: k.value for k in wanted.keywords}
    return (
        _fits(wanted.func, there.func, holes)
        and _all_fit(wanted.args, there.args, holes)
        and (asked.keys() == given.keys() or (any(map(_is_any, wanted.args)) and asked.keys() <= given.keys()))
        and all(_fits(value, given[name], holes) for name, value in asked.items())
    )


def _all_fit(wanted: Sequence[object], there: Sequence[object], holes: Holes) -> bool:
    if not wanted or not there:
        return not there and all(map(_is_any, wanted))
    if not _is_any(wanted[0]):
        return _fits(wanted[0], there[0], holes) and _all_fit(wanted[1:], there[1:], holes)
    for skipped in range(len(there) + 1):
        tried = dict(holes)
        if _all_fit(wanted[1:], there[skipped:], tried):
            holes.update(tried)
            return True
    return False


def _is_any(wanted: object) -> bool:
    return isinstance(wanted, ast.Constant) and wanted.value is ...


class _Filler(ast.NodeTransformer):
    def __init__(self, holes: Mapping[str, ast.AST]) -> None:
        self.holes = holes

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """``_`` as a statement may stand for one."""
        whole = self.generic_visit(node)
        return node.value if isinstance(node.value, ast.stmt) else whole

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A hole becomes what it stood for, to be read or to be set as the hole is."""
        new = copy.deepcopy(self.holes.get(node.id, node))
        if hasattr(new, "ctx"):
            new.ctx = node.ctx
        return new
