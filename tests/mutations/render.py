"""The list of defects as a Markdown table: ``python -m tests.mutations.render`` draws it in ``docs/simulator.md``."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mutations.every import DEFECTS
from tests.mutations.patching import ROOT, path_of

HEAD = "| defect | in | broken invariant | caught by |\n|---|---|---|---|\n"


def table() -> str:
    """Defect, where it is, what catches it."""
    lines = []
    for defect in DEFECTS:
        files = ", ".join(f"`{path}`" for path in dict.fromkeys(path_of(c.where) for c in defect.changes))
        broken = f"`{defect.invariant}`" if defect.invariant else "–"
        lines.append(f"| {defect.name} | {files} | {broken} | {defect.caught_by} |\n")
    return HEAD + "".join(lines)


def redraw(page: Path) -> None:
    """Replace the page's table.  AssertionError when there is not exactly one."""
    text, drawn = re.subn(re.escape(HEAD) + r"(\|.*\n)*", lambda _: table(), page.read_text(encoding="utf-8"))
    assert drawn == 1, page
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    redraw(ROOT / "docs" / "simulator.md")
