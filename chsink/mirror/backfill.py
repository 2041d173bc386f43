"""Asks the mirror to fill tables with the records that came before them, from Kafka's first record on.

The request is stored in the table, and the mirror carries it out: now, if it runs.  It reads downwards from where the
table's records begin, and each commit moves that beginning together with the rows.  So it may be interrupted at any
time, and no record lands twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chsink.errors import halts, services
from chsink.mirror.known_tables import ATTEMPTS, KnownTables
from chsink.mirror.opening import OpenMirror
from chsink.ports import Outcome
from chsink.statemachine.ranges import OffsetRange, TopicPartition


@dataclass(frozen=True)
class Earlier:
    """What a table lacks of one topic-partition: the offsets before its first one that Kafka still holds.  ``asked``:
    down to which offset a backfill was asked for before.
    """

    table: str
    tp: TopicPartition
    range: OffsetRange
    asked: int | None

    def as_dict(self) -> dict[str, object]:
        """For a person or a program."""
        return {
            "table": self.table,
            "topic": self.tp.topic,
            "partition": self.tp.partition,
            "reads": str(self.range),
            "offsets": self.range.end - self.range.start,
            "asked_before": self.asked,
        }


def survey(mirror: OpenMirror, tables: Sequence[str]) -> list[Earlier]:
    """What the tables lack.  A topic-partition that a table does not know yet is left out.

    Raises ``Halted``, ``CatalogFailed`` and ChsinkError, also CHS-355 for rows that landed before, or may have.
    """
    known, found = KnownTables(mirror.targets, mirror.names.topic, mirror.threads), list[Earlier]()
    for name, (read, chain) in known.reads(tables).items():
        target, links = mirror.targets[name], chain.links
        mine = sorted(tp for tp in links if tp.topic in target.topics)
        starts = mirror.kafka.log_starts(mine)
        ids = mirror.kafka.topic_ids(sorted({tp.topic for tp in mine}))
        mine = [tp for tp in mine if starts[tp] < links[tp].origin and (ids[tp.topic] or "") == links[tp].topic_id]
        for topic in dict.fromkeys(tp.topic for tp in mine):
            partitions = [tp.partition for tp in mine]
            held = target.table.row_ranges(read, target.topics, topic, partitions)
            if held is None and target.table.foreign_rows(read) != 0:
                raise halts.MIRROR_ROWS_UNTOLD(table=name, topic=topic)
            held = held or target.table.row_ranges(read, target.topics, topic, partitions, partly=True)
            for tp in (tp for tp in mine if tp.topic == topic):
                piece, rows = OffsetRange(starts[tp], links[tp].origin), (held or {}).get(tp.partition)
                if rows and rows[0].start < piece.end:
                    raise halts.MIRROR_ROWS_BEFORE(table=name, tp=tp, offset=rows[0].start, origin=piece.end)
                found.append(Earlier(name, tp, piece, read.view.floors.get(tp)))
    return found


def ask(mirror: OpenMirror, found: Sequence[Earlier]) -> None:
    """Store the request.  Raises as :func:`survey`, and services.MIRROR_COMMITS_FAIL."""
    floors: dict[str, dict[TopicPartition, int]] = {}
    for one in found:
        floors.setdefault(one.table, {})[one.tp] = one.range.start
    known = KnownTables(mirror.targets, mirror.names.topic)
    for name, of_table in floors.items():
        _store(known, name, of_table)


def _store(known: KnownTables, name: str, floors: Mapping[TopicPartition, int]) -> None:
    reason = ""
    for _ in range(ATTEMPTS):
        done = known.targets[name].table.fill_back(known.read(name)[0], floors)
        if done.outcome is Outcome.APPLIED:
            return
        reason = done.reason
    raise services.MIRROR_COMMITS_FAIL(table=name, rounds=ATTEMPTS, reason=reason)
