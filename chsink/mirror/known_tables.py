"""The tables that a coordinator commits, and the chain that each had when it was last read.

Rules:
- ``links`` come from a table's last reading, or from a commit that was applied since.
- A table that was recreated halts: files were written for the table that was read first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from chsink.mirror.commit_pool import asked
from chsink.mirror.events import TableReference
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.tables import DamagedProperty, MirrorTable, TableRead
from chsink.statemachine.commit.chain import Chain, Links, Sharing, read_chain
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange, TopicPartition

ATTEMPTS = 5
"""Attempts at one commit, while others change the table."""


@dataclass(frozen=True)
class Target:
    """One table of the routes, the topics that feed it, and how it shares those that other tables take, too."""

    table: MirrorTable
    reference: TableReference
    topics: frozenset[str]
    sharing: Mapping[str, Sharing] = field(default_factory=dict)


@dataclass(frozen=True)
class Hole:
    """A range to read again for one table, whose files must be written for the table with this uuid.  ``earlier``: its
    records came before the table, and a person asked for them.
    """

    table: str
    tp: TopicPartition
    range: OffsetRange
    uuid: str
    earlier: bool = False


class KnownTables:
    """``targets`` are keyed by table identifier; halts name ``control_topic``.  ``threads``: how many tables are read
    at the same time.
    """

    def __init__(self, targets: Mapping[str, Target], control_topic: str, threads: int = 1) -> None:
        self.targets, self._control_topic, self._threads = targets, control_topic, threads
        self.links: dict[str, Links] = {}
        self.uuids: dict[str, str] = {}
        self.floors: dict[str, Mapping[TopicPartition, int]] = {}

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
        self.links[name], self.floors[name] = chain.links, read.view.floors
        return read, chain

    def reads_of(self, tps: Sequence[TopicPartition]) -> dict[str, tuple[TableRead, Chain]]:
        """The tables that take these topic-partitions, as :meth:`read` gives them."""
        topics = {tp.topic for tp in tps}
        return self.reads([name for name, target in self.targets.items() if not topics.isdisjoint(target.topics)])

    def reads(self, names: Sequence[str]) -> dict[str, tuple[TableRead, Chain]]:
        """Several tables, as :meth:`read` gives them."""
        return asked(self.read, names, self._threads)

    def each(self, work: Callable[[str], None], names: Sequence[str]) -> None:
        """Do something with each of these tables."""
        asked(work, names, self._threads)

    def left(self, name: str) -> tuple[TableRead, Chain] | None:
        """A table that is no target any more, as :meth:`read` gives it; None if it is gone."""
        with self.beside([name]):
            return self.read(name) if self.targets[name].table.load() else None

    @contextmanager
    def beside(self, names: Iterable[str]) -> Iterator[None]:
        """Inside the block, these tables are targets, too, that no topic feeds."""
        targets = self.targets
        any_target = next(iter(targets.values()))
        more = {}
        for name in names:
            *namespace, last = name.split(".")
            reference = TableReference(any_target.reference.catalog, tuple(namespace), last)
            more[name] = Target(replace(any_target.table, identifier=name), reference, frozenset())
        self.targets = {**targets, **more}
        try:
            yield
        finally:
            self.targets = targets
            for name in more.keys() - targets.keys():
                self.links.pop(name, None)
                self.uuids.pop(name, None)
                self.floors.pop(name, None)

    def found_row(self, name: str, topic: str, partitions: Collection[int]) -> str:
        """A row of these partitions, without those that the table knows; "" if there is none.
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
