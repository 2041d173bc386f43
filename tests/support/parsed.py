"""Source files as syntax trees, each parsed once a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(file: Path) -> ast.Module:
    """The file's tree.  Nobody changes it."""
    return ast.parse(file.read_text(encoding="utf-8"))
