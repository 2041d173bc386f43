"""The tables in the docs that are drawn from the tests' cases, and from the list of grants: ``python -m
tests.support.pages docs`` writes them.

Each table is between two comments in its page, which name it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from chsink.clickhouse import grants
from tests.support import connect_cases, format_cases, letter_fields, type_cases

DRAWN: Mapping[str, Mapping[str, Callable[[], Iterable[str]]]] = {
    "formats.md": {"formats and types": format_cases.table, "Connect's types": connect_cases.table},
    "types.md": {"JSON values": type_cases.table},
    "dead-letters.md": {"fields": letter_fields.table},
    "deployment.md": {"grants": grants.page_table},
}


def drawn(page: str, present: str) -> str:
    """The text of a page with its tables drawn."""
    for name, table in DRAWN[page].items():
        begin, end = f"<!-- {name}: drawn by python -m tests.support.pages -->\n", f"<!-- end of {name} -->\n"
        before, begins, rest = present.partition(begin)
        _, ends, after = rest.partition(end)
        assert begins and ends, f"{page} has no place for {name}"
        lines = "\n".join(table())
        present = f"{before}{begin}\n{lines}\n\n{end}{after}"
    return present


def main(docs: Path) -> None:
    """Write the pages."""
    for page in DRAWN:
        path = docs / page
        path.write_text(drawn(page, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
