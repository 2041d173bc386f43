"""Decodes JSON records into the wire columns of a table.

:class:`JsonDecoder` cuts the records into blocks and reads each block the fast way (:mod:`chsink.decode.fast`).
A refused block is cut until its parts pass or are small leaves; the reference (:mod:`chsink.decode.exact`) decides each
leaf and each suspect row.  So a bad record costs a few more reads of its block, does not affect its neighbours, and the
outcome of a record depends on that record alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.blocks import Collected, Rows, blocks, spread
from chsink.decode.codec import Mask, Suspects, numpy_of
from chsink.decode.columns import Column
from chsink.decode.exact import ExactDecoder
from chsink.decode.fast import FastPlan
from chsink.decode.field_paths import PLAIN, Places
from chsink.decode.fields import Field, fields_of
from chsink.decode.refused_texts import Refused
from chsink.decode.values import Pairs
from chsink.ports import BadValue, Decoded

CUT_ROWS: Final = 1024
LEAF_ROWS: Final = 32
SKELETON_ROWS: Final = 64
SAMPLE_BYTES: Final = 1 << 20

_AT_ROW: Final = re.compile(r"in row (\d+)$")


def tombstone(row: int) -> BadValue:
    """The bad value for a record without a value."""
    return BadValue(row, None, "value is null (a tombstone)", tombstone=True)


class FieldDecoder:
    """Decodes Kafka values for these fields; ``places`` says where they are in a record."""

    def __init__(self, fields: Sequence[Field], places: Places = PLAIN) -> None:
        self._fields = tuple(fields)
        places = places.of([field.name for field in fields])
        self._places = places
        self._reference = ExactDecoder(self._fields, places)
        self._plan: FastPlan | None = None  # kept from one call to the next while it suits the records
        self.schema = pa.schema([pa.field(field.name, field.codec.wire) for field in self._fields])

    def decode(self, values: pa.Array) -> Decoded:
        """Decode ``values``, a ``pa.Array`` of binary, large_binary or string; null is a tombstone."""
        run = Collected(len(values))
        lengths = numpy_of(pc.binary_length(values))
        null = numpy_of(pc.is_null(values))
        for at in np.flatnonzero(lengths == 0).tolist():
            run.bad.append(tombstone(at) if null[at] else BadValue(at, None, "the value is empty"))
        live = np.flatnonzero(lengths)
        if len(live) != len(values):
            values, lengths = values.take(pa.array(live)), lengths[live]
        plan = self._plan or FastPlan(self._fields, self._sample(values, lengths), self._places)
        for start, end in blocks(lengths):
            records = values.slice(start, end - start).cast(pa.binary())
            self._block(run, plan, records, live[start:end])
        self._plan = plan if plan.suits and len(live) else None
        if not run.rows:
            run.add([field.codec.array([]) for field in self._fields], live[:0])
        return run.finish(self.schema)

    def _sample(self, values: pa.Array, lengths: npt.NDArray[Any]) -> list[Pairs]:
        """A sample of the records that fit."""
        sampled = spread(len(values), SKELETON_ROWS)
        sampled = sampled[np.cumsum(lengths[sampled]) <= SAMPLE_BYTES]
        records = values.take(pa.array(sampled)).cast(pa.binary()).to_pylist()
        return [fit for fit in map(self._reference.fit, records) if fit is not None]

    def _block(self, run: Collected, plan: FastPlan, records: pa.Array, rows: Rows) -> None:
        """Decode a block; if refused, cut it until the parts pass or are leaves."""
        todo = [(records, rows)]
        while todo:
            records, rows = todo.pop()
            if len(records) == 1:
                self._decide(run, records, rows)
                continue
            try:
                arrays, suspects = plan.run(records)
            except Refused as refusal:
                plan.misses()
                if len(records) <= LEAF_ROWS:
                    self._decide(run, records, rows)
                    continue
                if len(records) > CUT_ROWS and self._screened(run, plan, records, rows):
                    continue
                cuts = _cuts(len(records), str(refusal))
                todo.extend((records.slice(start, end - start), rows[start:end]) for start, end in reversed(cuts))
            else:
                self._take(run, records, rows, arrays, suspects)

    def _screened(self, run: Collected, plan: FastPlan, records: pa.Array, rows: Rows) -> bool:
        """Decode a refused block without the records that probably caused the refusal.  Returns whether it passed."""
        try:
            arrays, suspects = plan.run_screened(records)
        except Refused:
            return False
        self._take(run, records, rows, arrays, suspects)
        return True

    def _take(self, run: Collected, records: pa.Array, rows: Rows, arrays: list[pa.Array], suspects: Suspects) -> None:
        """Add the rows that passed; decide the suspects with the reference."""
        if suspects is None:
            run.add(arrays, rows)
            return
        run.add(arrays, rows[~suspects])
        self._decide(run, records.filter(pa.array(suspects)), rows[suspects])

    def _decide(self, run: Collected, records: pa.Array, rows: Rows) -> None:
        arrays, reasons = self._reference.decode(records.to_pylist())
        fits: Mask = np.ones(len(rows), np.bool_)
        fits[list(reasons)] = False
        run.add(arrays, rows[fits])
        run.bad.extend(BadValue(int(rows[at]), column, reason) for at, (column, reason) in reasons.items())


def _cuts(size: int, refusal: str) -> list[tuple[int, int]]:
    """Where to cut a refused block: evenly if large, else around the row that the parser names, else in halves."""
    if size > CUT_ROWS:
        return [(at, min(at + CUT_ROWS, size)) for at in range(0, size, CUT_ROWS)]
    named = _AT_ROW.search(refusal)
    cut = int(named[1]) if named else size // 2
    edges = [0, LEAF_ROWS, size] if cut < LEAF_ROWS or cut >= size else [0, cut, cut + 1 if named else cut, size]
    return [(start, end) for start, end in itertools.pairwise(edges) if start < end]


class JsonDecoder(FieldDecoder):
    """Decodes Kafka values for one ClickHouse table. Pickled as its arguments: building one takes well under a
    millisecond.

    ``timezone`` is the server's; it applies to times without offset in columns without time zone.  Raises ConfigError
    CHS-5xx for a table that cannot be written.
    """

    def __init__(self, columns: Sequence[Column], *, timezone: str) -> None:
        super().__init__(fields_of(columns, timezone))
        self._columns = tuple(columns)
        self._timezone = timezone

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._columns, self._timezone)


def _rebuild(columns: Sequence[Column], timezone: str) -> JsonDecoder:
    return JsonDecoder(columns, timezone=timezone)
