"""Dead letters: a record that fits no row has one, whole, where the configuration says so.

A record with a dead letter may have a row or not: it may fit since the table was changed, or somebody inserted what
they corrected.  If its dead letter was replayed, it has one.  Dead letters and marks of other records at the same
offset, such as those of an earlier topic of the same name, say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import fates_of, letters_topic
from chsink.clickhouse.replicas import current
from chsink.clickhouse.shards import ShardTable
from chsink.decode import Column
from chsink.dlq.digest import short_of
from chsink.dlq.fates import Fates
from chsink.dlq.letters import COLUMNS, letters_of
from chsink.dlq.table import LettersInTable
from chsink.driver.roles import Assignment
from chsink.kafka.exact import Part
from chsink.notation.sql import quote_identifier, quote_string, quote_table
from chsink.ports import BadValue
from chsink.refusals import asking_target
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey, StateRecord
from chsink.verify.compare import I64, Digests, Expected, Found, compare, joined
from chsink.verify.digests import Digester, Place
from chsink.verify.report import PartitionReport
from chsink.verify.topic_letters import LettersInTopic

COMPARED: Final = ("key", "value", "headers", "timestamp_ms", "timestamp_type")
"""The record itself; why it has no row may be worded differently by another version."""


Digested = tuple[I64, list[Digests]]
"""Offsets and digests of dead letters."""
_Held = Mapping[tuple[int, int], bool]
"""By offset and short digest of the record: whether its dead letter was replayed."""


@dataclass(frozen=True, slots=True, eq=False)
class Dead:
    """``expected``: what records are to have as dead letters.  Offsets of records that have a dead letter (``kept``),
    and of those whose dead letter was replayed.
    """

    expected: Expected
    kept: I64
    replayed: I64


@dataclass(frozen=True, slots=True)
class FoundLetters:
    """The dead letters of one topic-partition and table: ``found`` and ``held`` give those of a window.

    ``complete``: nothing was ever skipped, so each bad record has a dead letter.
    """

    found: Callable[[OffsetRange], Digested]
    held: Callable[[OffsetRange], _Held]
    client: ClickHouseClient
    digester: Digester
    fates: Fates
    assignment: Assignment
    complete: bool

    def expected(self, part: Part, rejected: Sequence[BadValue]) -> Dead:
        """What the records without a row become, and which records have a dead letter."""
        records, dead, held = part.records, self.fates.sort(rejected).dead, self.held(part.range)
        own = short_of(records, {offset for offset, _ in held}) & held.keys()
        kept, replayed = _ascending({o for o, _ in own}), _ascending({one[0] for one in own if held[one]})
        offsets = records.column("offset").to_numpy()[[bad.row for bad in dead]].astype(np.int64)
        digests = [np.empty(0, "V16")]
        if dead:
            batch = letters_of(records, dead, self.assignment)
            digests = self.digester.of_rows(self.client, batch, [self.digester.all])
        return Dead(Expected(offsets, np.zeros(len(offsets), np.int32), digests), kept, replayed)

    def check(
        self, report: PartitionReport, window: OffsetRange, expected: Expected, rows: I64, older_end: int
    ) -> None:
        """Report what differs within a window, whose table holds rows of the offsets ``rows``."""
        offsets, digests = self.found(window)
        expected = expected.part(window.start, window.end)
        found = compare(expected, Found(offsets, np.zeros(len(offsets), np.int32), digests), older_end)
        report.dead_letters += len(offsets)
        if self.complete:
            report.letter_missing.add(np.setdiff1d(found.missing, rows))
        report.letter_duplicated.add(found.duplicated)
        report.letter_different.add(found.different)


def joined_dead(parts: Sequence[Dead]) -> Dead:
    """Those of parts (at least one) of ascending offsets."""
    kept, replayed = [part.kept for part in parts], [part.replayed for part in parts]
    return Dead(joined([part.expected for part in parts]), np.concatenate(kept), np.concatenate(replayed))


def _ascending(offsets: set[int]) -> I64:
    return np.array(sorted(offsets), np.int64)


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
        held: Callable[[OffsetRange], _Held]
        if self._in_topic is not None:
            found = partial(self._in_topic.of, key, record.life.nonce)
            held = partial(self._in_topic.held, key, record.life.nonce)
        elif table is not None:
            which = f" AND sink = {quote_string(key.sink)} AND {quote_identifier('table')} = {quote_string(key.table)}"
            place = Place(self._kept(table), table.table.canonical, which)
            found = partial(self._in_table, place, key.topic_partition)
            held = partial(_held, place, key)
        else:
            return None
        return FoundLetters(
            found,
            held,
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


def _held(place: Place, key: StateKey, window: OffsetRange) -> _Held:
    letters = LettersInTable(place.client, quote_table(place.table), key.sink)
    with asking_target():
        return letters.held(key, window)
