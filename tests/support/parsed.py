"""Source files as syntax trees, each parsed and walked once a process."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path


@cache
def parsed(file: Path) -> ast.Module:
    """The file's tree.  Nobody changes it."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(file: Path) -> Sequence[ast.AST]:
    """All of the file's nodes."""
    return tuple(ast.walk(parsed(file)))
