"""Whether a table can take dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from chsink.clickhouse.checks.tables import target_findings
from chsink.clickhouse.shards import RoutedTable, ShardTable
from chsink.dlq.letters import COLUMNS
from chsink.errors import preflight
from chsink.findings import Finding, Severity, found, passed


def letters_findings(place: ShardTable) -> Iterator[Finding]:
    """Whether the table can take dead letters, and deduplicates."""
    name, table = place.table.canonical, place.table
    kinds = {c.name: _plain(c.type) for c in table.insertable}
    missing = [column for column in COLUMNS if column not in kinds]
    wrong = [
        f"{c} is {kinds[c]}, not {_plain(kind)}"
        for c, kind in COLUMNS.items()
        if kinds.get(c, "") not in ("", _plain(kind))
    ]
    problem = f"it has no column {', '.join(missing)}" if missing else "; ".join(wrong)
    if problem:
        yield found(Severity.ERROR, preflight.DEAD_LETTERS_COLUMNS, table=name, url=place.url, problem=problem)
        return
    findings = [
        f for f in target_findings(RoutedTable("dead letters", name, (place,))) if f.severity is not Severity.OK
    ]
    yield from findings or [passed(preflight.DEAD_LETTERS_COLUMNS, table=name)]


def _plain(kind: str) -> str:
    """The type without what changes no value."""
    return kind.removeprefix("LowCardinality(").removesuffix(")") if kind.startswith("LowCardinality(") else kind
