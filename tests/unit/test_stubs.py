"""The stubs of pyarrow say only what the installed pyarrow has: names, parameters, defaults, and which test knows which
type.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from tests.conftest import CHECKOUT

STUBS = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in (CHECKOUT / "stubs/pyarrow").glob("*.pyi")}
Scope = ast.Module | ast.ClassDef
_ARROW: Any = pa  # with what the stubs leave out
TYPES: list[pa.DataType] = [
    pa.null(), pa.bool_(), pa.int8(), pa.float64(), pa.string(), pa.binary(), pa.binary(2), pa.date32(), pa.time32("s"),
    pa.time64("us"), pa.timestamp("us"), pa.duration("s"), pa.decimal128(9, 2), pa.decimal256(76, 2),
    pa.list_(pa.int8()), _ARROW.list_(pa.int8(), 2), pa.large_list(pa.int8()), pa.map_(pa.string(), pa.int8()),
    pa.struct([("a", pa.int8())]), pa.dense_union([pa.field("a", pa.int8())]),
    _ARROW.sparse_union([pa.field("a", pa.int8())]), _ARROW.dictionary(pa.int8(), pa.string()),
]  # fmt: skip


def runtime(stub: str) -> ModuleType:
    return importlib.import_module("pyarrow" if stub == "__init__" else f"pyarrow.{stub}")


def functions(scope: Scope) -> list[ast.FunctionDef]:
    return [node for node in scope.body if isinstance(node, ast.FunctionDef)]


def classes(module: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}


def decorators(function: ast.FunctionDef) -> set[str]:
    return {ast.unparse(one) for one in function.decorator_list}


def wrong_parameters(stub: ast.FunctionDef, there: Any) -> Iterator[str]:
    """A call that the stub allows, pyarrow must allow."""
    try:
        has = {name: one for name, one in inspect.signature(there).parameters.items() if name not in ("self", "cls")}
    except ValueError:
        return  # compiled, without its parameters
    said = stub.args
    ordered = [one.arg for one in (*said.posonlyargs, *said.args) if one.arg not in ("self", "cls")]
    in_order = [name for name, one in has.items() if one.kind <= one.POSITIONAL_OR_KEYWORD]
    if ordered != in_order[: len(ordered)]:
        yield f"parameters {ordered}, not {in_order}"
    named = {one.arg for one in (*said.args, *said.kwonlyargs)} - {"self", "cls"}
    yield from (f"{name} cannot be named" for name in named if name not in has or has[name].kind == 0)
    positions = (*said.posonlyargs, *said.args)
    given = dict(zip([one.arg for one in positions[len(positions) - len(said.defaults) :]], said.defaults, strict=True))
    given |= {one.arg: value for one, value in zip(said.kwonlyargs, said.kw_defaults, strict=True) if value is not None}
    for name, value in given.items():
        if name in has and has[name].default != ast.literal_eval(value):
            yield f"{name}={ast.unparse(value)}, not {has[name].default!r}"
    required = {one.arg for one in (*positions, *said.kwonlyargs)} - set(given)
    for name, one in has.items():
        if one.default is one.empty and one.kind in (0, 1, 3) and name not in required:
            yield f"{name} must be given"


def wrong_members(stub: ast.ClassDef, there: type, known: dict[str, ast.ClassDef]) -> Iterator[str]:
    for base in map(ast.unparse, stub.bases):
        if base.startswith("_"):
            yield from wrong_members(known[base], there, known)
        elif base not in {one.__name__ for one in there.__mro__}:
            yield f"{there.__name__} is no {base}"
    for member in functions(stub):
        name, said = f"{there.__name__}.{member.name}", decorators(member)
        if member.name == "__buffer__":  # of Python 3.12; an older one has no name for it
            memoryview(pa.py_buffer(b""))
            continue
        if not hasattr(there, member.name):
            yield f"{name} does not exist"
            continue
        has = inspect.getattr_static(there, member.name)
        if ("property" in said) == callable(getattr(there, member.name)):
            yield f"{name} is a property on one side only"
        elif "overload" not in said and "property" not in said and not member.name.startswith("__"):
            bound = getattr(there, member.name)
            if not said and isinstance(has, staticmethod | classmethod):
                yield f"{name} is not a method of an instance"
            yield from (f"{name}: {one}" for one in wrong_parameters(member, bound))


@pytest.mark.parametrize("name", sorted(STUBS))
def test_what_a_stub_says_is_there(name: str) -> None:
    module, known = runtime(name), classes(STUBS[name])
    wrong = [one for one in (*known, *(f.name for f in functions(STUBS[name]))) if not one.startswith("_")]
    wrong = [one for one in wrong if not hasattr(module, one)]
    for stub in known.values():
        if hasattr(module, stub.name):
            wrong += wrong_members(stub, getattr(module, stub.name), known)
    for function in functions(STUBS[name]):
        if "overload" not in decorators(function) and hasattr(module, function.name):
            wrong += [f"{function.name}: {one}" for one in wrong_parameters(function, getattr(module, function.name))]
    assert not wrong


def test_a_test_of_a_type_knows_exactly_the_types_of_its_class() -> None:
    told = {f.name: ast.unparse(f.returns) for f in functions(STUBS["types"]) if f.returns is not None}
    told = {name: said.removeprefix("TypeIs[").removesuffix("]") for name, said in told.items() if said != "bool"}
    assert len(told) > 5
    for name, said in told.items():
        kinds = tuple(getattr(pa, kind) for kind in said.split(" | "))
        assert [getattr(pa.types, name)(one) for one in TYPES] == [isinstance(one, kinds) for one in TYPES], name


def test_a_wrong_stub_is_found() -> None:
    module = ast.parse(
        "class Array:\n"
        "    def take(self, rows: object) -> Array: ...\n"
        "    def slice(self, offset: int = 1) -> Array: ...\n"
        "    def type(self) -> DataType: ...\n"
        "    def from_buffers(self) -> Array: ...\n"
        "    def gone(self) -> Array: ...\n"
    )
    stub = classes(module)["Array"]
    found = " / ".join(wrong_members(stub, pa.Array, {}))
    for one in ("rows cannot be named", "offset=1, not 0", "type is a property", "not a method", "gone does not exist"):
        assert one in found
