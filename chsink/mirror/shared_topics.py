"""Topics that several tables share (``table_by``), as a start finds them: against the job file, and against the tables
that shared them before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from chsink.mirror.known_tables import KnownTables
from chsink.mirror.tables import TableRead
from chsink.notation.table_template import VALUE, value_pattern_of
from chsink.statemachine.commit.chain import Chain, Links, Sharing, StoredShare
from chsink.statemachine.commit.handover import TablePlace, divided_by
from chsink.statemachine.ranges import TopicPartition

_NOT = Sharing()


class SharedTopics:
    """Of the targets of one coordinator.  ``added_now``: a table that does not know a topic-partition joins those
    that do.
    """

    def __init__(self, tables: KnownTables, *, added_now: bool) -> None:
        self._targets, self._tables, self._added_now = tables.targets, tables, added_now
        self._choices = {
            topic: each.choice for target in self._targets.values() for topic, each in target.sharing.items()
        }
        self.left = frozenset[str]()
        """The tables that shared a topic with a target, and are no targets any more."""
        self.dropped = frozenset[str]()
        """Those that do not exist any more, either."""
        self._lists: dict[str, TableRead | None] = {}

    def choice_of(self, tp: TopicPartition) -> str:
        """The fingerprint of what divides the topic's records among tables, "" if nothing does."""
        return self._choices.get(tp.topic, "")

    def places(
        self,
        tps: Sequence[TopicPartition],
        reads: Mapping[str, tuple[TableRead, Chain]],
        notes: Mapping[TopicPartition, str],
    ) -> dict[TopicPartition, dict[str, TablePlace]]:
        """For each topic-partition, what its tables know of it; also those that shared it before.  ``notes`` is what is
        stored with the group's offsets.  Raises as :meth:`KnownTables.read`.
        """
        changed = {tp for tp in tps if divided_by(notes[tp]) not in {"", self.choice_of(tp)}}
        before = {tp: self._before(tp, reads, divided_by(notes[tp]), changed=tp in changed) for tp in tps}
        others = frozenset().union(*before.values()) - reads.keys()
        gone = {name: self._held(name) for name in sorted(others)}
        return {tp: self._of(tp, reads, before[tp], gone, changed=tp in changed) for tp in tps}

    def _held(self, name: str) -> Links:
        """What a table that took the topic-partitions before holds."""
        if name in self._targets:
            return self._tables.read(name)[1].links
        found = self._tables.left(name)
        if found is None:
            self.dropped |= {name}
            return {}
        self.left |= {name}
        return found[1].links

    def _of(
        self,
        tp: TopicPartition,
        reads: Mapping[str, tuple[TableRead, Chain]],
        before: frozenset[str],
        gone: Mapping[str, Links],
        *,
        changed: bool,
    ) -> dict[str, TablePlace]:
        found: dict[str, TablePlace] = {}
        mine = {name: each for name, each in reads.items() if tp.topic in self._targets[name].topics}
        by = {name: self._targets[name].sharing.get(tp.topic, _NOT) for name in mine}
        listed = {each for name, (read, _) in mine.items() for each in self._named(name, by[name], read)}
        for name, (read, chain) in mine.items():
            sharing, link = by[name], chain.links.get(tp)
            was_away = name not in before and (link is None or (bool(link.choice) and bool(before)))
            is_new = link is None and (name, read.view.uuid) in listed  # not one that was created again
            is_named = is_new and name not in sharing.tables  # it is listed before it begins
            found[name] = TablePlace(link, sharing.choice, joins=bool(sharing.choice) and (was_away or is_named))
        for name in before - found.keys():
            link = (reads[name][1].links if name in reads else gone[name]).get(tp)
            if link is not None:
                found[name] = TablePlace(link, left=True)
        alone = not any(_stays(place, changed=changed) for place in found.values())
        if alone:  # there is nobody to join, as a table without a choice takes all records
            found = {name: replace(place, joins=False) for name, place in found.items()}
        replaced = alone and changed and bool(self.choice_of(tp))
        if self._added_now and not replaced and any(place.link is not None for place in found.values()):
            # new tables alone do not know whether the group's offset is one of an earlier topic of this name, nor those
            # whose share they take, for which records may wait: a person decides
            found = {name: replace(place, joins=place.joins or place.link is None) for name, place in found.items()}
        return found

    def _before(
        self, tp: TopicPartition, reads: Mapping[str, tuple[TableRead, Chain]], by: str, *, changed: bool
    ) -> frozenset[str]:
        """The tables that shared it before what the job file says now, or by that if nothing else is stored.
        ``changed``: the records before the group's offset were divided otherwise, by the choice ``by``.
        """
        found = {n: share for n, (read, _) in reads.items() if (share := read.view.shared.get(tp)) is not None}
        # what a table that left has stored is older than all that those hold which share the topic now
        stored = {n: share for n, share in found.items() if tp.topic in self._targets[n].sharing} or found
        others = {n: each for n, each in stored.items() if each.sharing.choice != self.choice_of(tp)} or stored
        if changed:  # another choice may have been stored since, and undone before a record came
            others = {n: each for n, each in others.items() if each.sharing.choice == by} or others
        newest = max((share.since for share in others.values()), default=0)
        choices = {share.sharing.choice for share in others.values() if share.since == newest}
        # a table that records named has begun later than others, by the same choice
        shares = {n: share.sharing for n, share in others.items() if share.sharing.choice in choices}
        known = frozenset(table for n, sharing in shares.items() for table in self._known(n, sharing, reads[n][0]))
        if changed or all(share.since < newest for n, share in stored.items() if n not in others):
            left = [read for name in sorted(known - reads.keys()) if (read := self._list_of(name))]
            known |= {
                table for n, sharing in shares.items() for read in left for table in self._known(n, sharing, read)
            }
        return known

    def _known(self, name: str, sharing: Sharing, read: TableRead) -> Iterator[str]:
        """The tables of a sharing, also those that records named, as far as the table ``name`` lists them."""
        yield from (table for table in sharing.tables if VALUE not in table)
        yield from (table for table, _ in self._named(name, sharing, read))

    def _list_of(self, name: str) -> TableRead | None:
        """A table that left, as it was at first: its list of tables changes no more."""
        if name not in self._lists:
            found = self._tables.left(name)
            self._lists[name] = found and found[0]
        return self._lists[name]

    def _named(self, name: str, sharing: Sharing, read: TableRead) -> Iterator[tuple[str, str]]:
        """The tables of a sharing that the table ``name`` lists, as records named them, each with its uuid then."""
        templates = [table for table in sharing.tables if VALUE in table]
        listed = self._targets[name].table.keys.names(read.table.metadata.properties) if templates else {}
        yield from (each for each in listed.items() if any(value_pattern_of(t, each[0]) is not None for t in templates))

    def lacking(
        self, name: str, since: Mapping[TopicPartition, int], read: TableRead, chain: Chain
    ) -> dict[TopicPartition, StoredShare]:
        """What the table has to store of these topic-partitions, all of which it knows: how it shares them, and
        ``since`` when.  A table that was away joins again behind what it holds, also under its earlier choice.
        """
        wanted = self._targets[name].sharing
        found: dict[TopicPartition, StoredShare] = {}
        for tp, at in since.items():
            mine, stored = wanted.get(tp.topic, _NOT), read.view.shared.get(tp)
            if mine != (_NOT if stored is None else stored.sharing) or at > chain.links[tp].until:
                found[tp] = StoredShare(mine, at, chain.sequence)
        return found


def _stays(place: TablePlace, *, changed: bool) -> bool:
    """Whether the table tells what was divided before; with ``changed``, one that took all records does not."""
    return place.shares and (place.left or not changed or bool(place.link and place.link.choice))
