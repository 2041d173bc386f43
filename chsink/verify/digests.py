"""A row as sixteen bytes, made by the server for both sides: what the table holds, and what the records become.

The server reads decoded rows as an INSERT would, into the same column types, but they live only as long as the SELECT
that they travel with.  Each row, from either side, is written as ``RowBinary`` and hashed: equal digests are equal
values of every type, down to the bits of a Float64.  A type that holds JSON is taken as text, because its binary form
depends on the rows around it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tenacity import Retrying

from chsink.clickhouse.client import ClickHouseClient, ExternalTable
from chsink.clickhouse.retry import retrying
from chsink.clickhouse.writer import arrow_stream
from chsink.decode import INSERT_SETTINGS, Column
from chsink.decode.codec import Mask
from chsink.decode.insert import TEXTS_STAY, from_text, holds_json, with_text
from chsink.errors import ChsinkError, preflight
from chsink.notation import codes
from chsink.notation.sql import quote_identifier, quote_string, quote_table
from chsink.ports import Clock, ServerRefused
from chsink.refusals import asking_target
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.verify.compare import I64, Digests
from chsink.verify.content import BUCKETS

Group = tuple[int, ...]
"""Columns that are hashed together, by their position."""
WIDTH: Final = 16
MOST_ROWS_AT_AN_OFFSET: Final = 16
"""Read from a shard; more rows of one offset tell nothing new."""
_LOW: Final = "reinterpretAsUInt64(substring(h, 1, 8))"
ATTACHED: Final = "chsink_expected"
AT: Final = "at"

_TYPE_SETTINGS: Final = {
    "LowCardinality": "allow_suspicious_low_cardinality_types",
    "Variant": "allow_suspicious_variant_types",
    "Time": "enable_time_time64_type",
    "Time64": "enable_time_time64_type",
}
_WORD: Final = re.compile(r"\w+")
_ROWS: Final = (
    "_kafka_topic = {topic:String} AND _kafka_partition = {partition:Int64} "
    "AND _kafka_offset >= {start:Int64} AND _kafka_offset < {end:Int64}"
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """One shard's client, the name of the table there, and what else its rows are selected by (`` AND …``)."""

    client: ClickHouseClient
    table: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Digester:
    """Digests of rows in ``columns``, which are those that an INSERT names."""

    columns: tuple[Column, ...]
    clock: Clock
    retry_for_s: float

    def of_table(
        self,
        place: Place,
        tp: TopicPartition,
        offsets: OffsetRange,
        groups: Sequence[Group],
        only: Sequence[int] = (),
    ) -> tuple[I64, list[Digests]]:
        """Offset and digests per group of the rows that one shard holds of the offsets, in no order.

        ``only``: of these offsets alone, unless it is empty.
        """
        hashed = self._hashed([quote_identifier(c.name) for c in self.columns], groups)
        listed = f" AND _kafka_offset IN ({', '.join(map(str, only))})" if only else ""
        # No alias: ClickHouse would take it for a column of that name.
        sql = (
            f"SELECT toInt64(assumeNotNull(_kafka_offset)), {hashed} FROM {quote_table(place.table)} "
            f"WHERE {_ROWS}{place.where}{listed} LIMIT {MOST_ROWS_AT_AN_OFFSET} BY _kafka_offset FORMAT RowBinary"
        )
        which = {"topic": tp.topic, "partition": tp.partition, "start": offsets.start, "end": offsets.end}
        return _read(self.send(place.client, sql, which), len(groups))

    def of_rows(self, client: ClickHouseClient, batch: pa.RecordBatch, groups: Sequence[Group]) -> list[Digests]:
        """Digests per group of decoded rows (:class:`chsink.ports.Decoded`), in their order."""
        names = [f"c{at}" for at in range(len(self.columns))]
        rows = pa.array(np.arange(batch.num_rows), pa.int64())
        body = pa.RecordBatch.from_arrays([rows, *(batch.column(c.name) for c in self.columns)], names=[AT, *names])
        types = ", ".join(f"{name} {with_text(column.type)}" for name, column in zip(names, self.columns, strict=True))
        attached = ExternalTable(ATTACHED, f"{AT} Int64, {types}", arrow_stream(body).to_pybytes())
        values = [from_text(name, column.type) for name, column in zip(names, self.columns, strict=True)]
        sql = f"SELECT {AT}, {self._hashed(values, groups)} FROM {ATTACHED} FORMAT RowBinary"
        settings = {**INSERT_SETTINGS, **TEXTS_STAY, **self._types_allowed()}
        answer = self.send(client, sql, {}, settings, attached)
        at, digests = _read(answer, len(groups))
        assert len(at) == batch.num_rows, "every row comes back"
        order = np.argsort(at)
        return [one[order] for one in digests]

    def default_of(self, client: ClickHouseClient, at: int) -> Digests:
        """The digest (an array of one) of a column's default.  PreflightError CHS-293 if it is not the same for all
        rows.
        """
        column, one = self.columns[at], self._one(at)
        try:
            with asking_target():
                sql = f"SELECT toInt64(0), {one._default()} FORMAT RowBinary"
                answer = self._retrying(client)(client.fetch, sql, {}, one._types_allowed())
        except ChsinkError as error:
            if not isinstance(cause := error.__cause__, ServerRefused) or cause.code != codes.UNKNOWN_IDENTIFIER:
                raise
            raise preflight.VERIFY_DEFAULT_VARIES(column=column.name) from error
        return _read(answer, 1)[1][0]

    def filled_from(self, place: Place, tp: TopicPartition, at: int) -> int | None:
        """The first offset whose row on this shard has another value in the column than its default; None: no row."""
        one = self._one(at)
        filled = f"{one._hashed([quote_identifier(self.columns[at].name)], [one.all])} != {one._default()}"
        sql = (
            f"SELECT toInt64(min(assumeNotNull(_kafka_offset))), toInt64(count()) FROM {quote_table(place.table)} "
            f"WHERE {_ROWS}{place.where} AND {filled} FORMAT RowBinary"
        )
        which = {"topic": tp.topic, "partition": tp.partition, "start": 0, "end": np.iinfo(np.int64).max}
        answer = self.send(place.client, sql, which, one._types_allowed())
        first, rows = np.frombuffer(answer, "<i8").tolist()
        return int(first) if rows else None

    def _one(self, at: int) -> Digester:
        return replace(self, columns=(self.columns[at],))

    def _default(self) -> str:
        """The digest, in SQL, of the default of the only column."""
        [column] = self.columns
        value = column.default_expression or f"defaultValueOfTypeName({quote_string(column.type)})"
        return self._hashed([f"CAST({value} AS {column.type})"], [self.all])

    def sums(self, place: Place) -> tuple[I64, npt.NDArray[np.void]]:
        """Of all rows of one shard: the buckets that hold any, and for each how many and the sums of their digests."""
        sql = (
            f"SELECT toInt64(low % {BUCKETS}) AS bucket, toInt64(count()), sum(low), sum(high) FROM (SELECT h, "
            f"{_LOW} AS low, reinterpretAsUInt64(substring(h, 9, 8)) AS high FROM ({self._all(place)})) "
            "GROUP BY bucket FORMAT RowBinary"
        )
        row = np.dtype([(AT, "<i8"), ("rows", "<i8"), ("low", "<u8"), ("high", "<u8")])
        found = np.frombuffer(self.send(place.client, sql, {}), row)
        return found[AT].astype(np.int64), found

    def in_buckets(self, place: Place, buckets: I64) -> Digests:
        """The digests of one shard's rows that lie in these buckets."""
        listed = ", ".join(map(str, buckets.tolist()))
        sql = f"SELECT h FROM ({self._all(place)}) WHERE {_LOW} % {BUCKETS} IN ({listed}) FORMAT RowBinary"
        return np.frombuffer(self.send(place.client, sql, {}), f"V{WIDTH}")

    def _all(self, place: Place) -> str:
        hashed = self._hashed([quote_identifier(c.name) for c in self.columns], [self.all])
        return f"SELECT {hashed} AS h FROM {quote_table(place.table)}"

    @property
    def all(self) -> Group:
        """All columns together."""
        return tuple(range(len(self.columns)))

    def send(
        self,
        client: ClickHouseClient,
        sql: str,
        parameters: Mapping[str, object],
        settings: Mapping[str, object] | None = None,
        attached: ExternalTable | None = None,
    ) -> bytes:
        """The answer to a SELECT, asked again while the server is away for a moment."""
        with asking_target():
            answer: bytes = self._retrying(client)(client.fetch, sql, parameters, settings, attached)
        return answer

    def _retrying(self, client: ClickHouseClient) -> Retrying:
        return retrying(self.clock, self.retry_for_s, f"a query at {client.url}")

    def _hashed(self, names: Sequence[str], groups: Sequence[Group]) -> str:
        texts = [
            f"toString({name})" if holds_json(column.type) else name
            for name, column in zip(names, self.columns, strict=True)
        ]
        rows = (", ".join(texts[at] for at in group) or "1" for group in groups)  # of no column: every row alike
        return ", ".join(f"sipHash128(formatRowNoNewline('RowBinary', {row}))" for row in rows)

    def _types_allowed(self) -> dict[str, int]:
        """A table may have been made with types that have to be allowed."""
        words = {word for column in self.columns for word in _WORD.findall(column.type)}
        return {setting: 1 for word, setting in _TYPE_SETTINGS.items() if word in words}


