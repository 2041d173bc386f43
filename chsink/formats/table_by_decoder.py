"""A decoder that decodes only the records that ``table_by`` assigns to its table, of all records of the topic.

Rules:
- A record of another table gives neither a row nor a bad value here.
- One table of the topic reports the records that no table takes as bad; the other tables ignore them.  With ``unknown =
  "ignore"``, it reports those that cannot be read: nobody knows what they name.
- The choice depends on the record alone.  It is vectorised: Python handles single records only to report them as bad.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Mask
from chsink.decode.combine import rows_of
from chsink.decode.field_paths import Places
from chsink.decode.fields import Field
from chsink.decode.json_decoder import FieldDecoder
from chsink.decode.texts import StringCodec
from chsink.formats.raw_and_string import as_binary
from chsink.formats.settings import names_of
from chsink.formats.table_by import Choice
from chsink.notation.table_template import VALUE, naming_values
from chsink.ports import BadValue, Decoded, Decoder
from chsink.statemachine.table import TABLE_BY

NOTHING: Final = "names no table: its {} is missing or null"
UNKNOWN: Final = "no table is configured for the value of its {}"
_SAID: Final = "said"


class RecordChooser:
    """Applies a choice to a batch: finds the selecting value of each record, and the records of the choice's table."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice

    @property
    def reads(self) -> tuple[object, ...]:
        """What :meth:`said` depends on, beside the records."""
        return self._choice.source, self._choice.name, self._choice.header

    def own(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records of the choice's table."""
        said, _ = self.said(records)
        return records.filter(pa.array(self.mine(said)))

    def mine(self, said: pa.Array) -> Mask:
        """A mask of the records of the choice's table, from the selecting values ``said``."""
        found, choice = _one_of(said, self._choice.values), self._choice
        if choice.patterns:
            found |= _matching(said, choice.patterns) & ~_one_of(said, choice.named)
        return found

    def of_no_table(self, said: pa.Array, unreadable: dict[int, BadValue]) -> list[BadValue]:
        """Bad values for the records that no table takes; empty if another table reports these."""
        if self._choice.known is None:
            return []
        if self._choice.ignores:
            return [unreadable[row] for row in sorted(unreadable)]
        bad = []
        known = self._known(said) | self.new_tables(said).is_valid().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~known).tolist():
            reason = UNKNOWN if said[row].is_valid else NOTHING
            bad.append(unreadable.get(row) or BadValue(row, None, reason.format(self._choice.words)))
        return bad

    def new_tables(self, said: pa.Array) -> pa.Array:
        """By record, the table that it names and that does not exist yet; null if it names none, or if another table
        reports these.
        """
        others = self._choice.others
        if not others:
            return pa.nulls(len(said), pa.string())
        naming = _matching(said, (naming_values(others),)) & ~self._known(said)
        value = pc.ascii_lower(pc.if_else(pa.array(naming), said, None).cast(pa.string()))
        before, after = others.split(VALUE)
        return pc.binary_join_element_wise(before, value, after, "")

    def _known(self, said: pa.Array) -> Mask:
        """A mask of the records that some table takes."""
        return _one_of(said, self._choice.known or ()) | _matching(said, self._choice.known_patterns)

    def said(self, records: pa.RecordBatch) -> tuple[pa.Array, dict[int, BadValue]]:
        """The selecting value of each record, as binary, null if it has none; and the unreadable records, by row."""
        column = records.column(self._choice.reads)
        if self._choice.source == "field":
            return self._in_json(as_binary(column))
        said = column if self._choice.source == "column" else last_headers(column, self._choice.name)
        if not (pa.types.is_binary(said.type) or pa.types.is_string(said.type)):
            said = pc.cast(said, pa.string())
        return as_binary(said), {}

    def _in_json(self, values: pa.Array) -> tuple[pa.Array, dict[int, BadValue]]:
        if self._choice.header:
            values = pc.binary_replace_slice(values, 0, self._choice.header, b"")
        decoded = self._reader.decode(values)
        said = decoded.batch.column(_SAID)
        if not decoded.bad:
            return said, {}
        at = np.full(len(values), -1)
        at[rows_of(decoded, len(values))] = np.arange(len(said))
        return said.take(pa.array(at, mask=at < 0)), {bad.row: bad for bad in decoded.bad}

    @cached_property
    def _reader(self) -> FieldDecoder:
        """Reads the selecting JSON field: a string as its text, any other value as its JSON text."""
        return FieldDecoder([Field(_SAID, StringCodec(), None)], Places((), {_SAID: names_of(self._choice.name)}))


