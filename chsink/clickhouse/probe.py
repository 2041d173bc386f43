"""Are a piece's rows in the table?  Asked by the ``_kafka_*`` columns, of each piece that may have been sent before.

Rules:
- Where tokens are doubted, a piece is looked for before it is sent: it may be there.
- After the send, it is looked for also where tokens are trusted.  If somebody deleted rows or moved parts, the table
  may remember the token of rows that it no longer has, or have forgotten that of rows that it still has.
- A piece is *there* when the table has every row of it that Kafka still gives.  The table may have more: compaction
  removes records between two sends, never adds any.
- Rows in the table say nothing about its dependent views.  ClickHouse stores a block before it feeds the views, so a
  view that throws, or a server that dies, leaves the table complete and the view not.  A piece of which the table has
  nothing was never given to a view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from chsink.clickhouse.table import THE_TABLE, TargetTable
from chsink.driver.roles import Assignment
from chsink.notation.sql import quote_string, quote_table
from chsink.ports import BlockWriter, Queries, Word
from chsink.refusals import asking_target
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey

OFFSET = "_kafka_offset"
WORD = 64
"""How many offsets a word of bits stands for."""
PART = "_part"
"""The virtual column with the name of a row's part."""
_ROWS = (
    "WHERE _kafka_topic = {topic:String} AND _kafka_partition = {partition:Int64} "
    "AND _kafka_offset >= {start:Int64} AND _kafka_offset < {end:Int64}"
)
_VIEWS = f"SELECT arrayZip(dependencies_database, dependencies_table) {THE_TABLE}"


RowCounts = Mapping[int, int]
"""How many rows there are, by offset."""


class Presence(Enum):
    """How much of a piece is in the table."""

    ABSENT = "absent"
    COMPLETE = "complete"
    PARTIAL = "partial"


def rows_there(assignment: Assignment, shard: int, writer: BlockWriter, offsets: OffsetRange) -> RowCounts:
    """How many rows of the range the shard has of each offset.  UnavailableError CHS-709 if it does not answer."""
    key = assignment.key
    with asking_target():
        return writer.rows_there(shard, key.table, key.topic_partition, offsets)


def rows_after(assignment: Assignment, shard: int, writer: BlockWriter, offsets: OffsetRange) -> RowCounts | None:
    """The same once the piece was sent.  None if nobody looks: what was never sent before was not removed, nor stored
    twice; and where tokens are trusted, the table or its server may not allow to look.
    """
    if assignment.record.doubt.probe:
        return rows_there(assignment, shard, writer, offsets)
    if not (assignment.again and writer.can_probe(shard)):
        return None
    with asking_target():
        return writer.recent_rows(shard, assignment.topic_partition, offsets)


def presence(piece: pa.RecordBatch, there: RowCounts) -> Presence:
    """``there``: rows by offset in the piece's offset range on its shard.

    A row too many at an offset of the piece, and rows of other offsets only, are PARTIAL too: another hand wrote them.
    """
    if not there:
        return Presence.ABSENT
    complete = all(there.get(offset) == rows for offset, rows in rows_of(piece).items())
    return Presence.COMPLETE if complete else Presence.PARTIAL


def lacks(sent: RowCounts, there: RowCounts) -> bool:
    """Whether rows that were sent are missing.  Rows too many are no sign of that: another sink may have inserted them,
    with a person's consent.
    """
    return any(there.get(offset, 0) < rows for offset, rows in sent.items())


def has_more(sent: RowCounts, there: RowCounts) -> bool:
    """Whether there are more rows of the sent offsets than were sent."""
    return any(there.get(offset, 0) > rows for offset, rows in sent.items())


def rows_of(piece: pa.RecordBatch) -> Counter[int]:
    """How many rows the piece has of each offset."""
    return Counter(pc.cast(piece.column(OFFSET), pa.int64()).to_pylist())


def count_rows(client: Queries, table: str, partition: TopicPartition, offsets: OffsetRange, only: str = "") -> int:
    """Rows of these offsets; ``only`` is a further condition, ``AND …``."""
    sql = f"SELECT count() FROM {quote_table(table)} {_where(only)}"
    return int(client.query(sql, _parameters(partition, offsets))[0][0])


def rows_by_offset(
    client: Queries, table: str, partition: TopicPartition, offsets: OffsetRange, only: str = ""
) -> dict[int, int]:
    """Rows of each of these offsets that has any; ``only`` is a further condition, ``AND …``."""
    sql = f"SELECT _kafka_offset, count() FROM {quote_table(table)} {_where(only)} GROUP BY _kafka_offset"
    return {int(offset): int(rows) for offset, rows in client.query(sql, _parameters(partition, offsets))}


def words_there(
    client: Queries, table: str, partition: TopicPartition, offsets: OffsetRange, only: str = ""
) -> dict[int, Word]:
    """The same in words of offsets; those without a row are left out."""
    sql = (
        f"SELECT intDiv(toUInt64(_kafka_offset), {WORD}) AS word, "
        f"groupBitOr(bitShiftLeft(toUInt64(1), toUInt64(_kafka_offset) % {WORD})), count() "
        f"FROM {quote_table(table)} {_where(only)} GROUP BY word"
    )
    found = client.query(sql, _parameters(partition, offsets))
    return {int(word): Word(int(bits), int(rows)) for word, bits, rows in found}


def inserted_after(block: int) -> str:
    """A further condition: only parts of a plain MergeTree that have a block after this one.  The others are not read.

    A part is named ``<partition id>_<lowest block>_<highest block>_<level>``, and more after a mutation.  If the first
    two look like dates, its table may be of the old syntax, ``<date>_<date>_<lowest block>_…``: these are all read.
    """
    name = f"splitByChar('_', {PART})"
    return f"AND ((length({name}[1]) = 8 AND length({name}[2]) = 8) OR toInt64OrZero({name}[3]) > {block})"


def only_of(key: StateKey) -> str:
    """The condition that leaves out the dead letters of other sinks and of other target tables."""
    return f"AND sink = {quote_string(key.sink)} AND `table` = {quote_string(key.table)}"


def _where(only: str) -> str:
    return f"{_ROWS} {only}" if only else _ROWS


def dependent_views(client: Queries, table: TargetTable) -> tuple[str, ...]:
    """The views that an insert into the table feeds, as they are now."""
    rows = client.query(_VIEWS, {"database": table.database, "name": table.name})
    return tuple(sorted(f"{database}.{name}" for row in rows for database, name in row[0]))


def _parameters(partition: TopicPartition, offsets: OffsetRange) -> dict[str, Any]:
    topic, number = partition.topic, partition.partition
    return {"topic": topic, "partition": number, "start": offsets.start, "end": offsets.end}
