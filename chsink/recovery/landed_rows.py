"""What the tables hold of ranges in doubt, and whether a server is still inserting them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.mutations import check_none_deleting
from chsink.clickhouse.probe import WORD, dependent_views, only_of, words_there
from chsink.clickhouse.replicas import TWICE
from chsink.clickhouse.shards import ShardTable
from chsink.clickhouse.table import TargetTable
from chsink.clickhouse.window import DedupWindow
from chsink.dlq.place import replay_sink
from chsink.driver.ledger import read_owner
from chsink.errors import ChsinkError, HaltError
from chsink.errors.steps import FED_AGAIN, WITHOUT_DEDUPLICATION
from chsink.notation.sql import quote_string, quote_strings
from chsink.ports import StateStore, Word
from chsink.refusals import asking_target
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord
from chsink.statemachine.tokens import token_head, topic_head

_log = logging.getLogger(__name__)
SECOND_COPIES = (
    "; {} of these rows share their offset with another row: unless a transform made several rows of one record, or an "
    "earlier topic of this name left them, first leave one copy of each: copy it to another table, delete all of them, "
    f"and insert it again {WITHOUT_DEDUPLICATION}{FED_AGAIN}"
)


@dataclass(frozen=True, slots=True)
class LandedRows:
    """``rows`` of a range in its table, None where that is not known; ``trouble`` is what kept from counting.

    ``views`` depend on the table.  ``letters`` counts its dead letters, ``copies`` the rows that have the offset of
    another one.  Nothing is counted unless a route leads to it.
    ``bits`` of words of offsets stand for those with a row or a dead letter.  ``urls``: where was counted.
    """

    table: str
    rows: int | None = None
    trouble: ChsinkError | None = None
    views: tuple[str, ...] = ()
    letters: int = 0
    copies: int = 0
    routed: bool = True
    bits: Mapping[int, int] = field(default_factory=dict)
    urls: tuple[str, ...] = ()

    @property
    def count(self) -> str:
        """What was counted."""
        return f"{self.rows} rows and {self.letters} dead letters"

    @property
    def may_lack(self) -> Sequence[str]:
        """The views that may lack rows which the table has, in words where nobody could read which ones there are."""
        unread = self.trouble is not None or not self.routed
        return self.views or ([f"any that depend on {self.table}"] if unread else [])

    @property
    def sentence(self) -> str:
        """What is known, in words."""
        if self.trouble is not None:
            return f"the rows in {self.table} could not be counted ({self.trouble.message})"
        if not self.routed:
            return f"no route leads to {self.table}, so chsink does not count its rows: check the table first"
        if self.rows is None:
            return f"chsink cannot search {self.table} by offset: check the table first"
        kept = f", and there are {self.letters} dead letters of it" if self.letters else ""
        copies = SECOND_COPIES.format(self.copies) if self.copies else ""
        return f"{self.table} holds {self.rows} rows of it now{kept}{copies}"

    def lacking(self, part: OffsetRange) -> str:
        """How many records of a part of the range are lost if they are never sent, in words."""
        if self.rows is None:
            return "chsink cannot tell how many of its records have no row"
        ends = ((part.start - at * WORD, part.end - at * WORD, bits) for at, bits in self.bits.items())
        cut = (bits >> max(0, low) & (1 << max(0, high - max(0, low))) - 1 for low, high, bits in ends)
        none = part.length - sum(bits.bit_count() for bits in cut)
        return (
            f"of the {part.length} offsets {part}, {none} have no row and no dead letter in a table: records at these "
            "offsets, unless the job leaves them out, are given up"
        )


def count_landed_rows(clickhouse: Cluster, store: StateStore, key: StateKey, record: StateRecord) -> LandedRows:
    """Look for the range's rows on its recorded shards, and on the present ones.  Nothing that is wrong is raised."""
    if not clickhouse.is_routed(key):
        return LandedRows(key.table, routed=False)
    try:
        target = clickhouse.target(clickhouse.routes[key.topic_table])
        shards = _recorded(clickhouse, store, key, record)
        with asking_target():
            views, tp, kept = tuple(views_of(shards)), key.topic_partition, clickhouse.letters
            words, of_letters = list[dict[int, Word]](), list[dict[int, Word]]()
            if kept is not None:
                held = kept.reader(clickhouse.clock, copies=TWICE)
                of_letters.append(words_there(held, kept.table.canonical, tp, record.range, only_of(key)))
            letters = _rows_in(of_letters)
            if not target.table.shows_places:
                return LandedRows(key.table, views=views, letters=letters)
            for shard in shards:
                reader = shard.reader(clickhouse.clock, copies=TWICE)
                check_none_deleting(reader, shard.table)
                words.append(words_there(reader, shard.table.canonical, tp, record.range))
            rows = _rows_in(words)
            copies = rows - sum(bits.bit_count() for bits in _bits_of(words).values())
            bits, urls = _bits_of([*words, *of_letters]), tuple(shard.url for shard in shards)
            return LandedRows(key.table, rows, None, views, letters, copies, bits=bits, urls=urls)
    except ChsinkError as error:
        return LandedRows(key.table, trouble=error)


