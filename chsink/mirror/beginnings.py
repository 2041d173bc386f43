"""Where topic-partitions start: their offset in the group, and their origin in each table that lacks one.

Rules:
- A table's missing origins are stored before the group moves: once the group has an offset, the tables have the origin.
- For each topic-partition, a producer first fences older workers.  Then the group is read, and the same producer
  moves it.
- If another ``table_by`` divides the records from now on, the group's offset is marked first: no worker may divide them
  until all tables have stored it.  Those that are new to the topic-partition store it first, the group's offset last.
- A topic-partition whose log starts above the group's offset begins again: nobody can hand over what lies between,
  unless a worker has read it already.  So none is fenced that may have.
- A topic-partition begins again if another ``table_by``, or none, is stored with its offset at two checks: a person set
  it.  After one check, it may be a newer coordinator's; that one does not let this one begin a round.
- A topic-partition whose producer Kafka does not open waits, and the others go on, if its start would change nothing,
  or nobody knows it yet.  Otherwise nothing starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import TypeVar

from chsink.mirror.control import ControlUnanswered, Names
from chsink.mirror.known_tables import ATTEMPTS, KnownTables
from chsink.mirror.ports import EventSender, GroupReader
from chsink.mirror.refusals import refused
from chsink.mirror.shared_topics import SharedTopics
from chsink.mirror.stop_reasons import Halted, Stuck
from chsink.ports import KafkaCluster
from chsink.statemachine.commit.chain import Chain, Links, with_origin
from chsink.statemachine.commit.handover import Beginning, TablePlace, begin, divided_by, stays, unsettled
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange, TopicPartition

TOGETHER = 64
"""How many topic-partitions start in one commit of each table.  A producer is open for each of them."""
COMMITS_FIRST = (CommitHalt.TOPIC_RECREATED, CommitHalt.RECORDS_GONE, CommitHalt.CHOICE_CHANGED)
"""Halts of one topic-partition.  What was handed over is committed before: nobody can read it again, or nobody knows
how its records were divided.
"""
K = TypeVar("K")


class Beginnings:
    """``assigned``: the topic-partitions that have started, or are where a start would leave them.  ``found``: the
    topic-partitions that Kafka had at the last check.  ``topic_ids``: each topic's id when it was first seen.
    ``unfenced``: the topic-partitions that wait, and why: each :meth:`settle` tries them again.

    With ``at_latest``, a topic that neither the group nor a table knows begins at the ends of its logs; one of
    ``matched``, which a pattern may have found since, only if they know no topic at all.  ``added_now``: a table that
    is new for a topic begins where the group is.  ``pool`` opens producers in parallel.  ``under_way``: the
    topic-partitions that workers of this driver hand over now.
    """

    def __init__(
        self,
        names: Names,
        tables: KnownTables,
        source: KafkaCluster,
        *,
        at_latest: bool,
        matched: Collection[str] = (),
        added_now: bool = False,
        pool: Callable[[], Executor],
        under_way: Callable[[], Collection[TopicPartition]],
    ) -> None:
        self._names, self._tables, self._source = names, tables, source
        self._sharing = SharedTopics(tables, added_now=added_now)
        self._at_latest, self._matched, self._pool, self._under_way = at_latest, frozenset(matched), pool, under_way
        self.assigned: tuple[TopicPartition, ...] = ()
        self.found, self._others = frozenset[TopicPartition](), set[tuple[TopicPartition, str]]()
        self.topic_ids: dict[str, str] = {}
        self.unfenced: dict[TopicPartition, str] = {}
        self._starting: dict[TopicPartition, int] = {}
        self._earlier: list[str] | None = None
        self.waiting = True
        """Whether units may wait for a commit that the group, which may have been lost, does not tell of."""

    @property
    def left(self) -> frozenset[str]:
        """The tables that shared a topic (``table_by``) and are no targets any more, as far as they exist."""
        return self._sharing.left

    @property
    def dropped(self) -> frozenset[str]:
        """Those that do not exist any more, either."""
        return self._sharing.dropped

    def settle(self, group: GroupReader) -> None:
        """Start the topic-partitions that are new, or for which the group has no offset (any more), or one that Kafka
        no longer holds.

        Raises :class:`Halted`, :class:`Stuck` and the outcomes of :mod:`chsink.mirror.control`.
        """
        topics = sorted({topic for target in self._tables.targets.values() for topic in target.topics})
        found = tuple(self._source.partitions(topics))
        self.found = frozenset(found)
        starts = self._source.log_starts(found)
        busy = set(self._under_way())  # asked after the starts: who begins now cannot read what is gone
        committed, notes = group.committed(found), group.notes(found)
        gone = {tp for tp, at in committed.items() if at is None or (at < starts[tp] and tp not in busy)}
        others = {(tp, notes[tp]) for tp in self.found - busy if notes[tp] != self._sharing.choice_of(tp)}
        gone |= {tp for tp, _ in others & self._others}
        new = [tp for tp in found if tp not in self.assigned or tp in gone or tp in self.unfenced]
        self._others = others - {(tp, notes[tp]) for tp in new}
        self._fence_earlier()
        if not new:
            return
        ids = self._source.topic_ids(topics)
        fresh = {tp: starts[tp] for tp in new}
        if self._at_latest:
            known = {tp.topic for tp, at in committed.items() if at is not None}
            known |= {tp.topic for name in self._tables.targets for tp in self._tables.read(name)[1].links}
            known |= self._matched if known else set()
            fresh |= self._source.log_ends([tp for tp in new if tp.topic not in known])
        fresh |= {tp: at for tp, at in self._starting.items() if tp in fresh}
        known_ids = {topic: found_id or "" for topic, found_id in ids.items()}
        halted: dict[TopicPartition, Halted] = {}
        self.unfenced, self._starting = {}, {}
        for at in range(0, len(new), TOGETHER):
            halted |= self._begin(new[at : at + TOGETHER], group, known_ids, starts, fresh)
            if not self.assigned and len(self.unfenced) == at + len(new[at : at + TOGETHER]):
                raise ControlUnanswered(next(iter(self.unfenced.values())))
        if self._earlier is None:
            left = {tp for links in self._tables.links.values() for tp in links if tp.topic not in topics}
            self._earlier = [
                id_ for tp in sorted(left) for id_ in (self._names.worker_id(tp), self._names.reread_id(tp))
            ]
            self._fence_earlier()
        self.assigned = tuple(tp for tp in found if tp not in halted and tp not in self._starting)
        for why in halted.values():
            raise why
        self.topic_ids = known_ids | self.topic_ids

    def _fence_earlier(self) -> None:
        """Fence the workers of topics that tables know and no route names any more: a driver with earlier routes, that
        does not know yet that this one has taken its place, may still run some.
        """
        if self._earlier:
            with ExitStack() as closing, self._pool() as pool:
                _, failed = self._opened({id_: id_ for id_ in self._earlier}, pool, closing)
            self._earlier = list(failed)

    def _opened(
        self, ids: Mapping[K, str], pool: Executor, closing: ExitStack
    ) -> tuple[dict[K, EventSender], dict[K, ControlUnanswered]]:
        """Open a producer of each id in parallel; also those that Kafka does not open."""
        begun = {key: pool.submit(self._names.sender, id_, self._names.group) for key, id_ in ids.items()}
        opened, failed = {}, {}
        for key, each in begun.items():
            try:
                opened[key] = closing.enter_context(each.result())
            except ControlUnanswered as error:
                if refused(error, self._names):
                    raise
                failed[key] = error
        return opened, failed

    def _put_aside(
        self,
        failed: Mapping[TopicPartition, ControlUnanswered],
        group: GroupReader,
        ids: Mapping[str, str],
        starts: Mapping[TopicPartition, int],
        fresh: Mapping[TopicPartition, int],
    ) -> None:
        """Let these topic-partitions wait.  Raises ``Unanswered`` where others cannot go on before they start."""
        committed, notes = group.committed(failed), group.notes(failed)
        places = self._sharing.places(list(failed), self._tables.reads_of(list(failed)), notes)
        for tp, error in failed.items():
            mine = places[tp].values()
            if committed[tp] is None and all(place.link is None for place in mine):
                self._starting[tp] = fresh[tp]
            elif notes[tp] != self._sharing.choice_of(tp) or not stays(
                ids[tp.topic], committed[tp], mine, log_start=starts[tp]
            ):
                raise error
            self.unfenced[tp] = str(error)

    def _begin(
        self,
        tps: Sequence[TopicPartition],
        group: GroupReader,
        ids: Mapping[str, str],
        starts: Mapping[TopicPartition, int],
        fresh: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, Halted]:
        """Store where topic-partitions start: in the tables that lack them, then in the group.  Those that nobody knows
        start at ``fresh``.  Returns the halts of ``COMMITS_FIRST``.
        """
        with ExitStack() as closing, self._pool() as pool:
            fenced, failed = self._opened({tp: self._names.worker_id(tp) for tp in tps}, pool, closing)
            if failed:
                self._put_aside(failed, group, ids, starts, fresh)
            if not fenced:
                return {}
            tps = list(fenced)
            committed, notes = fenced[tps[0]].committed(tps), fenced[tps[0]].notes(tps)
            begun: dict[TopicPartition, Beginning] = {}
            halts: dict[TopicPartition, Halted] = {}
            reads = self._tables.reads_of(tps)
            chains = {name: chain for name, (_, chain) in reads.items()}
            places = self._sharing.places(tps, reads, notes)
            new = {tp for tp in tps if any(place.joins and place.link is None for place in places[tp].values())}
            rows = self._rows([tp for tp in tps if tp in new or committed[tp] is None], chains)
            for tp in tps:
                try:
                    at = (committed[tp], starts[tp], fresh[tp])
                    begun[tp] = self._begun(
                        tp, ids[tp.topic], at, places[tp], rows=rows.get(tp.topic, {}), note=notes[tp]
                    )
                except Halted as halted:
                    if halted.why not in COMMITS_FIRST:
                        raise
                    halts[tp] = halted
            halting = {tp.topic for tp in halts}
            for tp in [tp for tp in begun if committed[tp] is None and tp.topic in halting]:
                del begun[tp]  # the tables of this map alone would know it: the map before could not be put back
                self._starting[tp] = fresh[tp]

            known = {tp: at for tp, at in committed.items() if tp in begun and at is not None}
            others = {tp: at for tp, at in known.items() if notes[tp] != self._sharing.choice_of(tp)}
            _move(fenced, pool, others, {tp: unsettled(notes[tp]) for tp in others})
            self._store_all(begun, ids, committed, places)
            moved = others | {tp: found.group for tp, found in begun.items() if found.group is not None}
            _move(fenced, pool, moved, {tp: self._sharing.choice_of(tp) for tp in moved})
        return halts

    def _store_all(
        self,
        begun: Mapping[TopicPartition, Beginning],
        ids: Mapping[str, str],
        committed: Mapping[TopicPartition, int | None],
        places: Mapping[TopicPartition, Mapping[str, TablePlace]],
    ) -> None:
        """Store what the tables have to know, in those that join others first: once these know it, nobody joins."""
        origins = {tp: (ids[tp.topic], found.origin) for tp, found in begun.items() if found.origin is not None}
        mine = {
            name: {tp: places[tp][name] for tp in begun if tp.topic in target.topics}
            for name, target in self._tables.targets.items()
        }

        def store(name: str) -> None:
            held = {tp: place.link.until for tp, place in mine[name].items() if place.link is not None}
            since = {
                tp: _reached(committed[tp], places[tp]) if place.joins and tp in held else held.get(tp, origin or 0)
                for tp, place in mine[name].items()
                for origin in [begun[tp].origin]
            }
            self._store(name, {tp: origins[tp] for tp in mine[name] if tp in origins}, since, held)

        join = [name for name, places_of in mine.items() if any(place.joins for place in places_of.values())]
        for names in (join, [name for name in mine if name not in join]):
            self._tables.each(store, names)

    def _begun(
        self,
        tp: TopicPartition,
        topic_id: str,
        at: tuple[int | None, int, int],
        places: Mapping[str, TablePlace],
        *,
        rows: Mapping[str, str],
        note: str,
    ) -> Beginning:
        """Where one topic-partition starts, by its tables' ``places`` and ``at``: the group's offset, the log's start,
        and where it starts if nobody knows it.  ``rows``: by table, a row of its topic that no chain covers.  ``note``:
        the choice that is stored with the group's offset.  Raises :class:`Halted`.
        """
        committed, log_start, starting = at
        mine = [name for name, place in places.items() if not place.left]
        older = [name for name in mine if _knows_another(self._tables.links[name], tp.topic, topic_id)]
        if older:  # a table may know the old topic by another partition only
            raise self._tables.halted(" ".join(older), CommitHalt.TOPIC_RECREATED, str(tp))
        lacking = {name: rows.get(name, "") for name in mine if places[name].link is None}
        holding = {name: row for name, row in lacking.items() if row}
        stored = {link.choice for name in mine if (link := places[name].link) is not None}
        decided = begin(
            topic_id,
            committed,
            places.values(),
            starting,
            rows=bool(holding),
            log_start=log_start,
            waiting=self.waiting,
            foreign=divided_by(note) not in {"", self._sharing.choice_of(tp), *stored},
        )
        if decided.halt is CommitHalt.ROWS_FOUND:
            raise self._tables.halted(" ".join(holding), decided.halt, next(iter(holding.values())))
        if decided.halt is CommitHalt.RECORDS_GONE:
            reached = _reached(committed, places)
            offsets = str(OffsetRange(reached, log_start))
            raise self._tables.halted(" ".join(mine), decided.halt, str(tp), offsets=offsets)
        if decided.halt is CommitHalt.CHOICE_CHANGED:
            reached = _reached(committed, places)
            behind = {name: p.link.until for name, p in places.items() if p.shares and p.link is not None}
            behind = {name: until for name, until in behind.items() if until != reached}
            detail = ", ".join(f"{name} lacks {OffsetRange(min(at, reached), reached)}" for name, at in behind.items())
            raise self._tables.halted(" ".join(behind), decided.halt, f"{tp}: {detail}")
        if decided.halt is not None:
            named = [name for name in mine if name in lacking or places[name].changed]  # resolved by one command
            raise self._tables.halted(" ".join(named), decided.halt, str(tp))
        return decided

    def _rows(self, unknown: Sequence[TopicPartition], chains: Mapping[str, Chain]) -> dict[str, dict[str, str]]:
        """By topic, the tables that hold rows of these topic-partitions and do not know them, with a row."""
        found: dict[str, dict[str, str]] = {}
        for name, chain in chains.items():
            for topic in sorted({tp.topic for tp in unknown} & self._tables.targets[name].topics):
                partitions = [tp.partition for tp in unknown if tp.topic == topic and tp not in chain.links]
                if partitions and (row := self._tables.found_row(name, topic, partitions)):
                    found.setdefault(topic, {})[name] = row
        return found

    def _store(
        self,
        name: str,
        origins: Mapping[TopicPartition, tuple[str, int]],
        since: Mapping[TopicPartition, int],
        held: Mapping[TopicPartition, int],
    ) -> None:
        """In one commit, store the topic's id and the first offset of each topic-partition that the table lacks, and
        ``since`` when it shares others: as long as it ``held`` these offsets and no more.
        """
        for _ in range(ATTEMPTS):
            read, chain = self._tables.read(name)
            lacking = [tp for tp in origins if tp not in chain.links]
            for tp in lacking:
                chain = with_origin(chain, tp, *origins[tp])
            shares = self._sharing.lacking(name, since, read, chain)
            if not lacking and not shares:
                return
            if any(chain.links[tp].until != held.get(tp, chain.links[tp].until) for tp in shares):
                break
            self._tables.targets[name].table.begin(read, chain, lacking, shares)
        raise Stuck(name, 1, "others keep changing the table")


def _reached(committed: int | None, places: Mapping[str, TablePlace]) -> int:
    """The offset up to which records were handed over."""
    links = (place.link for place in places.values() if not place.left)
    return max([committed or 0, *(link.until for link in links if link is not None)])


def _knows_another(links: Links, topic: str, topic_id: str) -> bool:
    return any(tp.topic == topic and link.topic_id != topic_id for tp, link in links.items())


def _move(
    fenced: Mapping[TopicPartition, EventSender],
    pool: Executor,
    to: Mapping[TopicPartition, int],
    notes: Mapping[TopicPartition, str],
) -> None:
    """Move the group to these offsets, with what is stored with them, and wait until other readers see it."""
    for tp, note in notes.items():
        fenced[tp].note = note
    for sent in [pool.submit(fenced[tp].send, str(tp), [], {tp: at}) for tp, at in to.items()]:
        sent.result()
    next(iter(fenced.values())).committed(list(to))
