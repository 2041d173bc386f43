"""Import production modules with some of their text replaced: what a defect does to the code, and only in one process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Patch:
    """One change of one file.  The old text must be there exactly once, so that a defect never goes stale unnoticed."""

    path: str
    old: str
    new: str

    @property
    def module(self) -> str:
        """The module that the file makes; ``statemachine/`` is imported through ``chsink/statemachine``."""
        name = self.path.removesuffix(".py").replace("/", ".")
        return name if name.startswith("chsink.") else f"chsink.{name}"


def patched(patches: Sequence[Patch]) -> dict[str, str]:
    """The new text of every changed file.  ValueError when a patch does not fit."""
    texts: dict[str, str] = {}
    for patch in patches:
        text = texts.get(patch.path) or (ROOT / patch.path).read_text(encoding="utf-8")
        if text.count(patch.old) != 1:
            raise ValueError(f"{text.count(patch.old)} times in {patch.path}: {patch.old!r}")
        texts[patch.path] = text.replace(patch.old, patch.new)
    return texts


class _Loader(SourceFileLoader):
    """Compiles the changed text; never reads or writes byte code."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.text, self.path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    def __init__(self, texts: dict[str, tuple[str, str]]) -> None:
        self.texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.texts:
            return None
        file, text = self.texts[fullname]
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, file, text))


def install(patches: Sequence[Patch]) -> None:
    """From now on this process imports the changed modules.  None of them may have been imported yet."""
    texts = patched(patches)
    modules = {p.module: (str(ROOT / p.path), texts[p.path]) for p in patches}
    early = [name for name in modules if name in sys.modules]
    if early:
        raise ValueError(f"already imported: {', '.join(early)}")
    sys.meta_path.insert(0, _Finder(modules))
