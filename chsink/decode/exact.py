"""The reference path: decodes one record at a time, exactly. Every other path must agree with it.

Rules: :mod:`chsink.decode.field_paths` defines where fields are read; names match exactly; fields that the table lacks
are ignored; a field that the table has may occur once.  A Nested column ``n.a`` may occur as ``{"n.a": […]}``, ``{"n":
[{"a": …}, …]}`` or ``{"n": {"a": […]}}``, but only in one of these forms per record.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from chsink.decode.codec import WireValue
from chsink.decode.field_paths import PLAIN, Places
from chsink.decode.fields import LENGTHS, Field, groups_of
from chsink.decode.values import JsonValue, MisfitError, Pairs, RawNeededError, kind_of, members, parse_record, with_raw

Reason = tuple[str | None, str]  # column, reason


class ExactDecoder:
    """Decodes records for a table's fields."""

    def __init__(self, fields: Sequence[Field], places: Places = PLAIN) -> None:
        self._fields = fields
        self._places = places
        self._groups = groups_of(fields)
        self._known = {field.name for field in fields} | set(self._groups)
        self._members = {group: {fields[at].member for at in positions} for group, positions in self._groups.items()}

    def decode(self, records: Sequence[bytes]) -> tuple[list[pa.Array], dict[int, Reason]]:
        """Wire arrays, one per field, of the records that fit; and the reason for each other record."""
        rows: list[list[WireValue]] = []
        reasons: dict[int, Reason] = {}
        for at, record in enumerate(records):
            try:
                rows.append(self._row(record))
            except _FieldMisfitError as misfit:
                reasons[at] = (misfit.column, misfit.reason)
            except MisfitError as misfit:
                reasons[at] = (None, misfit.reason)
        arrays = []
        for at, field in enumerate(self._fields):
            array, _ = field.settle_nulls(field.codec.array([row[at] for row in rows]))
            arrays.append(array)
        return arrays, reasons

    def fit(self, record: bytes) -> Pairs | None:
        """The parsed record, with its text; None if it does not fit."""
        try:
            self._row(record)
            return Pairs(parse_record(record).items, record.decode())
        except (_FieldMisfitError, MisfitError):
            return None

    def _row(self, record: bytes) -> list[WireValue]:
        parsed = parse_record(record)
        try:
            return self._convert(parsed)
        except RawNeededError:
            again = with_raw(record)
            assert isinstance(again, Pairs), "what it was"
            return self._convert(again)

    def _convert(self, record: Pairs) -> list[WireValue]:
        found = self._places.view(record, self._known)
        row = []
        for field in self._fields:
            try:
                row.append(self._value(field, found))
            except MisfitError as misfit:
                raise _FieldMisfitError(field.name, misfit.reason) from None
        for group, positions in self._groups.items():
            if len({len(row[at] or ()) for at in positions}) > 1:
                raise _FieldMisfitError(group, LENGTHS)
        return row

    def _value(self, field: Field, found: dict[str, JsonValue]) -> WireValue:
        value = found.get(field.name)
        if field.group and found.get(field.group) is not None:
            value = self._nested(field, value, found[field.group])
        if value is not None:
            return field.codec.exact(value)
        if field.null_reason is not None:
            raise MisfitError(field.null_reason)
        return None

    def _nested(self, field: Field, direct: JsonValue, group: JsonValue) -> JsonValue:
        if direct is not None:
            raise MisfitError(f"given as {field.name} and inside {field.group} at once")
        known = self._members[field.group]
        if isinstance(group, Pairs):
            return members(group, known).get(field.member)
        if not isinstance(group, list):
            raise MisfitError(f"{kind_of(group)} in the Nested column {field.group}")
        objects = [one for one in group if isinstance(one, Pairs)]
        if len(objects) < len(group):
            raise MisfitError(f"the Nested column {field.group} holds values that are not objects")
        return [members(one, known).get(field.member) for one in objects]


class _FieldMisfitError(Exception):
    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.reason = reason
