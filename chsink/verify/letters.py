"""Dead letters: a record that fits no row has one, whole, where the configuration says so.

An offset with a dead letter may have a row or not: the record may fit since the table was changed, or somebody inserted
what they corrected.  An offset whose dead letter was replayed has one; a mark of a record that lay there before says
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from chsink.batch.halts import asking_target
from chsink.batch.model import Assignment
from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import fates_of, letters_topic
from chsink.clickhouse.replicas import current
from chsink.clickhouse.shards import ShardTable
from chsink.decode import Column
from chsink.dlq.fates import Fates
from chsink.dlq.letters import COLUMNS, letters_of
from chsink.dlq.table import LettersInTable
from chsink.notation.sql import quote_identifier, quote_string, quote_table
from chsink.ports import BadValue
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.verify.compare import I64, Digests, Expected, Found, compare
from chsink.verify.digests import Digester, Place
from chsink.verify.report import PartitionReport
from chsink.verify.topic_letters import LettersInTopic

COMPARED: Final = ("key", "value", "headers", "timestamp_ms", "timestamp_type")
"""The record itself; why it has no row may be worded differently by another version."""


Digested = tuple[I64, list[Digests]]
"""Offsets and digests of dead letters."""


@dataclass(frozen=True, slots=True)
class FoundLetters:
    """The dead letters of one topic-partition and table: ``found`` gives those of a window, ``replayed`` the offsets of
    those that were replayed.

    ``complete``: nothing was ever skipped, so each bad record has a dead letter.
    """

    found: Callable[[OffsetRange], Digested]
    replayed: Callable[[OffsetRange], I64]
    client: ClickHouseClient
    digester: Digester
    fates: Fates
    assignment: Assignment
    complete: bool

    def expected(self, records: pa.RecordBatch, rejected: Sequence[BadValue]) -> Expected:
        """What the records without a row become."""
        dead = self.fates.sort(rejected).dead
        offsets = records.column("offset").to_numpy()[[bad.row for bad in dead]].astype(np.int64)
        digests = [np.empty(0, "V16")]
        if dead:
            batch = letters_of(records, dead, self.assignment)
            digests = self.digester.of_rows(self.client, batch, [self.digester.all])
        return Expected(offsets, np.zeros(len(offsets), np.int32), digests)

    def check(
        self, report: PartitionReport, window: OffsetRange, expected: Expected, rows: I64, older_end: int
    ) -> tuple[I64, I64]:
        """Report what differs within a window, whose table holds rows of the offsets ``rows``.  The offsets that have a
        dead letter, and those whose dead letter was replayed.
        """
        offsets, digests = self.found(window)
        found = compare(expected, Found(offsets, np.zeros(len(offsets), np.int32), digests), older_end)
        report.dead_letters += len(offsets)
        if self.complete:
            report.letter_missing.add(np.setdiff1d(found.missing, rows))
        report.letter_duplicated.add(found.duplicated)
        report.letter_different.add(found.different)
        return np.unique(offsets), self.replayed(window)


class LettersOfRun:
    """Where the dead letters of a job are, for one run."""

    def __init__(self, clickhouse: Cluster) -> None:
        columns = tuple(Column(name, COLUMNS[name]) for name in COMPARED)
        topic = letters_topic(clickhouse.config)
        self._clickhouse = clickhouse
        self._client = clickhouse.clients[0]
        self._reader: ClickHouseClient | None = None
        self._digester = Digester(columns, clickhouse.clock, clickhouse.config.clickhouse.retry_for_s)
        self._in_topic = None if topic is None else LettersInTopic(topic, self._client, self._digester)

    def of(self, key: StateKey, record: StateRecord) -> FoundLetters | None:
        """Those of a topic-partition and table; None where no record becomes a dead letter."""
        table = self._clickhouse.letters
        found: Callable[[OffsetRange], Digested]
        if self._in_topic is not None:
            found = partial(self._in_topic.of, key, record.life.nonce)
            replayed = partial(self._in_topic.replayed, key, record.life.nonce)
        elif table is not None:
            which = f" AND sink = {quote_string(key.sink)} AND {quote_identifier('table')} = {quote_string(key.table)}"
            place = Place(self._kept(table), table.table.canonical, which)
            found = partial(self._in_table, place, key.topic_partition)
            replayed = partial(_marked, place, key)
        else:
            return None
        return FoundLetters(
            found,
            replayed,
            self._client,
            self._digester,
            fates_of(self._clickhouse.config.errors),
            Assignment(key, record, "", 0),
            complete=not record.tally.skipped and not record.life.incarnation,
        )

    def _kept(self, table: ShardTable) -> ClickHouseClient:
        """The client of a replica that is current; the same for the whole run."""
        if self._reader is None:
            with asking_target():
                self._reader = current(self._client, table.table, self._clickhouse.clock)
        return self._reader

    def _in_table(self, place: Place, tp: TopicPartition, window: OffsetRange) -> Digested:
        return self._digester.of_table(place, tp, window, [self._digester.all])


def _marked(place: Place, key: StateKey, window: OffsetRange) -> I64:
    """The offsets of a window whose dead letters in the table are all replayed."""
    letters = LettersInTable(place.client, quote_table(place.table), key.sink)
    with asking_target():
        return np.array(sorted(letters.replayed(key, window)), np.int64)
