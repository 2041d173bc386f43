"""Code that has a name, and what a pattern finds in it: one expression, statement or condition, or a clear error."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from tests.mutations.patterns import Holes, Tree, found, names, parsed, variables


class StaleError(ValueError):
    """What a defect changes is not there, or not only once."""


class Code:
    """A module, or what has this name in it: a class or function, a constant, or a row of one by its first argument."""

    def __init__(self, module: ast.Module, where: str, name: str = "") -> None:
        """``where`` is for errors; ``name`` is what of it is not the module's."""
        self.where = where
        self.node: Any = module
        for part in filter(None, name.split(".")):
            inner = [node for said, node in _members(self.node) if said == part]
            if len(inner) != 1:
                raise self.stale(
                    f"`{part}` is there {len(inner)} times", _near(part, {n for n, _ in _members(self.node)})
                )
            self.node = inner[0]
        self._parents = {child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)}
        self._known = {*dir(builtins), *(said for said, _ in _members(module)), *variables(self.node)}

    def stale(self, why: str, nearest: Collection[str] = ()) -> StaleError:
        """The error that says what to look at."""
        return StaleError(f"{self.where}: {why}" + (f"; nearest: {', '.join(nearest)}" if nearest else ""))

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of the class or function."""
        body: list[ast.stmt] = self.node.body
        return body

    def expression(self, pattern: str) -> tuple[ast.expr, Holes]:
        """The one that fits."""
        return self._one(pattern, lambda node: node)

    def statement(self, pattern: str) -> tuple[ast.stmt, Holes]:
        """The innermost one around what fits."""
        return self._one(pattern, self._statement)

    def condition(self, pattern: str) -> ast.expr:
        """The innermost one around what fits: of an ``if``, ``while`` or comprehension, of ``x if … else y``."""
        node: ast.expr = self._one(pattern, lambda node: self._climbed(node, _is_condition), " in a condition")[0]
        return node

    def leave_out(self, pattern: str) -> None:
        """Of the innermost list or tuple, ``and`` or ``or`` around what fits, the part that it is in."""
        part = self._one(pattern, lambda node: self._climbed(node, _is_part), " in a list, `and` or `or`")[0]
        whole = self._parents[part]
        self.put(part, [])
        if isinstance(whole, ast.BoolOp) and len(whole.values) == 1:
            self.put(whole, whole.values)

    def put(self, old: ast.AST, new: Sequence[ast.AST]) -> None:
        """In the place of the old node.  A block that would be empty passes."""
        parent = self._parents[old]
        for field, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, field, new[0])
            elif isinstance(value, list) and old in value:
                at = value.index(old)
                value[at : at + 1] = new or ([ast.Pass()] if isinstance(old, ast.stmt) and len(value) == 1 else [])
        for node in self.known(new):
            self._parents[node] = parent

    def known(self, new: Sequence[Tree]) -> Sequence[Tree]:
        """New code.  StaleError when it uses a name that means nothing there: it would fail, but not as the defect."""
        for name in sorted({name for node in new for name in variables(node)} - self._known):
            if not any(name in variables(node, set_there=True) for node in new):
                raise self.stale(f"nothing there is called `{name}`", _near(name, self._known))
        return new

    def only(self, what: str, there: Sequence[Any], nearest: Collection[str] = ()) -> Any:
        """The one of these.  StaleError unless there is one."""
        if not there:
            raise self.stale(f"nothing fits {what}", nearest)
        if len(there) > 1:
            lines = ", ".join(str(n) for n in sorted(node.lineno for node in there))
            raise self.stale(f"{what} fits {len(there)} times (lines {lines})")
        return there[0]

    def _one(self, pattern: str, around: Callable[[ast.expr], Any], place: str = "") -> tuple[Any, Holes]:
        """What is around everything that fits."""
        fitting = [(around(node), holes) for node, holes in found(pattern, self.node)]
        there = {node: holes for node, holes in reversed(fitting) if node is not None}
        node = self.only(f"`{pattern}`{place}", list(there), () if there else self._nearest(pattern))
        return node, there[node]

    def _statement(self, node: ast.expr) -> ast.stmt | None:
        at: ast.AST | None = node
        while at is not None and not isinstance(at, ast.stmt):
            at = self._parents.get(at)
        return at

    def _climbed(self, node: ast.AST, wanted: Callable[[ast.AST, ast.AST], bool]) -> ast.AST | None:
        while not isinstance(node, ast.stmt):
            if wanted(node, self._parents[node]):
                return node
            node = self._parents[node]
        return None

    def _nearest(self, pattern: str) -> list[str]:
        """Names that are nearly those of the pattern; where all are there, expressions that have most of them."""
        wanted, here = names(parsed(pattern)), names(self.node)
        near = [name for missing in sorted(wanted - here) for name in _near(missing, here)]
        alike = [n for n in ast.walk(self.node) if isinstance(n, type(parsed(pattern))) and names(n) & wanted]
        alike.sort(key=lambda n: (-len(names(n) & wanted), len(ast.unparse(n))))
        return near or [f"`{ast.unparse(n)}` (line {n.lineno})" for n in alike[:2]]


def _members(code: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What has a name right in this code, blocks included."""
    for child in ast.iter_child_nodes(code):
        match child:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, child
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, child
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) | ast.Name(ctx=ast.Store(), id=name):
                yield name, child
            case ast.alias(name=name, asname=alias):
                yield alias or name, child
            case _:
                yield from _members(child)


def _near(name: str, among: Collection[str]) -> list[str]:
    return get_close_matches(name, sorted(among), cutoff=0.4)


def _is_condition(node: ast.AST, parent: ast.AST) -> bool:
    match parent:
        case ast.If() | ast.While() | ast.IfExp():
            return parent.test is node
        case ast.comprehension():
            return node in parent.ifs
    return False


def _is_part(node: ast.AST, parent: ast.AST) -> bool:
    return isinstance(parent, ast.BoolOp) or (
        isinstance(parent, ast.List | ast.Tuple | ast.Set) and isinstance(node, ast.expr)
    )