@dataclass(frozen=True)
class ChosenRecords:
    """:class:`chsink.ports.Decoder` of the records that ``choice`` gives one table; ``decoder`` decodes them."""

    choice: Choice
    decoder: Decoder

    def __reduce__(self) -> tuple[object, ...]:
        return ChosenRecords, (self.choice, self.decoder)

    @cached_property
    def chooser(self) -> RecordChooser:
        """The chooser of ``choice``."""
        return RecordChooser(self.choice)

    @property
    def record_fields(self) -> tuple[str, ...]:
        """The columns that the table's decoder and the choice read."""
        return tuple(dict.fromkeys((*self.decoder.record_fields, self.choice.reads)))

    @property
    def filled(self) -> frozenset[str]:
        """See :class:`chsink.ports.Decoder`."""
        return self.decoder.filled

    def parts(self) -> tuple[tuple[str, object], ...]:
        """See :class:`chsink.ports.Decoder`."""
        return (*self.decoder.parts(), (TABLE_BY, self.choice.part()))

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.ports.Decoder`."""
        said, unreadable = self.chooser.said(records)
        mine = self.chooser.mine(said)
        if mine.all():
            return self.decoder.decode(records)
        decoded = self.decoder.decode(records.filter(pa.array(mine)))
        rows = np.flatnonzero(mine)
        bad = [replace(one, row=int(rows[one.row])) for one in decoded.bad]
        bad = sorted([*bad, *self.chooser.of_no_table(said, unreadable)], key=lambda one: one.row)
        origin = pa.array(rows[rows_of(decoded, len(rows))], pa.int64())
        others = records.num_rows - decoded.batch.num_rows - len(bad)
        return Decoded(decoded.batch, origin, bad, others)


def own_records(decoder: Decoder, records: pa.RecordBatch) -> pa.RecordBatch:
    """The records of the decoder's table: all records, unless it is a :class:`ChosenRecords`."""
    return decoder.chooser.own(records) if isinstance(decoder, ChosenRecords) else records


def last_headers(headers: pa.Array, name: str) -> pa.Array:
    """The value of each record's last header of this name, null where there is none.  ``headers``: lists of structs."""
    assert isinstance(headers, pa.ListArray), "headers are lists"
    structs = headers.flatten()
    assert isinstance(structs, pa.StructArray), "of structs"
    keys, values = structs.flatten()
    found = np.flatnonzero(pc.equal(keys, name).fill_null(False).to_numpy(zero_copy_only=False))
    of = pc.list_parent_indices(headers).to_numpy()[found]
    at = np.full(len(headers), -1)
    at[of] = found  # in ascending order, so the last header of a record wins
    return values.take(pa.array(at, mask=at < 0))


def _one_of(said: pa.Array, values: tuple[str, ...]) -> Mask:
    """A mask of the records whose selecting value is one of ``values``."""
    wanted = pa.array([value.encode() for value in values], pa.binary())
    return pc.is_in(said, value_set=wanted, skip_nulls=True).to_numpy(zero_copy_only=False)


def _matching(said: pa.Array, patterns: tuple[str, ...]) -> Mask:
    """A mask of the records whose whole selecting value matches one of ``patterns``."""
    found: Mask = np.zeros(len(said), np.bool_)
    for pattern in patterns:
        matches = pc.match_substring_regex(said, pattern=f"^(?:{pattern})$").fill_null(False)
        found |= matches.to_numpy(zero_copy_only=False)
    return found
