"""The statements of ``sql/``: an administrator and the code run the same files.

A file holds statements that each end in ``;`` at the end of a line, ``--`` comments on lines of their own, and
placeholders ``${name}``, which ``envsubst`` and this module fill alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from string import Template

TABLE = "1_state_table.sql"
VIEWS = "2_state_views.sql"
GRANTS = "3_state_grants.sql"
CHECKS = "4_state_checks.sql"


def statements(name: str, values: Mapping[str, str]) -> list[str]:
    """The file's statements without comments.  KeyError for a placeholder that has no value."""
    text = files("chsink").joinpath("sql", name).read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    filled = [Template(s.strip()).substitute(values) for s in f"{code}\n".split(";\n")]
    return [s for s in filled if s]
