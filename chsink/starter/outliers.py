"""Columns that became text because of a few values: which, how many, and where the first one is.

A column of text holds any value, so no record ever fails to fit it, and nobody is told that nine in ten of its values
are numbers.  Only records without a schema have such columns.  Values are never shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa

from chsink.config import Config, Route
from chsink.decode.inferred import TEXT, widest_number
from chsink.errors import values
from chsink.findings import Finding, Severity, found
from chsink.formats.record_fields import Offered, offered_by
from chsink.formats.settings import Avro, Protobuf
from chsink.starter.guess import ENOUGH

Place = str
"""``topic-partition@offset``."""


@dataclass(slots=True)
class _Values:
    """The values of one field: how many have each type, and the first of each."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, Place] = field(default_factory=dict)

    def add(self, kind: str, place: Place) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.first.setdefault(kind, place)

    def mostly(self) -> tuple[str, frozenset[str]] | None:
        """The type of a column for all values but a few, and the types of the values that it holds."""
        for kind in sorted(self.counts, key=lambda each: -self.counts[each]):
            alike = frozenset(each for each in self.counts if _wider(kind, each) != TEXT)
            if kind != TEXT and sum(self.counts[each] for each in alike) >= ENOUGH * sum(self.counts.values()):
                return reduce(_wider, sorted(alike)), alike
        return None


def outliers(
    config: Config, route: Route, columns: Mapping[str, str], records: Iterable[pa.RecordBatch]
) -> Iterator[Finding]:
    """A warning for each column of text whose values are of one other type, but for a tenth of them or fewer."""
    texts = {name for name, kind in columns.items() if kind == TEXT} - route.format.named
    offered = None if isinstance(route.format, Avro | Protobuf) else offered_by(route.format)
    if not texts or offered is None:
        return
    seen = _seen(offered, route.topic, texts, columns, records, times=config.tables.infer_times)
    for name in sorted(seen):
        each = seen[name]
        if (most := each.mostly()) is None:
            continue
        kind, alike = most
        others = [other for other in each.counts if other not in alike]
        if others:
            yield found(
                Severity.WARNING,
                values.TEXT_FOR_A_FEW,
                topic=route.topic,
                table=config.table_of(route).canonical,
                column=name,
                type=kind,
                count=sum(each.counts[other] for other in others),
                records=sum(each.counts.values()),
                first=next(place for other, place in each.first.items() if other in others),
            )


def _seen(
    offered: Offered[str],
    topic: str,
    texts: set[str],
    columns: Mapping[str, str],
    records: Iterable[pa.RecordBatch],
    *,
    times: bool,
) -> dict[str, _Values]:
    """The values of each of the fields ``texts``, one record at a time."""
    known, seen = set(columns) - texts, {name: _Values() for name in texts}
    for batch in records:
        column = batch.column("value")
        at = zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
        for row, (partition, offset) in enumerate(at):
            for name, kind in offered.columns(column.slice(row, 1), known, times=times).items():
                if name in texts and kind is not None:
                    seen[name].add(kind, f"{topic}-{partition}@{offset}")
    return seen


def _wider(one: str, other: str) -> str:
    """As for a column of all records; of two times, the finer one."""
    if one.startswith("Nullable(DateTime64(") and other.startswith("Nullable(DateTime64("):
        return max(one, other)
    return widest_number(one, other) or (one if one == other else TEXT)
