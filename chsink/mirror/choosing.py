"""Which of a topic's records each of its tables takes (``table_by``).

The selecting values are read once for all tables that choose by the same field, header or key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.codec import Mask
from chsink.formats.table_by import MOST_NAMED, Choice
from chsink.formats.table_by_decoder import RecordChooser
from chsink.ports import BadValue

_Chosen = tuple[pa.RecordBatch, list[BadValue]]
"""The records of one table, and those of all records that no table takes, if this one reports them."""


class Choosing:
    """The tables of one topic, by name, each with its choice; None: it takes all records."""

    def __init__(self, choices: Mapping[str, Choice | None]) -> None:
        self._choosers = {table: RecordChooser(choice) for table, choice in choices.items() if choice is not None}

    def of(self, records: pa.RecordBatch) -> Divided:
        """These records, divided among the tables."""
        return Divided(self._choosers, records)


class Divided:
    """A batch of records.  Called with a table's name, it gives what that table takes."""

    def __init__(self, choosers: Mapping[str, RecordChooser], records: pa.RecordBatch) -> None:
        self._choosers, self._records = choosers, records
        self._read: dict[tuple[object, ...], _Said] = {}

    def __call__(self, table: str) -> _Chosen:
        chooser, records = self._choosers.get(table), self._records
        if chooser is None:
            return records, []
        said = self._said(chooser)
        mine = said.where(chooser.mine)
        own = records if mine.all() else records.filter(pa.array(mine))
        return own, chooser.of_no_table(said.values, said.unreadable)

    def missing(self) -> Iterator[tuple[str, str, pa.RecordBatch]]:
        """Tables that records name and that do not exist yet, each with a table of theirs that does, before it, and
        with its records.  No more tables than the largest ``max_tables`` and one.
        """
        for table, chooser in self._choosers.items():
            names = chooser.new_tables(self._said(chooser).values)
            for name in names.filter(names.is_valid()).unique().to_pylist()[: MOST_NAMED + 1]:
                yield table, name, self._records.filter(pc.equal(names, name))

    def _said(self, chooser: RecordChooser) -> _Said:
        if chooser.reads not in self._read:
            self._read[chooser.reads] = _Said(*chooser.said(self._records))
        return self._read[chooser.reads]


class _Said:
    """The selecting values of a batch, each different one once: tables are many, and values repeat."""

    def __init__(self, values: pa.Array, unreadable: dict[int, BadValue]) -> None:
        self.values, self.unreadable = values, unreadable
        encoded = values.dictionary_encode()
        assert isinstance(encoded, pa.DictionaryArray), encoded.type
        self._different = encoded.dictionary
        self._codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)

    def where(self, mine: Callable[[pa.Array], Mask]) -> Mask:
        """The records whose value is ``mine``."""
        found: Mask = np.append(mine(self._different), False)[self._codes]
        return found
