"""Which of a topic's records each of its tables takes (``table_by``).

The selecting values are read once for all tables that choose by the same field, header or key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from chsink.decode.codec import Mask
from chsink.formats.table_by import Choice
from chsink.formats.table_by_decoder import RecordChooser
from chsink.ports import BadValue

Chosen = tuple[pa.RecordBatch, list[BadValue]]
"""The records of one table, and those of all records that no table takes, if this one reports them."""


class Choosing:
    """The tables of one topic, by name, each with its choice; None: it takes all records."""

    def __init__(self, choices: Mapping[str, Choice | None]) -> None:
        self._choosers = {table: RecordChooser(choice) for table, choice in choices.items() if choice is not None}

    def of(self, records: pa.RecordBatch) -> Callable[[str], Chosen]:
        """What a table takes of these records, by its name."""
        read: dict[tuple[object, ...], _Said] = {}

        def chosen(table: str) -> Chosen:
            chooser = self._choosers.get(table)
            if chooser is None:
                return records, []
            said = read.get(chooser.reads)
            if said is None:
                said = read[chooser.reads] = _Said(*chooser.said(records))
            mine = said.where(chooser.mine)
            own = records if mine.all() else records.filter(pa.array(mine))
            return own, chooser.of_no_table(said.values, said.unreadable)

        return chosen


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
