"""``python -m tests.house``: how much a reader has to hold.  ``tests/unit/test_house.py`` keeps each figure in its bound.

A bound is there to be lowered.  Whoever has to raise one says in the commit why the house needs more.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.parsed import parsed

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("chsink", "statemachine")
BOUNDS: Final = {
    "words of the glossary": 60,
    "names of public types that stand twice": 0,
    "imports in circles of folders": 0,
    "fields of the state record's core": 12,
    "production lines": 65_868,
}


@cache
def sources() -> list[tuple[Path, ast.Module]]:
    """Each file of production code, once: links are not followed."""
    every = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    own = [file for file in every if not any(folder.is_symlink() for folder in file.parents)]
    return [(file.relative_to(ROOT), parsed(file)) for file in own]


def room_of(file: Path) -> str:
    """The folder below the package; the package itself for files that lie in it."""
    return "/".join(file.parts[:2]) if len(file.parts) > 2 else file.parts[0]


def lines_by_room() -> Counter[str]:
    """Lines of production code."""
    rooms: Counter[str] = Counter()
    for file, _ in sources():
        rooms[room_of(file)] += len((ROOT / file).read_text(encoding="utf-8").splitlines())
    return rooms


def words() -> list[str]:
    """The headings of the glossary."""
    return re.findall(r"^### (.+)$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)


def types_twice() -> dict[str, list[str]]:
    """Names of public classes, and of other types that are named, that several files define."""
    files = defaultdict(list)
    for file, tree in sources():
        for name in filter(None, map(_type_defined, tree.body)):
            files[name].append(str(file))
    return {name: at for name, at in files.items() if len(at) > 1}


def _type_defined(node: ast.stmt) -> str | None:
    match node:
        case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(name)):
            pass
        case ast.Assign(targets=[ast.Name(name)], value=value) if not ast.unparse(value).startswith("TypeVar("):
            pass
        case _:
            return None
    return name if re.match("[A-Z]+[a-z]", name) else None


def circles() -> list[tuple[str, str]]:
    """Imports between folders, for type checkers too, that belong to a circle."""
    return in_circles({(folder_of(file), to) for file, tree in sources() for to in imported(tree)})


def in_circles(imports: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those that are left once whoever imports nobody, or is imported by nobody, is left out."""
    left = {(a, b) for a, b in imports if a != b}
    while True:
        importing, used = {a for a, _ in left}, {b for _, b in left}
        kept = {(a, b) for a, b in left if a in used and b in importing}
        if kept == left:
            return sorted(left)
        left = kept


def folder_of(file: Path) -> str:
    """As a dotted name, under which it is imported."""
    dotted = ".".join(file.parent.parts)
    return f"chsink.{dotted}" if dotted.startswith("statemachine") else dotted


def imported(tree: ast.Module) -> set[str]:
    """The folders of chsink that a file imports from; not chsink's own, whose files are single small things."""
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    modules += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    mine = [module for module in modules if module.startswith("chsink.")]
    folders = {m if (ROOT / m.replace(".", "/")).is_dir() else m.rpartition(".")[0] for m in mine}
    return folders - {"chsink"}  # it would be in a circle with every room


def fields_of_the_record() -> list[str]:
    """What the state record itself holds; a part with fields of its own counts once."""
    [record] = [
        node
        for file, tree in sources()
        if file.as_posix() == "statemachine/records.py"
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "StateRecord"
    ]
    return [ast.unparse(node.target) for node in record.body if isinstance(node, ast.AnnAssign)]


@cache
def figures() -> dict[str, int]:
    """The names are those of the bounds."""
    found = (words(), types_twice(), circles(), fields_of_the_record())
    counts = [*map(len, found), lines_by_room().total()]
    return dict(zip(BOUNDS, counts, strict=True))


def main() -> int:
    """Print all.  0: each figure is in its bound; 1: otherwise."""
    found = figures()
    for name, count in found.items():
        sys.stdout.write(f"{count:>7,} of {BOUNDS[name]:>6,}  {name}\n")
    for name, files in types_twice().items():
        sys.stdout.write(f"twice: {name} in {', '.join(files)}\n")
    for pair in circles():
        sys.stdout.write(f"circle: {' -> '.join(pair)}\n")
    for room, lines in lines_by_room().most_common():
        sys.stdout.write(f"{lines:>7,} lines  {room}\n")
    return int(any(count > BOUNDS[name] for name, count in found.items()))


if __name__ == "__main__":
    sys.exit(main())
