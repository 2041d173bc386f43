"""``format = "csv"`` and ``"tsv"``: the record's value is one row of text fields.

**Rows cannot shift.**  Records are never joined: fields are found by the positions of delimiters and quotes in the
bytes of all records, and each position belongs to one record.  In a record, a delimiter separates fields if the number
of quotes before it is even.  This is correct for every row that RFC 4180 allows.  Any other record is rejected:

- its number of quotes is odd (a quote is never closed);
- it has a line break outside quotes, other than one at its end;
- a field contains a quote without being quoted as a whole, or a quote inside it is not doubled;
- it has more or fewer fields than there are columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.combine import gathered
from chsink.decode.conform import Conformer
from chsink.decode.fields import Field
from chsink.decode.prefilter import window
from chsink.decode.texts import StringCodec
from chsink.formats.raw_and_string import as_binary, checked_text
from chsink.formats.settings import Csv, Tsv
from chsink.ports import BadValue, Decoded

_Positions = npt.NDArray[np.int64]
LF, CR = 10, 13
UNCLOSED = "a quote that is never closed"
BREAK = "a line break outside quotes: a record is one row"
QUOTE = "a quote in a field that is not quoted, or not doubled inside one that is"
ESCAPE = "a backslash that begins no escape"
ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\b": "\b", "\\f": "\f", "\\'": "'"}


Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class SplitRows:
    """The records that could be split into fields: ``rows`` are their positions in the batch.

    ``texts`` alternates fields and the gaps between them, row by row.  ``quoted`` and ``doubled`` have the shape (rows,
    fields): whether a field is quoted, and whether it contains doubled quotes.
    """

    rows: _Positions
    texts: pa.Array
    quoted: npt.NDArray[np.bool_]
    doubled: npt.NDArray[np.bool_]

    def column(self, at: int, quote: str) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """The texts of the field ``at`` in all rows, with doubled quotes undone, and a mask of the quoted ones."""
        count = self.quoted.shape[1]
        texts = self.texts.take(pa.array(2 * (np.arange(len(self.rows)) * count + at)))
        doubled = self.doubled[:, at]
        if doubled.any():
            texts = pc.if_else(pa.array(doubled), pc.replace_substring(texts, 2 * quote, quote), texts)
        return texts, self.quoted[:, at]


class DelimitedReader:
    """:class:`chsink.formats.format_reader.FormatReader` of rows of text."""

    record_fields = ("value",)

    def __init__(self, settings: Csv | Tsv, fields: Sequence[Field]) -> None:
        self._columns, self._null = settings.columns, settings.null
        self._escapes = isinstance(settings, Tsv)
        self._delimiter = ord("\t" if isinstance(settings, Tsv) else settings.delimiter)
        self._quote = None if isinstance(settings, Tsv) else ord(settings.quote)
        self._empty_is_text = {f.name for f in fields if f.null_reason and isinstance(f.codec, StringCodec)}
        self._conformer = Conformer(fields)

    def decode(self, records: pa.RecordBatch) -> Decoded:
        """See :class:`chsink.formats.format_reader.FormatReader`."""
        values, bad = checked_text(as_binary(records.column("value")))
        live = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        if bad:
            values = values.take(pa.array(live))
        split, reasons = self._split(values.cast(pa.binary()))
        bad += [BadValue(int(live[row]), None, reason) for row, reason in reasons.items()]
        columns, wrong = self._texts(split)
        if wrong.any():
            bad += [BadValue(int(live[split.rows[at]]), None, ESCAPE) for at in np.flatnonzero(wrong)]
            columns = {name: texts.filter(pa.array(~wrong)) for name, texts in columns.items()}
        decoded = self._conformer.conform(pa.RecordBatch.from_pydict(columns))
        return gathered(records.num_rows, [(live[split.rows[~wrong]], decoded)], bad)

    def _texts(self, split: SplitRows) -> tuple[dict[str, pa.Array], npt.NDArray[np.bool_]]:
        """The texts of each column, nulls applied, and a mask of the rows with an invalid escape."""
        wrong = np.zeros(len(split.rows), np.bool_)
        columns = {}
        for at, name in enumerate(self._columns):
            texts, quoted = split.column(at, chr(self._quote or 0))
            null = pc.and_(pc.equal(texts, self._null), pa.array(~quoted))
            if self._null == "" and name in self._empty_is_text:
                null = pa.array(np.zeros(len(texts), np.bool_))
            if self._escapes:
                texts, broken = unescaped(texts)
                wrong |= broken & ~null.to_numpy(zero_copy_only=False)
            if name:
                columns[name] = pc.if_else(null, pa.scalar(None, pa.string()), texts)
        return columns, wrong

    def _split(self, values: pa.Array) -> tuple[SplitRows, dict[int, str]]:
        """Splits the values into fields.  Returns the well-formed rows, and the reason for each other row."""
        offsets, data = window(values)
        start, count = offsets[:-1].astype(np.int64), len(self._columns)
        end = _without_break(offsets[1:].astype(np.int64), start, data)
        quotes = np.flatnonzero(data == self._quote) if self._quote is not None else np.zeros(0, np.int64)
        separators = self._outside(np.flatnonzero(data == self._delimiter), quotes, offsets)
        reasons: dict[int, str] = {}
        number = np.bincount(_row_of(separators, offsets), minlength=len(start)) + 1
        for row in np.flatnonzero(number != count).tolist():
            reasons[row] = f"{number[row]} field{'s' * int(number[row] > 1)} instead of {count}"
        breaks = self._outside(np.flatnonzero((data == LF) | (data == CR)), quotes, offsets)
        of_break = _row_of(breaks, offsets)
        reasons.update(dict.fromkeys(of_break[breaks < end[of_break]].tolist(), BREAK))
        odd = np.flatnonzero(np.bincount(_row_of(quotes, offsets), minlength=len(start)) % 2)
        reasons.update(dict.fromkeys(odd.tolist(), UNCLOSED))
        rows = np.delete(np.arange(len(start)), list(reasons))
        inner = separators[np.isin(_row_of(separators, offsets), rows)].reshape(len(rows), count - 1)
        first = np.concatenate((start[rows, None], inner + 1), axis=1)
        last = np.concatenate((inner, end[rows, None]), axis=1)
        return self._quoted(rows, first, last, quotes, data, reasons)

    def _quoted(  # noqa: PLR0917 - all that is known of the rows
        self,
        rows: _Positions,
        first: _Positions,
        last: _Positions,
        quotes: _Positions,
        data: Bytes,
        reasons: dict[int, str],
    ) -> tuple[SplitRows, dict[int, str]]:
        """Removes the quotes around fields.  Rows with a misplaced quote get a reason instead."""
        number, wrong = _quotes_of(first, last, quotes)
        bad = wrong.any(axis=1)
        reasons.update(dict.fromkeys(rows[bad].tolist(), QUOTE))
        rows, first, last, number = rows[~bad], first[~bad], last[~bad], number[~bad]
        quoted = number > 0
        bounds = np.stack((first + quoted, last - quoted), axis=-1).reshape(-1).astype(np.int32)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
        texts = pa.Array.from_buffers(pa.string(), max(0, len(bounds) - 1), buffers)
        return SplitRows(rows, texts, quoted, number > 2), reasons

    def _outside(self, positions: _Positions, quotes: _Positions, offsets: npt.NDArray[np.int32]) -> _Positions:
        """The given positions that are outside quotes."""
        if not len(quotes):
            return positions
        of_record = np.searchsorted(quotes, offsets[_row_of(positions, offsets)])
        outside: _Positions = positions[(np.searchsorted(quotes, positions) - of_record) % 2 == 0]
        return outside


def _row_of(positions: _Positions, offsets: npt.NDArray[np.int32]) -> _Positions:
    """The record of each position."""
    rows: _Positions = np.searchsorted(offsets, positions, side="right") - 1
    return rows


def _without_break(end: _Positions, start: _Positions, data: Bytes) -> _Positions:
    """The ends of the records, moved before a final line break (LF or CR LF)."""
    if not len(data):
        return end
    broken = (end > start) & (data[np.maximum(end - 1, 0)] == LF)
    end = end - broken
    shorter: _Positions = end - (broken & (end > start) & (data[np.maximum(end - 1, 0)] == CR))
    return shorter


def _quotes_of(first: _Positions, last: _Positions, quotes: _Positions) -> tuple[_Positions, npt.NDArray[np.bool_]]:
    """For each row and field: its number of quotes, and whether any is misplaced."""
    number, wrong = np.zeros(first.size, np.int64), np.zeros(first.size, np.bool_)
    if len(quotes) and first.size:
        flat_first, flat_last = first.reshape(-1), last.reshape(-1)
        below, above = np.searchsorted(quotes, flat_first), np.searchsorted(quotes, flat_last)
        number = above - below
        has = np.flatnonzero(number)
        wrong[has] = (quotes[below[has]] != flat_first[has]) | (quotes[above[has] - 1] != flat_last[has] - 1)
        field = np.repeat(has, number[has])
        nth = np.arange(len(field)) - np.repeat(np.cumsum(number[has]) - number[has], number[has])
        here = quotes[below[field] + nth]
        inner = (nth % 2 == 1) & (nth < number[field] - 1)
        after = quotes[np.minimum(below[field] + nth + 1, len(quotes) - 1)]
        wrong[field[inner & (after != here + 1)]] = True
    return number.reshape(first.shape), wrong.reshape(first.shape)


def unescaped(texts: pa.Array) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The texts with backslash escapes replaced, and a mask of the texts with an invalid escape."""
    broken = np.zeros(len(texts), np.bool_)
    escaped = pc.match_substring(texts, "\\").to_numpy(zero_copy_only=False)
    if not escaped.any():
        return texts, broken
    at = np.flatnonzero(escaped)
    # Split at escaped backslashes, paired from the first of a run: no part between them contains one.
    pieces = pc.split_pattern(texts.take(pa.array(at)), "\\\\")
    assert isinstance(pieces, pa.ListArray), "of parts"
    parts = pieces.flatten()
    for written, meant in ESCAPES.items():
        parts = pc.replace_substring(parts, written, meant)
    left = pc.match_substring(parts, "\\").to_numpy(zero_copy_only=False)
    broken[at[np.unique(pc.list_parent_indices(pieces).to_numpy()[left])]] = True
    joined = pc.binary_join(pa.ListArray.from_arrays(pieces.offsets, parts), "\\")
    index = np.arange(len(texts))
    index[at] = len(texts) + np.arange(len(at))
    return pa.concat_arrays([texts, joined]).take(pa.array(index)), broken
