"""Notes beside a proposed table: what became of nested fields and of numbers, and which fields got no column.

Objects of JSON become text, which holds any later object.  A note names the type that lets SQL query their members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from chsink.config import Config, Route
from chsink.decode.columns import Column
from chsink.decode.inferred import TEXT, Kinds
from chsink.formats.column_types import EMPTY, ClickHouseTypes
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched
from chsink.formats.record_fields import offered_by
from chsink.formats.settings import JsonFields
from chsink.notation.metadata_columns import is_column_name
from chsink.notation.sql import quote_identifier
from chsink.ports import Decoder

_MOST: Final = 50
"""Members of an object; if there are more, its keys are arbitrary."""
_NUMBER: Final = "Nullable(Decimal(76, 38))"
_UNCHOSEN: Final = "chsink chooses no column for its type in the schema (a record, message or union, for instance)"


class _Tuples(ClickHouseTypes):
    """Names a Tuple for objects of JSON, or a Map if a name can be no element's."""

    def kinds(self, *, times: bool) -> Kinds:
        return Kinds(times, objects=True)

    def of_json(self, kinds: Kinds, field: str = "") -> str | None:
        if kinds.seen == {"array"} and kinds.items and (item := self.of_json(kinds.items)):
            return f"Array({item.removesuffix(EMPTY)}){EMPTY}"
        if kinds.seen != {"object"}:
            return super().of_json(kinds, field)
        if not all(map(is_column_name, kinds.members)) or not 0 < len(kinds.members) <= _MOST:
            return "Map(String, Nullable(String))"
        types = {name: (self.of_json(each) or TEXT).removesuffix(EMPTY) for name, each in kinds.members.items()}
        return f"Tuple({', '.join(f'{quote_identifier(name)} {kind}' for name, kind in types.items())})"


def trial(config: Config, route: Route, columns: Mapping[str, str]) -> Decoder:
    """Decodes for a table of these columns, by name what follows it in a statement, and with a mark of deletions."""
    every = {**dict.fromkeys(route.format.named - columns.keys(), "UInt8"), **columns}
    parts = {name: declaration.partition(" DEFAULT ") for name, declaration in every.items()}
    declared = [Column(name, kind, mark.strip(), default) for name, (kind, mark, default) in parts.items()]
    shape = Untouched(config.kafka.isolation_level)
    return decoder_of(config.table_of(route).canonical, declared, "UTC", shape, route.format)


def nested_notes(
    config: Config, route: Route, columns: Mapping[str, str], records: Sequence[pa.RecordBatch]
) -> Iterator[str]:
    """Notes on the fields of these records (at least one batch) that have no column, or hold objects or numbers."""
    if (offered := offered_by(route.format, _Tuples())) is None:
        return
    values = pa.concat_arrays([batch.column("value") for batch in records])
    found = offered.columns(values, route.format.named, times=config.tables.infer_times)
    is_json = isinstance(route.format, JsonFields)

    def misfits(name: str, kind: str) -> int:
        decoder = trial(config, route, {name: kind})
        return sum(len(decoder.decode(batch).bad) for batch in records)

    numbers = [n for n in found if is_json and columns.get(n) == TEXT and misfits(n, _NUMBER) == misfits(n, TEXT)]
    for name, kind in found.items():
        if name not in columns:
            nothing = "the sample does not tell its type: nulls and empty arrays only" if is_json else _UNCHOSEN
            why = nothing if is_column_name(name) else "chsink makes no column of this name"
            yield f"field {name!r} is left out, because {why}; if you need it, add a column yourself"
        elif kind != columns[name] and kind is not None and name not in numbers:
            bad, as_text = misfits(name, kind), misfits(name, columns[name])
            fit = f"does not fit {bad - as_text} of {len(values)}" if bad > as_text else "fits all"
            as_map = "" if "Map(" in kind else "; as a Map if its keys are arbitrary"
            yield (
                f"column {name} holds objects as their JSON text. To query their members, declare it as {kind} "
                f"({fit} sampled records){as_map}; or as JSON (docs/how-to/nested-fields.md)"
            )
    if floats := [name for name in found if is_json and name in columns and "Float64" in (found[name] or "")]:
        yield f"a Float64 rounds to about 16 digits ({', '.join(floats)}); for money, declare a Decimal(P, S) instead"
    if numbers:
        yield (
            f"text that looks like numbers stays text ({', '.join(numbers)}); for amounts, declare a Decimal(P, S) or "
            "an integer type; codes such as 00501 would lose their zeros"
        )
