"""Sends one announced list: the rows of its records, then the marks of its dead letters.

What is sent depends on the recorded list, the recorded layout and the pipeline alone, so a list that is sent again is
the same pieces under the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from chsink import failpoints
from chsink.batch.reader import Chunk
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.dead_letters import TableLetters
from chsink.clickhouse.pieces import PieceLander, Prepared
from chsink.clickhouse.probe import only_of
from chsink.clickhouse.shards import InsertShard, ShardTable
from chsink.clickhouse.window import DedupWindow
from chsink.clickhouse.writer import ShardWriter
from chsink.decode import INSERT_SETTINGS
from chsink.dlq.kept import KeptLetters
from chsink.dlq.letters import Delivery
from chsink.dlq.marks import marks_of
from chsink.dlq.table import marks_of_list, offsets_in
from chsink.driver.roles import Assignment
from chsink.kafka.admin import KafkaAdmin
from chsink.replay.routes import LetterRoutes, records_of
from chsink.replay.source import LetterSource
from chsink.statemachine.parts import Mark
from chsink.statemachine.records import StateKey, StateRecord


class UnclearListError(Exception):
    """The records of a list can no longer be determined; the text says why."""


@dataclass(slots=True)
class ListSender:
    """``source`` has the dead letters of the job's sink.  Its marks go to ``marks``, or, without it, to the table that
    ``window`` knows as the place behind the shards.
    """

    clickhouse: Cluster
    kafka: KafkaAdmin
    routes: LetterRoutes
    source: LetterSource
    window: DedupWindow
    marks: Delivery | None = None
    _settings: dict[str, str | int] | None = None

    def land(self, key: StateKey, record: StateRecord, layout: str) -> tuple[str, ...]:
        """Insert the rows, then the marks.  Returns the views that may lack rows which the table already had; then no
        mark was sent.  Another replay may have sent the list meanwhile, or sent it again: what a mark says is there is
        looked for.  Raises UnclearListError, or ChsinkError.
        """
        letters = _one_each(self.source.letters(key, record.doubt.only, record.life.nonce), record)
        records = records_of(letters)
        alone = self.window.is_alone(record)
        assignment = Assignment(key, record, layout, self.window.deadline_ms(), again=True, alone=alone)
        shards = self.window.shards(key.table, record.sent.layout)
        writer = self._writer(key, record, shards, record.seen.marks)
        lander = PieceLander({key.topic_partition: assignment}, self._prepare, lambda _: writer, self.kafka)
        ack = lander(Chunk(key.topic_partition, 0, record.range, [records]))
        lander.finish()
        if not ack.unproven:
            self._mark(assignment, letters, writer, len(shards))
        return ack.unproven

    def mark(self, key: StateKey, record: StateRecord, mark: Mark | None) -> None:
        """Send the marks only, if they are not there; ``mark`` is what their table holds now.  Where dead letters of
        different records have one offset, none is marked: nobody knows which of them the list was for.
        """
        found = [o for o in self.source.letters(key, record.doubt.only, record.life.nonce) if not o.lists_deleted]
        each = [list(some) for _, some in groupby(found, key=lambda one: one.offset)]
        letters = [some[0] for some in each if len({one.digest for one in some}) == 1]
        deadline_ms = self.clickhouse.clock.now_ms() + round(self.clickhouse.config.clickhouse.retry_for_s * 1000)
        writer = self._writer(key, record, (), () if mark is None else (mark,))
        self._mark(Assignment(key, record, "", deadline_ms), letters, writer, 0)

    def _mark(self, assignment: Assignment, letters: Sequence[KeptLetters], writer: ShardWriter, place: int) -> None:
        marks = self.marks or TableLetters(writer, place)
        if letters:
            marks.deliver(assignment, 0, assignment.range, marks_of(assignment, letters))
        failpoints.reach("task.after_dead_letters")

    def _prepare(self, records: pa.RecordBatch, assignment: Assignment) -> Prepared:
        record = assignment.record
        layout = record.sent.layout, assignment.layout
        prepared, with_row = self.routes.prepare(assignment.key.topic_table, records, layout, record.sent.pipeline)
        if not prepared.rejected and len(with_row) < records.num_rows:  # what is rejected halts by itself
            raise UnclearListError(f"table_by now leads only {len(with_row)} of the records to this table")
        return prepared

    def _writer(
        self, key: StateKey, record: StateRecord, shards: Sequence[ShardTable], marks: Sequence[Mark]
    ) -> ShardWriter:
        """A writer to these shards and, if there is one, the table of dead letters.  It sees only rows of the list."""
        clickhouse, kept = self.clickhouse, self.window.letters
        only = f"AND {offsets_in(record.doubt.only)}"
        if self._settings is None:
            self._settings = {**clickhouse.insert_settings(), **INSERT_SETTINGS}
        behind = [] if kept is None else [(kept, f"{only_of(key)} {only} AND {marks_of_list(record.life.nonce)}")]
        places = [(shard, only) for shard in shards] + behind
        to = [
            InsertShard(clickhouse.client(shard.replicas), shard.table, mark, condition)
            for (shard, condition), mark in zip(places, marks, strict=True)
        ]
        config, timeout_s = self.clickhouse.config, clickhouse.access.send_receive_timeout_s
        retry_for_s, margin_s = config.clickhouse.retry_for_s, config.in_doubt.margin_s
        return ShardWriter(to, self._settings, self.clickhouse.clock, retry_for_s, timeout_s, margin_s)


def _one_each(found: Sequence[KeptLetters], record: StateRecord) -> list[KeptLetters]:
    """One dead letter for each offset of the list."""
    found = [one for one in found if not one.lists_deleted]
    by_offset = {one.offset: one for one in found}
    if len(by_offset) < len(record.doubt.only):
        raise UnclearListError(f"only {len(by_offset)} of these dead letters are still there")
    if any(one.digest != by_offset[one.offset].digest for one in found):
        raise UnclearListError("there are other dead letters at these offsets now")
    return [by_offset[offset] for offset in record.doubt.only]
