"""Finds the records that the parser might read differently from the reference, before they are parsed.

The parser accepts bytes that are not UTF-8, the tokens ``NaN`` and ``Inf`` as numbers, and any depth; a zero byte ends
its input.  None of that is valid here.  It also misreads decimals with large negative exponents.  The prefilter may
suspect too many records, never too few.
"""

from __future__ import annotations

import json
import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Mask, Suspects, merge, numpy_of
from chsink.decode.values import MAX_DEPTH, depth_of

_SPACE = b" \t\r\n"
_NAN, _INF = (b"N", b"aN"), (b"I", b"nf")
_BEFORE = np.zeros(256, np.bool_)
_BEFORE[list(b":,[- \t\r\n")] = True


def window(records: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """The offsets (from 0, one more than there are records) and the bytes of a binary array without nulls."""
    _, offsets_buffer, data = records.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[records.offset : records.offset + len(records) + 1]
    start, end = int(offsets[0]), int(offsets[-1])
    return offsets - start, np.frombuffer(data, np.uint8)[start:end] if data is not None else np.zeros(0, np.uint8)


def first_bytes(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The first byte of each record; an arbitrary byte for an empty record."""
    return data[np.minimum(offsets[:-1], len(data) - 1)] if len(data) else np.zeros(len(offsets) - 1, np.uint8)


def without_space(records: pa.Array) -> pa.Array:
    """The records without leading white space. May raise pa.ArrowInvalid if they are not UTF-8."""
    if not np.isin(first_bytes(*window(records)), list(_SPACE)).any():
        return records
    return pc.ascii_ltrim(records.cast(pa.string()), characters=_SPACE.decode()).cast(pa.binary())


def suspects_of(records: pa.Array) -> Suspects:
    """The records that the reference must decide.

    Raises pa.ArrowInvalid if any record is not UTF-8.
    """
    records.cast(pa.string())
    offsets, data = window(records)
    at = np.concatenate((np.flatnonzero(data == 0), _tokens(data, _NAN), _tokens(data, _INF)))
    # An object must begin with "{"; two bytes cannot hold a member.
    suspects: Mask = (first_bytes(offsets, data) != ord("{")) | (np.diff(offsets) <= 2)
    if len(at):
        suspects[np.searchsorted(offsets, at, side="right") - 1] = True
    return merge(suspects, _deep(records, offsets))


def decimal_suspects(records: pa.Array) -> Suspects:
    """Records with a negative exponent: the parser may scale a number with many decimal places wrongly."""
    offsets, data = window(records)
    hyphens = np.flatnonzero(data[1:] == ord("-"))
    at = hyphens[(data[hyphens] | 0x20) == ord("e")]
    if not len(at):
        return None
    rows = np.unique(np.searchsorted(offsets, at, side="right") - 1)
    suspects: Mask = np.zeros(len(records), np.bool_)
    suspects[rows] = numpy_of(pc.match_substring_regex(records.take(pa.array(rows)), _NEGATIVE_EXPONENT))
    return suspects if suspects.any() else None


_NEGATIVE_EXPONENT = r'[":,\[ \t\r\n][-+]?[0-9]*\.?[0-9]*[eE]-'


def _tokens(data: npt.NDArray[np.uint8], token: tuple[bytes, bytes]) -> npt.NDArray[np.intp]:
    """The positions of the three-letter token after a character that may precede a value."""
    at = np.flatnonzero(data == token[0][0])
    at = at[(at > 0) & (at < len(data) - 2)]
    if len(at):
        at = at[(data[at + 1] == token[1][0]) & (data[at + 2] == token[1][1])]
        at = at[_BEFORE[data[at - 1]]]
    return at


def _deep(records: pa.Array, offsets: npt.NDArray[np.int32]) -> Suspects:
    """Records nested deeper than allowed.  Examines only long records with many brackets."""
    long = np.flatnonzero(np.diff(offsets) > 2 * MAX_DEPTH)
    if not len(long):
        return None
    texts = records.take(pa.array(long))
    brackets = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    deep: Mask = np.zeros(len(records), np.bool_)
    for at in np.flatnonzero(numpy_of(brackets) > MAX_DEPTH).tolist():
        deep[long[at]] = depth_of(texts[at].as_py()) > MAX_DEPTH
    return deep


def maybe_repeated(records: pa.Array, name: str) -> Suspects:
    """Records that may have a field twice: its quoted name occurs more than once, or some key has an escape."""
    if not _is_plain(name):
        return np.ones(len(records), np.bool_)
    quoted = pc.count_substring(records, f'"{name}"')
    escaped = pc.match_substring_regex(records, _ESCAPED_NAME)
    bad = (numpy_of(quoted) > 1) | numpy_of(escaped)
    return bad if bad.any() else None


def maybe_quoted(records: pa.Array, name: str) -> Suspects:
    """Records that may have text in a field: its quoted name leads to a quote, or some key has an escape."""
    if not _is_plain(name):
        return np.ones(len(records), np.bool_)
    bad = numpy_of(
        pc.match_substring_regex(records, f'"{re.escape(name)}"[ \\t\\r\\n]*:[ \\t\\r\\n]*"|{_ESCAPED_NAME}')
    )
    return bad if bad.any() else None


def _is_plain(name: str) -> bool:
    """Whether a name is written without escapes."""
    return json.dumps(name, ensure_ascii=False) == f'"{name}"'


# An escape inside a possible key: a quoted text with a backslash, followed by a colon.
_ESCAPED_NAME = r'\\[^"]*"[ \t\r\n]*:'
