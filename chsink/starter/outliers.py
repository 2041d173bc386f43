"""Columns that became text because of a few values: which, how many, and where the first one is.

A column of text holds any value, so no record ever fails to fit it, and nobody is told that nine in ten of its values
are numbers.  A number in quotes is one, too, where most of the others have none: a column of numbers takes it.  Only
records without a schema have such columns.  Values are never shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

import pyarrow as pa

from chsink.config import Config, Route
from chsink.decode.inferred import TEXT, narrowest, wider, widest_number
from chsink.errors import values
from chsink.findings import Finding, Severity, found
from chsink.formats.column_types import ALTERNATIVES
from chsink.formats.record_fields import Offered, offered_by
from chsink.formats.settings import Avro, Protobuf
from chsink.ports import Decoder
from chsink.starter.guess import ENOUGH
from chsink.starter.nested import trial

_Place = str
"""``topic-partition@offset``."""
QUOTED: Final = "number in quotes"
"""What is counted of it instead of TEXT."""
EXACT: Final = "; a Float64 keeps about 16 digits, so declare a Decimal for exact values"
"""Said of a column that would hold floats."""


@dataclass(slots=True)
class _Values:
    """The values of one field: where those of each type are."""

    places: dict[str, list[_Place]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        return {kind: len(places) for kind, places in self.places.items()}

    def add(self, kind: str, place: _Place) -> None:
        self.places.setdefault(kind, []).append(place)

    def numbers(self) -> str | None:
        """The type of the numbers, if they are half of the values or more, and there is text beside them."""
        kinds = sorted(kind for kind in self.places if _is_number(kind))
        many = 2 * sum(len(self.places[kind]) for kind in kinds) >= sum(self.counts.values())
        both = reduce(_wider, kinds, kinds[0]) if kinds and many and TEXT in self.places else TEXT
        return None if both == TEXT else both

    def quote(self, misfits: set[_Place]) -> None:
        """What is text and fits the numbers' type is a number in quotes."""
        texts = self.places.pop(TEXT)
        for place in texts:
            self.add(TEXT if place in misfits else QUOTED, place)

    def mostly(self) -> tuple[str, frozenset[str]] | None:
        """The type of a column for all values but a few, and the types of the values that it holds."""
        counts = self.counts
        for kind in sorted(counts.keys() - {TEXT, QUOTED}, key=lambda each: (-counts[each], each)):
            alike, both = {kind}, kind
            for each in sorted(counts, key=lambda each: (-counts[each], each)):
                if _wider(both, each) != TEXT:
                    alike, both = {*alike, each}, _wider(both, each)
            if sum(counts[each] for each in alike) >= ENOUGH * sum(counts.values()):
                return narrowest(both), frozenset(alike)
        return None


def outliers(
    config: Config, route: Route, columns: Mapping[str, str], records: Sequence[pa.RecordBatch]
) -> Iterator[Finding]:
    """A warning for each column of text whose values are of one other type, but for a tenth of them or fewer."""
    texts = {name for name, kind in columns.items() if kind == TEXT} - route.format.named
    offered = None if isinstance(route.format, Avro | Protobuf) else offered_by(route.format, ALTERNATIVES)
    if not texts or offered is None:
        return
    seen = _seen(offered, route.topic, texts, columns, records, times=config.tables.infer_times)
    table = config.table_of(route).canonical
    for name in sorted(seen):
        each = seen[name]
        if (numbers := each.numbers()) is not None:
            decoder = trial(config, route, {name: narrowest(numbers)})
            each.quote({place for batch in records for place in _misfits(decoder, route.topic, batch)})
        if (most := each.mostly()) is None:
            continue
        kind, alike = most
        others = [other for other in each.places if other not in alike]
        entry = values.TEXT_FOR_A_FEW if others else values.TEXT_FOR_QUOTES
        odd = [place for other in others or [QUOTED] for place in each.places.get(other, ())]
        if odd:
            place = {"topic": route.topic, "table": table, "column": name, "type": kind, "first": odd[0]}
            exact, total = EXACT if "Float64" in kind else "", sum(each.counts.values())
            yield found(Severity.WARNING, entry, count=len(odd), records=total, exact=exact, **place)


def _misfits(decoder: Decoder, topic: str, batch: pa.RecordBatch) -> Iterator[_Place]:
    """The records that do not fit."""
    places = _places(topic, batch)
    return (places[bad.row] for bad in decoder.decode(batch).bad)


def _places(topic: str, batch: pa.RecordBatch) -> list[_Place]:
    at = zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
    return [f"{topic}-{partition}@{offset}" for partition, offset in at]


def _seen(
    offered: Offered[str],
    topic: str,
    texts: set[str],
    columns: Mapping[str, str],
    records: Sequence[pa.RecordBatch],
    *,
    times: bool,
) -> dict[str, _Values]:
    """The values of each of the fields ``texts``, one record at a time."""
    known, seen = set(columns) - texts, {name: _Values() for name in texts}
    for batch in records:
        column = batch.column("value")
        for row, place in enumerate(_places(topic, batch)):
            for name, kind in offered.columns(column.slice(row, 1), known, times=times).items():
                if name in texts and kind is not None:
                    seen[name].add(kind, place)
    return seen


def _is_number(kinds: str) -> bool:
    return widest_number(kind := narrowest(kinds), kind) is not None


def _wider(one: str, other: str) -> str:
    """As for a column of all records; of two times, the finer one."""
    if QUOTED in {one, other}:
        number = other if one == QUOTED else one
        return number if _is_number(number) else TEXT
    if one.startswith("Nullable(DateTime64(") and other.startswith("Nullable(DateTime64("):
        return max(one, other)
    return wider(one, other)
