"""The list of defects as a Markdown table: ``python -m tests.mutations.render``."""

from __future__ import annotations

import sys

from tests.mutations.defects import DEFECTS


def table() -> str:
    """Defect, where it is, what catches it."""
    lines = ["| defect | in | broken invariant | caught by |", "|---|---|---|---|"]
    for defect in DEFECTS:
        files = ", ".join(f"`{path}`" for path in dict.fromkeys(p.path for p in defect.patches))
        lines.append(f"| {defect.name} | {files} | `{defect.invariant}` | {defect.caught_by} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
