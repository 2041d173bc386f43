"""Import production modules with defects in them: only in one process, which has imported none of them before."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutations.changes import Change
from tests.mutations.code import Code, StaleError

ROOT = Path(__file__).parents[2]


def module_of(where: str) -> str:
    """The module that the dotted name begins with.  StaleError when there is none."""
    parts = where.split(".")
    for length in range(len(parts), 0, -1):
        if _file(".".join(parts[:length])).is_file():
            return ".".join(parts[:length])
    files = (p for room in ("chsink", "chsink/statemachine") for p in (ROOT / room).rglob("*.py"))
    modules = {".".join(p.relative_to(ROOT).with_suffix("").parts) for p in files}
    near = get_close_matches(where.rsplit(".", 1)[0], sorted(modules))
    raise StaleError(f"{where}: no such module; nearest: {', '.join(near)}")


def path_of(where: str) -> str:
    """The module's file.  ``statemachine/`` is imported through ``chsink/statemachine``."""
    return str(_file(module_of(where)).resolve().relative_to(ROOT.resolve()))


def patched(changes: Sequence[Change]) -> dict[str, ast.Module]:
    """The changed modules.  StaleError when a change does not fit."""
    trees: dict[str, ast.Module] = {}
    for change in changes:
        module = module_of(change.where)
        if module not in trees:
            trees[module] = ast.parse(_file(module).read_bytes())
        change.make(Code(trees[module], change.where, change.where[len(module) + 1 :]))
    return trees


def install(changes: Sequence[Change]) -> None:
    """From now on this process imports the changed modules.  None of them may have been imported yet."""
    trees = patched(changes)
    early = [name for name in trees if name in sys.modules]
    if early:
        raise ValueError(f"already imported: {', '.join(early)}")
    sys.meta_path.insert(0, _Finder(trees))


def _file(module: str) -> Path:
    return (ROOT / module.replace(".", "/")).with_suffix(".py")


class _Loader(SourceFileLoader):
    """Compiles the changed module; never reads or writes byte code."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self.tree = tree

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(ast.fix_missing_locations(self.tree), self.path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    def __init__(self, trees: dict[str, ast.Module]) -> None:
        self.trees = trees

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.trees:
            return None
        file = str(ROOT / path_of(fullname))
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, file, self.trees[fullname]))
