"""Records whose schema is stored elsewhere: they name it in Confluent's wire format, or all share one schema.

Confluent's wire format is a zero byte, the schema's id (four bytes, most significant first), then the message.

Rules:

* The records of one batch may have any number of schemas.  Each schema's records are decoded together.
* A registry that does not answer is an error of the job, never a bad value (:mod:`chsink.registry.client`).
* A wrong header is a bad value: no zero byte, an id that the registry does not know, or a schema of another kind (such
  as JSON instead of Avro).
* The schema of an id never changes, so the same bytes become the same row in every process at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chsink.decode.blocks import Rows
from chsink.decode.json_decoder import tombstone
from chsink.ports import BadValue
from chsink.registry.client import Registered, registry_of
from chsink.registry.settings import SchemaRegistry

HEADER: Final = 5
NO_HEADER: Final = "it does not begin with a zero byte and a schema id, as records of a Schema Registry do"
UNKNOWN: Final = "its schema id {} is not in the Schema Registry"
OTHER_KIND: Final = "its schema id {} belongs to a schema of type {}"
UNUSABLE: Final = "its schema (id {}) cannot be used: {}"


def live_rows(values: pa.Array, bad: list[BadValue]) -> tuple[pa.Array, Rows]:
    """The binary ``values`` that are neither null nor empty, and their rows.  The others are added to ``bad``."""
    lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    empty = np.flatnonzero(lengths == 0).tolist()
    bad.extend(BadValue(at, None, "the value is empty") if values[at].is_valid else tombstone(at) for at in empty)
    live = np.flatnonzero(lengths)
    return values if len(live) == len(values) else values.take(pa.array(live)), live


Parsed = TypeVar("Parsed")


class Schemas(Generic[Parsed]):
    """The parsed schema of each id.  ``parse`` is called once per schema id and reader of a process.  It raises
    ValueError for a schema that it cannot use.
    """

    def __init__(self, registry: SchemaRegistry, kind: str, parse: Callable[[Registered], Parsed]) -> None:
        self._registry = registry_of(registry)
        self._kind = kind
        self._parse = parse
        self._parsed: dict[int, Parsed | str] = {}

    def of(self, schema_id: int) -> Parsed | str:
        """The parsed schema, or the reason why it cannot be used (a str)."""
        if schema_id in self._parsed:
            return self._parsed[schema_id]
        registered = self._registry.schema(schema_id)
        if registered is None:
            return UNKNOWN.format(schema_id)
        if registered.kind != self._kind:
            made: Parsed | str = OTHER_KIND.format(schema_id, registered.kind)
        else:
            try:
                made = self._parse(registered)
            except ValueError as error:
                made = UNUSABLE.format(schema_id, error)
        self._parsed[schema_id] = made
        return made

    def split(self, values: pa.Array, rows: Rows, bad: list[BadValue]) -> Iterator[tuple[Parsed, pa.Array, Rows]]:
        """Groups the values by schema: the parsed schema, its values (with their headers) and their rows.

        Values without a usable schema are added to ``bad``.
        """
        ids = _ids(values)
        bad.extend(BadValue(int(row), None, NO_HEADER) for row in rows[ids < 0])
        for schema_id in np.unique(ids[ids >= 0]).tolist():
            parsed = self.of(schema_id)
            mine = np.flatnonzero(ids == schema_id)
            if isinstance(parsed, str):
                bad.extend(BadValue(int(row), None, parsed) for row in rows[mine])
            else:
                yield parsed, values if len(mine) == len(values) else values.take(pa.array(mine)), rows[mine]


def _ids(values: pa.Array) -> npt.NDArray[np.int64]:
    """The schema id of each value; -1 if it has no header."""
    if not len(values):
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2], np.uint8)
    headed = np.diff(offsets) >= HEADER
    start = np.where(headed, offsets[:-1], offsets[0])
    at = np.minimum(start[:, None] + np.arange(HEADER), len(data) - 1)
    header = data[at].astype(np.int64)
    ids: npt.NDArray[np.int64] = header[:, 1] << 24 | header[:, 2] << 16 | header[:, 3] << 8 | header[:, 4]
    return np.where(headed & (header[:, 0] == 0), ids, -1)
