"""A table of dead letters as it is read again.

A dead letter that was replayed has a mark: a row of the same table with the same place in Kafka and the digest of the
record, under the sink's name for replays.  So whoever asks for the dead letters of a sink does not see marks, and
another record that came to lie at the same place has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from chsink.dlq import digest
from chsink.dlq.kept import KeptLetters, bytes_of
from chsink.dlq.place import LetterPlace, replay_sink
from chsink.dlq.where import Where
from chsink.notation.sql import quote_string
from chsink.ports import Queries, ResultRow
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord

_PLACE = "_kafka_topic, _kafka_partition, _kafka_offset, `table`"
_COLUMNS = (
    "_kafka_topic, toInt64(_kafka_partition), toInt64(_kafka_offset), `table`, column, error_id, reason, timestamp_ms, "
    "toInt32(timestamp_type)"
)
_RECORD = (
    "toJSONString(tuple(hex(key), isNull(key), hex(value), isNull(value), "
    "arrayMap(h -> (h.1, hex(h.2), isNull(h.2)), headers)))"
)
_NO_RECORD = "'[null,1,null,1,[]]'"
_SIZE = (
    "200 + ifNull(length(key), 0) + ifNull(length(value), 0) + "
    "arraySum(h -> length(h.1) + ifNull(length(h.2), 0), headers)"
)
_LIST, _DIGEST = "ifNull(headers[1].2, '')", "ifNull(headers[2].2, '')"
"""Of a mark: see :func:`chsink.dlq.marks.marks_of`."""


@dataclass(frozen=True, slots=True)
class LettersInTable:
    """The dead letters of one sink in ``table`` (quoted).  Errors are those of ``client``."""

    client: Queries
    table: str
    sink: str

    def read_from(self, client: Queries) -> Self:
        """The same, through another client."""
        return replace(self, client=client)

    def listed(self, where: Where, limit: int, *, whole: bool = False) -> list[KeptLetters]:
        """The first of them by topic, partition and offset; with ``whole``, with their records."""
        record = _RECORD if whole else _NO_RECORD
        sql = f"{_COLUMNS}, {self._replayed}, {record} FROM {self.table} WHERE {self._mine}"
        return self._kept(f"SELECT {sql}{where.sql(self._replayed)} ORDER BY {_PLACE} LIMIT {limit}")

    def by_reason(self, limit: int) -> list[tuple[str, str, str, int, int, int]]:
        """Table, column, error id, number, how many of these were replayed, and the newest timestamp in ms: the most
        frequent first.
        """
        sql = f"`table`, column, error_id, count(), countIf({self._replayed}), max(timestamp_ms) FROM {self.table}"
        rows = self.client.query(
            f"SELECT {sql} WHERE {self._mine} GROUP BY `table`, column, error_id ORDER BY count() DESC LIMIT {limit}"
        )
        return [(t, c, error, int(count), int(done), int(newest)) for t, c, error, count, done, newest in rows]

    def newest(self, each: int, limit: int, *, whole: bool = False) -> list[KeptLetters]:
        """The newest ``each`` of a table, column and error id, at most ``limit`` in all; with ``whole``, with their
        records.
        """
        sql = f"{_COLUMNS}, {self._replayed}, {_RECORD if whole else _NO_RECORD} FROM {self.table} WHERE {self._mine}"
        by = "`table`, column, error_id"
        return self._kept(f"SELECT {sql} ORDER BY timestamp_ms DESC, {_PLACE} LIMIT {each} BY {by} LIMIT {limit}")

    def open_places(self, where: Where, after: LetterPlace | None, limit: int) -> list[tuple[LetterPlace, int]]:
        """The first of those beyond ``after`` that were not replayed, each with about how many bytes it has."""
        beyond = "" if after is None else f" AND ({_PLACE}) > ({_literal(after)})"
        rows = self.client.query(
            f"SELECT {_PLACE}, sum({_SIZE}) FROM {self.table} WHERE {self._mine} AND NOT ({self._replayed}){beyond}"
            f"{where.sql(self._replayed)} GROUP BY {_PLACE} ORDER BY {_PLACE} LIMIT {limit}"
        )
        return [(LetterPlace(str(t), int(p), int(o), str(name)), int(size)) for t, p, o, name, size in rows]

    def letters(self, key: StateKey, offsets: Iterable[int], nonce: str = "") -> list[KeptLetters]:
        """The dead letters at these offsets, with their records, ascending, except those replayed by a list other than
        ``nonce``.
        """
        done = self._marked_by(f"{self._marks} AND {_LIST} != {quote_string(nonce)}")
        at = f"{self._of(key)} AND {offsets_in(offsets)}"
        return self._kept(
            f"SELECT {_COLUMNS}, 0, {_RECORD} FROM {self.table} WHERE {self._mine} AND {at} AND NOT ({done}) "
            "ORDER BY _kafka_offset, key, value, timestamp_ms"
        )

    def marked(self, key: StateKey, record: StateRecord) -> int:
        """How many dead letters of a list have its mark."""
        sql = f"SELECT uniqExact(_kafka_offset) FROM {self.table} WHERE {self.marks_at(key, record)}"
        [(count,)] = self.client.query(sql)
        return int(count)

    def marks_at(self, key: StateKey, record: StateRecord) -> str:
        """The condition of a list's marks."""
        at = f"{self._of(key)} AND {offsets_in(record.doubt.only)} AND {marks_of_list(record.life.nonce)}"
        return f"{self._marks} AND {at}"

    def held(self, key: StateKey, window: OffsetRange | None = None) -> dict[tuple[int, int], bool]:
        """By offset and short digest of the record: whether its dead letter was replayed."""
        at = "" if window is None else f" AND _kafka_offset >= {window.start} AND _kafka_offset < {window.end}"
        found = self.client.query(
            f"SELECT DISTINCT _kafka_offset, {digest.SQL}, {self._replayed} FROM {self.table} "
            f"WHERE {self._mine} AND {self._of(key)}{at}"
        )
        return {(int(offset), digest.short(record)): bool(done) for offset, record, done in found}

    @property
    def _mine(self) -> str:
        return f"sink = {quote_string(self.sink)}"

    @property
    def _marks(self) -> str:
        return f"sink = {quote_string(replay_sink(self.sink))}"

    @property
    def _replayed(self) -> str:
        return self._marked_by(self._marks)

    def _marked_by(self, marks: str) -> str:
        return f"({_PLACE}, {digest.SQL}) IN (SELECT {_PLACE}, {_DIGEST} FROM {self.table} WHERE {marks})"

    @staticmethod
    def _of(key: StateKey) -> str:
        return (
            f"_kafka_topic = {quote_string(key.topic)} AND _kafka_partition = {key.partition} "
            f"AND `table` = {quote_string(key.table)}"
        )

    def _kept(self, sql: str) -> list[KeptLetters]:
        return [_kept(row) for row in self.client.query(sql)]


def offsets_in(offsets: Iterable[int]) -> str:
    """The condition of these offsets."""
    return f"_kafka_offset IN ({','.join(map(str, offsets))})"


def marks_of_list(nonce: str) -> str:
    """The condition of a list's marks."""
    return f"{_LIST} = {quote_string(nonce)}"


def _literal(place: LetterPlace) -> str:
    return f"{quote_string(place.topic)}, {place.partition}, {place.offset}, {quote_string(place.table)}"


def _kept(row: ResultRow) -> KeptLetters:
    topic, partition, offset, table, column, error_id, reason, time_ms, time_type, replayed, record = row
    key, no_key, value, no_value, headers = json.loads(record)
    return KeptLetters(
        topic,
        partition,
        offset,
        table,
        column,
        error_id,
        reason,
        time_ms,
        time_type,
        bool(replayed),
        bytes_of(key, no_key),
        bytes_of(value, no_value),
        tuple((name, bytes_of(content, absent)) for name, content, absent in headers),
    )
