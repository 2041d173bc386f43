"""Notes beside a proposed table: what became of nested fields, and which fields got no column.

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
from chsink.notation.metadata_columns import is_column_name
from chsink.notation.sql import quote_identifier
from chsink.ports import Decoder

_MOST: Final = 50
"""Members of an object; if there are more, its keys are arbitrary."""


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
    """Decodes for the route's table as if it had these columns, by name what follows it in a statement."""
    parts = {name: declaration.partition(" DEFAULT ") for name, declaration in columns.items()}
    declared = [Column(name, kind, mark.strip(), default) for name, (kind, mark, default) in parts.items()]
    shape = Untouched(config.kafka.isolation_level)
    return decoder_of(config.table_of(route).canonical, declared, "UTC", shape, route.format)


def nested_notes(
    config: Config, route: Route, columns: Mapping[str, str], records: Sequence[pa.RecordBatch]
) -> Iterator[str]:
    """A note for each field of these records (at least one batch) that holds objects, or has none of the columns."""
    if (offered := offered_by(route.format, _Tuples())) is None:
        return
    values = pa.concat_arrays([batch.column("value") for batch in records])
    for name, kind in offered.columns(values, route.format.named, times=config.tables.infer_times).items():
        if name not in columns:
            other = "" if route.format.type == "json" else ", or a record, message or union"
            nothing = f"the sample does not tell its type: nulls and empty arrays only{other}"
            why = nothing if is_column_name(name) else "chsink makes no column of this name"
            yield f"field {name!r} is left out, because {why}; if you need it, add a column yourself"
        elif kind != columns[name] and kind is not None:
            decoders = [trial(config, route, {name: each}) for each in (kind, columns[name])]
            bad, as_text = [sum(len(decoder.decode(batch).bad) for batch in records) for decoder in decoders]
            of = sum(batch.num_rows for batch in records)
            fit = f"does not fit {bad - as_text} of {of}" if bad > as_text else "fits all"
            as_map = "" if "Map(" in kind else "; as a Map if its keys are arbitrary"
            yield (
                f"column {name} holds objects as their JSON text. To query their members, declare it as {kind} "
                f"({fit} sampled records){as_map}; or as JSON (docs/how-to/nested-fields.md)"
            )
