"""Where topic-partitions start: their offset in the group, and their origin in each table that lacks one.

Rules:
- A table's missing origins are stored before the group moves: once the group has an offset, the tables have the origin.
- For each topic-partition, a producer first fences older workers.  Then the group is read, and the same producer
  moves it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack

from chsink.mirror.control import Names
from chsink.mirror.known_tables import ATTEMPTS, KnownTables
from chsink.mirror.ports import GroupReader
from chsink.mirror.stop_reasons import Halted, Stuck
from chsink.ports import KafkaCluster
from chsink.statemachine.commit.chain import Chain, Links, with_origin
from chsink.statemachine.commit.handover import Beginning, begin
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import TopicPartition

TOGETHER = 64
"""How many topic-partitions start in one commit of each table.  A producer is open for each of them."""


class Beginnings:
    """``assigned``: the topic-partitions that have started.  ``found``: the topic-partitions that Kafka had at the last
    check.  ``topic_ids``: each topic's id when it was first seen.

    With ``at_latest``, a topic that neither the group nor a table knows begins at the ends of its logs.  ``pool`` opens
    producers in parallel.
    """

    def __init__(
        self, names: Names, tables: KnownTables, source: KafkaCluster, *, at_latest: bool, pool: Callable[[], Executor]
    ) -> None:
        self._names, self._tables, self._source = names, tables, source
        self._at_latest, self._pool = at_latest, pool
        self.assigned: tuple[TopicPartition, ...] = ()
        self.found: frozenset[TopicPartition] = frozenset()
        self.topic_ids: dict[str, str] = {}

    def settle(self, group: GroupReader) -> None:
        """Start the topic-partitions that are new, or for which the group has no offset (any more).

        Raises :class:`Halted`, :class:`Stuck` and the outcomes of :mod:`chsink.mirror.control`.
        """
        topics = sorted({topic for target in self._tables.targets.values() for topic in target.topics})
        found = tuple(self._source.partitions(topics))
        self.found = frozenset(found)
        committed = group.committed(found)
        new = [tp for tp in found if tp not in self.assigned or committed[tp] is None]
        if not new:
            return
        ids = self._source.topic_ids(topics)
        starts = dict(self._source.log_starts(new))
        if self._at_latest:
            known = {tp.topic for tp, at in committed.items() if at is not None}
            known |= {tp.topic for name in self._tables.targets for tp in self._tables.read(name)[1].links}
            starts |= self._source.log_ends([tp for tp in new if tp.topic not in known])
        known_ids = {topic: found_id or "" for topic, found_id in ids.items()}
        recreated: dict[TopicPartition, Halted] = {}
        for at in range(0, len(new), TOGETHER):
            recreated |= self._begin(new[at : at + TOGETHER], known_ids, starts)
        self.assigned = tuple(tp for tp in found if tp not in recreated)
        for why in recreated.values():
            raise why
        self.topic_ids = known_ids | self.topic_ids

    def _begin(
        self, tps: Sequence[TopicPartition], ids: Mapping[str, str], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Halted]:
        """Store where topic-partitions start: in the tables that lack them, then in the group.  Returns the halts of
        topic-partitions whose topic was recreated.
        """
        with ExitStack() as closing, self._pool() as pool:
            opened = pool.map(lambda tp: self._names.sender(self._names.worker_id(tp), self._names.group), tps)
            fenced = {tp: closing.enter_context(sender) for tp, sender in zip(tps, opened, strict=True)}
            committed = fenced[tps[0]].committed(tps)
            begun: dict[TopicPartition, Beginning] = {}
            recreated: dict[TopicPartition, Halted] = {}
            chains = self._tables.chains_of(tps)
            rows = self._rows([tp for tp in tps if committed[tp] is None], chains)
            for tp in tps:
                try:
                    begun[tp] = self._begun(
                        tp, ids[tp.topic], committed[tp], starts[tp], chains, rows=rows.get(tp.topic, {})
                    )
                except Halted as halted:
                    if halted.why is not CommitHalt.TOPIC_RECREATED:
                        raise
                    recreated[tp] = halted
            origins = {tp: (ids[tp.topic], found.origin) for tp, found in begun.items() if found.origin is not None}
            for name in chains:
                mine = {tp: origin for tp, origin in origins.items() if tp.topic in self._tables.targets[name].topics}
                if mine:
                    self._store_origins(name, mine)
            moved = {tp: found.group for tp, found in begun.items() if found.group is not None}
            for sent in [pool.submit(fenced[tp].send, str(tp), [], {tp: group}) for tp, group in moved.items()]:
                sent.result()
            fenced[tps[0]].committed(list(moved))  # waits until other readers see these transactions
        return recreated

    def _begun(
        self,
        tp: TopicPartition,
        topic_id: str,
        committed: int | None,
        starting: int,
        chains: Mapping[str, Chain],
        *,
        rows: Mapping[str, str],
    ) -> Beginning:
        """Where one topic-partition starts, by the group's offset and the tables' chains.  ``rows``: by table, a row of
        its topic that no chain covers.  Raises :class:`Halted`.
        """
        mine = {name: chain.links for name, chain in chains.items() if tp.topic in self._tables.targets[name].topics}
        older = [name for name, links in mine.items() if _knows_another(links, tp.topic, topic_id)]
        if older:  # a table may know the old topic by another partition only
            raise self._tables.halted(" ".join(older), CommitHalt.TOPIC_RECREATED, str(tp))
        lacking = {name: rows.get(name, "") for name, links in mine.items() if tp not in links}
        holding = {name: row for name, row in lacking.items() if row}
        decided = begin(topic_id, committed, [links.get(tp) for links in mine.values()], starting, rows=bool(holding))
        if decided.halt is CommitHalt.ROWS_FOUND:
            raise self._tables.halted(" ".join(holding), decided.halt, next(iter(holding.values())))
        if decided.halt is not None:
            raise self._tables.halted(" ".join(lacking), decided.halt, str(tp))
        return decided

    def _rows(self, unknown: Sequence[TopicPartition], chains: Mapping[str, Chain]) -> dict[str, dict[str, str]]:
        """By topic, the tables that hold rows of topic-partitions that neither they nor the group know, with a row."""
        found: dict[str, dict[str, str]] = {}
        for name, chain in chains.items():
            for topic in sorted({tp.topic for tp in unknown} & self._tables.targets[name].topics):
                partitions = [tp.partition for tp in unknown if tp.topic == topic and tp not in chain.links]
                if partitions and (row := self._tables.found_row(name, topic, partitions)):
                    found.setdefault(topic, {})[name] = row
        return found

    def _store_origins(self, name: str, origins: Mapping[TopicPartition, tuple[str, int]]) -> None:
        """In one commit, store the topic's id and the first offset of each topic-partition that the table lacks."""
        for _ in range(ATTEMPTS):
            read, chain = self._tables.read(name)
            lacking = [tp for tp in origins if tp not in chain.links]
            if not lacking:
                return
            for tp in lacking:
                chain = with_origin(chain, tp, *origins[tp])
            self._tables.targets[name].table.begin(read, chain, lacking)
        raise Stuck(name, 1, "others keep changing the table")


def _knows_another(links: Links, topic: str, topic_id: str) -> bool:
    return any(tp.topic == topic and link.topic_id != topic_id for tp, link in links.items())
