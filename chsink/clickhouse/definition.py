"""TTL, projections and settings of a table, read from the statement that made it.  No system table has them.

Rules:
- The server writes names that have other characters than letters, digits and underscores in backticks, and texts in
  single quotes.  What they contain is no clause: a comment may say anything.
- ``engine_full`` of ``system.tables`` is the statement from the engine to the SETTINGS, which come last.  The comment
  of the table is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from chsink.notation.sql import IN_BACKTICKS, IN_QUOTES

_QUOTED = re.compile(f"{IN_QUOTES}|{IN_BACKTICKS}", re.DOTALL)
_TTL = re.compile(r"\bTTL\b")
_SETTINGS = re.compile(r"\bSETTINGS\b")
_GROUPS = re.compile(r"\bGROUP BY\b")
_PROJECTION = re.compile(r"\bPROJECTION\b")


@dataclass(frozen=True, slots=True)
class Ttl:
    """What a table's TTL may do by itself.  A column that is named ``TTL`` and is part of a key counts as one."""

    removes_rows: bool = False
    changes_cells: bool = False

    def __bool__(self) -> bool:
        return self.removes_rows or self.changes_cells


def ttl_of(create_table_query: str, engine_full: str) -> Ttl:
    """Of the table, and of its columns."""
    engine = _QUOTED.sub("", engine_full)
    columns = _QUOTED.sub("", create_table_query).replace(engine, "")
    of_table = _TTL.search(engine) is not None
    return Ttl(of_table, _TTL.search(columns) is not None or (of_table and _GROUPS.search(engine) is not None))


def has_projections(create_table_query: str) -> bool:
    """Whether the table has any."""
    return _PROJECTION.search(_QUOTED.sub("", create_table_query)) is not None


def own_settings(engine_full: str, names: Collection[str]) -> dict[str, str]:
    """Those of the settings that the table itself has: integers, with a boolean as 1 or 0."""
    blank = _QUOTED.sub(lambda found: " " * len(found[0]), engine_full)
    clause = max((found.end() for found in _SETTINGS.finditer(blank)), default=len(blank))
    own = {}
    for name in names:
        given = re.compile(rf"\b{name} = ").search(blank, clause)
        value = re.compile(r"'?(\d+|true|false)\b").match(engine_full, given.end()) if given else None
        if value is not None:
            own[name] = {"true": "1", "false": "0"}.get(value[1], value[1])
    return own