def _bits_of(words: Iterable[Mapping[int, Word]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for at, word in chain.from_iterable(one.items() for one in words):
        found[at] = found.get(at, 0) | word.bits
    return found


def _rows_in(words: Iterable[Mapping[int, Word]]) -> int:
    return sum(word.rows for one in words for word in one.values())


def wait_for_inserts(
    clickhouse: Cluster, store: StateStore, key: StateKey, record: StateRecord, *, where_possible: bool = False
) -> None:
    """A server may still be busy with an insert whose sender is gone: its rows would come after they were counted.

    If one that the job file no longer lists gives no answer, it is waited until the insert must have ended;
    ``where_possible``: so it is for a listed one, too.
    """
    owner, window = read_owner(store, key.sink), clickhouse.waiting()
    head, what = token_head(key, record), f"{key.topic_partition} {record.range}"
    layout = None if owner is None else owner.layout(record.sent.layout)
    try:
        listed, former = clickhouse.every_server(layout), clickhouse.former_servers(layout)
    except HaltError as error:
        if not where_possible:
            raise
        _outlast(window, error)
        return
    if not where_possible:
        with asking_target():
            for server in listed:
                window.wait_for_tokens(head, what, server)
    window.wait_where_answered(head, what, [*listed, *former] if where_possible else former)


def wait_for_any_insert(
    clickhouse: Cluster, store: StateStore, sink: str, topic: str, shards: Iterable[ShardTable]
) -> None:
    """The same for all ranges of a topic, and for replays of its dead letters."""
    window = clickhouse.waiting()
    for name in (sink, replay_sink(sink)):
        head, owner = topic_head(name, topic), read_owner(store, name)
        with asking_target():
            for server in clickhouse.servers(shards):
                window.wait_for_tokens(head, topic, server)
        for _, layout in () if owner is None else owner.layouts:
            try:
                former = clickhouse.former_servers(layout)
            except HaltError as error:
                _outlast(window, error)
            else:
                window.wait_where_answered(head, topic, former)


def _outlast(window: DedupWindow, error: HaltError) -> None:
    _log.warning("An earlier shard layout does not say which servers it had: %s", error)
    window.outlast("a server of that layout")


def delete_rows(clickhouse: Cluster, ranges: Mapping[StateKey, StateRecord]) -> str:
    """The statement that removes the rows of the ranges (at least one, of one topic and table) from a shard."""
    return clickhouse.targets[next(iter(ranges)).topic_table].table.deleting(_which(ranges))


def delete_letters(table: TargetTable, ranges: Mapping[StateKey, StateRecord]) -> str:
    """The same for their dead letters, with the replay marks of these."""
    return table.deleting(f"{_which(ranges)} AND {letters_of(next(iter(ranges)))}")


def letters_of(key: StateKey) -> str:
    """The condition of a key's dead letters and their replay marks: a mark without its row would hide a dead letter."""
    return f"sink IN ({quote_strings([key.sink, replay_sink(key.sink)])}) AND `table` = {quote_string(key.table)}"


def _which(ranges: Mapping[StateKey, StateRecord]) -> str:
    parts = [
        f"_kafka_partition = {k.partition} AND _kafka_offset >= {r.start} AND _kafka_offset < {r.end}"
        for k, r in ranges.items()
    ]
    which = parts[0] if len(parts) == 1 else f"({' OR '.join(f'({part})' for part in parts)})"
    return f"_kafka_topic = {quote_string(next(iter(ranges)).topic)} AND {which}"


def views_of(shards: Iterable[ShardTable]) -> list[str]:
    """The views that depend on a table, on any of these shards."""
    return sorted({view for s in shards for view in dependent_views(s.client, s.table)})


def also_from(views: Sequence[str]) -> str:
    """What follows a DELETE of rows that dependent views received: behind a semicolon, as it is no part of it."""
    return f"; also remove the rows of these offsets from the targets of its views: {', '.join(views)}" if views else ""


def _recorded(clickhouse: Cluster, store: StateStore, key: StateKey, record: StateRecord) -> Sequence[ShardTable]:
    """The table on the shards of the recorded layout, as far as that is known, and on the present ones."""
    owner = read_owner(store, key.sink)
    layout = owner.layout if owner is not None else lambda _: None
    with asking_target():
        window = clickhouse.window(layout)
        if layout(record.sent.layout) is None:
            return window.shards(key.table, None)
        return window.everywhere(key.table, record.sent.layout)
