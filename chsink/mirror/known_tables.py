"""The tables that a coordinator commits, and the chain that each had when it was last read.

Rules:
- ``links`` come from a table's last reading, or from a commit that was applied since.
- A table that was recreated halts: files were written for the table that was read first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from chsink.mirror.events import TableReference
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.tables import DamagedProperty, MirrorTable, TableRead
from chsink.statemachine.commit.chain import Chain, Links, read_chain
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange, TopicPartition

ATTEMPTS = 5
"""Attempts at one commit, while others change the table."""


@dataclass(frozen=True)
class Target:
    """One table of the routes, and the topics that feed it."""

    table: MirrorTable
    reference: TableReference
    topics: frozenset[str]


@dataclass(frozen=True)
class Hole:
    """A range to read again for one table, whose files must be written for the table with this uuid."""

    table: str
    tp: TopicPartition
    range: OffsetRange
    uuid: str


class KnownTables:
    """``targets`` are keyed by table identifier; halts name ``control_topic``."""

    def __init__(self, targets: Mapping[str, Target], control_topic: str) -> None:
        self.targets, self._control_topic = targets, control_topic
        self.links: dict[str, Links] = {}
        self.uuids: dict[str, str] = {}

    def read(self, name: str) -> tuple[TableRead, Chain]:
        """The table and its chain, an empty chain if it has none.  Raises :class:`Halted` and ``CatalogFailed``."""
        try:
            read = self.targets[name].table.read()
        except DamagedProperty as error:
            raise self.halted(name, CommitHalt.CHAIN_DAMAGED, str(error), error.name) from error
        if read is None:
            raise self.halted(name, CommitHalt.TABLE_GONE)
        if read.view.uuid != self.uuids.setdefault(name, read.view.uuid):
            raise self.halted(name, CommitHalt.TABLE_RECREATED)
        reading = read_chain(read.view)
        if reading.halt is not None:
            stored = read.view.stored
            raise self.halted(name, reading.halt, f"snapshot {stored and stored.snapshot_id}")
        chain = reading.chain or Chain()
        self.links[name] = chain.links
        return read, chain

    def chains_of(self, tps: Sequence[TopicPartition]) -> dict[str, Chain]:
        """The chains of the tables that take these topic-partitions."""
        topics = {tp.topic for tp in tps}
        return {name: self.read(name)[1] for name, t in self.targets.items() if not topics.isdisjoint(t.topics)}

    def found_row(self, name: str, topic: str, partitions: Collection[int]) -> str:
        """A row of these partitions, without those that the table knows; "" if there is none, or rows do not tell.
        Chain and rows are of one reading: another driver may have begun and landed them since the last one.
        """
        target, (read, chain) = self.targets[name], self.read(name)
        unknown = [number for number in partitions if TopicPartition(topic, number) not in chain.links]
        return target.table.found_row(read, target.topics, topic, unknown) if unknown else ""

    def held_until(self, tp: TopicPartition) -> int:
        """The highest ``until`` of a topic-partition, 0 if no table knows it."""
        return max((links[tp].until for links in list(self.links.values()) if tp in links), default=0)

    def halted(
        self, tables: str, why: CommitHalt, detail: str = "", table_property: str = "", *, offsets: str = ""
    ) -> Halted:
        """The halt that asks a person about these tables; see :class:`Halted`."""
        damaged = table_property or next(iter(self.targets.values())).table.keys.chain
        return Halted(tables, why, detail, topic=self._control_topic, table_property=damaged, offsets=offsets)