def groups_of(
    columns: Sequence[Column], batch: pa.RecordBatch, apart: Collection[int] = ()
) -> tuple[list[Group], list[Mask | None]]:
    """The columns to hash together; and for a column of which the server fills some cells with its DEFAULT, which rows
    have one of their own.  Such a column, and each one ``apart``, is a group of its own.
    """
    own = [own_cells(column, array) for column, array in zip(columns, batch.columns, strict=True)]
    together = tuple(at for at, cells in enumerate(own) if cells.all() and at not in apart)
    alone = [at for at in range(len(columns)) if at not in together]
    groups: list[Group] = [together] if together else []
    return [*groups, *((at,) for at in alone)], [*(None for _ in groups), *(own[at] for at in alone)]


def own_cells(column: Column, array: pa.Array) -> Mask:
    """Where the value is the record's own; elsewhere it is null, and the server evaluates the column's DEFAULT."""
    if not takes_defaults(column) or not array.null_count:
        return np.ones(len(array), np.bool_)
    own: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return own


def takes_defaults(column: Column) -> bool:
    """Whether a null that is inserted becomes the column's DEFAULT; an empty one is written by the decoder itself."""
    holds_null = column.type.startswith(("Nullable(", "LowCardinality(Nullable("))
    return column.has_default and not column.default_is_empty and not holds_null


def _read(answer: bytes, groups: int) -> tuple[I64, list[Digests]]:
    row = np.dtype([(AT, "<i8"), *((str(n), f"V{WIDTH}") for n in range(groups))])
    rows = np.frombuffer(answer, row)
    return rows[AT].astype(np.int64), [rows[str(n)] for n in range(groups)]
