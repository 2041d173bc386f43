"""Which offsets a table holds: its *chain*.

Per topic-partition, the table holds the records of ``[origin, until)``, each once.  Every commit of the mirror stores
the chain twice: in the summary of its snapshot, and in a table property that names this snapshot.  A commit without
files moves the property alone.  The property outlives expired snapshots; the summary follows a rollback and the
property does not, so the two together tell what happened to the table.

A commit of the property alone does not change the head, so the catalog does not refuse a second one that was made from
the same head.  It may arrive late, and store a chain without a topic-partition that has begun since.  So each origin is
also stored by itself, until a snapshot's chain has it, and a topic-partition that the chain lacks begins at its origin.
That loses nothing: a stale commit can only overwrite entries that have no files.

A table that was rolled back, compacted, and whose older snapshots expired looks like one that was compacted and whose
older snapshots expired, but for its rows.  So the chain has the number of rows that the table had with the snapshot
that it names.

With ``table_by``, tables *share* a topic: each takes some of its records.  Which ones is the topic's *choice*, known by
its fingerprint.  A table stores it by itself, too, with the offset from which it holds.  Below that offset, a record of
the table may now be another table's, so nothing may be read again: a stale commit does not set the table back there.

``CHAIN`` decides whether the summary or the property is right.  The *lineage* is the table's head with its ancestors,
newest first.  A snapshot is *own* when its summary holds a chain of this mirror.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from chsink.statemachine.commit.rules import CommitHalt, Rule, first
from chsink.statemachine.ranges import TopicPartition

CODEC_VERSION = 1


class DamagedChain(ValueError):
    """A stored chain cannot be read: it was damaged, or written by a newer chsink."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a table holds of one topic-partition: the records of ``[origin, until)`` of the topic with this id; with a
    ``choice``, which is a fingerprint, those that it gives the table.
    """

    topic_id: str
    origin: int
    until: int
    choice: str = ""

    def __post_init__(self) -> None:
        assert 0 <= self.origin <= self.until, self

    @property
    def untouched(self) -> bool:
        return self.origin == self.until


Links = Mapping[TopicPartition, Link]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which of a topic's records each of the ``tables`` takes, by the ``choice``'s fingerprint."""

    choice: str = ""
    tables: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StoredShare:
    """How a table shares a topic-partition from the offset ``since`` on.  ``sequence`` is that of the newest own
    snapshot when this was stored, 0 if there was none.
    """

    sharing: Sharing
    since: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Chain:
    """What a commit stores in a table.

    ``control`` is, per partition of the control topic with id ``control_id``, the next event that this table has not
    used: a place to start reading, never a reason to skip.  ``snapshot_id`` and ``sequence`` name the newest own
    snapshot, None and 0 when there is none.  ``rows``: how many rows the table had with it, None if that is not known.
    ``commit_id`` is the commit that stored it.  ``skipped`` counts the records that taken units skipped: only people
    read it.
    """

    links: Links = field(default_factory=lambda: MappingProxyType({}))
    control_id: str = ""
    control: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    commit_id: str = ""
    snapshot_id: int | None = None
    sequence: int = 0
    rows: int | None = None
    skipped: int = 0


def with_origin(chain: Chain, tp: TopicPartition, topic_id: str, origin: int) -> Chain:
    """The chain, beginning with ``origin`` for a topic-partition that it does not know."""
    assert tp not in chain.links, tp
    return replace(chain, links={**chain.links, tp: Link(topic_id, origin, origin)})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot of the lineage.  ``chain`` is None when it is not own."""

    snapshot_id: int
    sequence: int
    chain: Chain | None = None


@dataclass(frozen=True, slots=True)
class TableView:
    """What one reading of the catalog says of a table.

    ``lineage`` is newest first and may end at the newest own snapshot.  ``cut`` says that an older snapshot of it may
    have expired.  ``specs`` are the ids of the table's partition specs.  ``origins`` are links that were stored by
    themselves.
    """

    uuid: str
    specs: frozenset[int]
    lineage: tuple[Snapshot, ...] = ()
    cut: bool = False
    stored: Chain | None = None
    origins: Links = field(default_factory=lambda: MappingProxyType({}))
    rows_before: int | None = None
    """How many rows the table had before the oldest snapshot of ``lineage``, None if that is not known."""
    shared: Mapping[TopicPartition, StoredShare] = field(default_factory=lambda: MappingProxyType({}))
    """By which choices the table shares topics."""
    floors: Mapping[TopicPartition, int] = field(default_factory=lambda: MappingProxyType({}))
    """From which offsets a person wants the table to hold records that came before it."""

    @property
    def head(self) -> int | None:
        """The snapshot that a commit must still find, None in a table without snapshots."""
        return self.lineage[0].snapshot_id if self.lineage else None

    @property
    def own(self) -> Snapshot | None:
        """The newest own snapshot of the lineage."""
        return next((snapshot for snapshot in self.lineage if snapshot.chain is not None), None)


class ChainSource(StrEnum):
    """Where the table's chain is taken from."""

    NOWHERE = "nowhere"
    PROPERTY = "property"
    SUMMARY = "summary"


def _own_is_newer(view: TableView) -> bool:
    assert view.stored is not None
    return view.own is not None and view.own.sequence > view.stored.sequence


def _expired(view: TableView) -> bool:
    assert view.stored is not None
    sequence = view.stored.sequence
    # the newest snapshot never expires: a table without any is not the one that the property describes
    return view.cut and bool(view.lineage) and all(snapshot.sequence > sequence for snapshot in view.lineage)


def _rows_gone(view: TableView) -> bool:
    assert view.stored is not None
    before, then = view.rows_before, view.stored.rows
    return before is not None and then is not None and before < then and _expired(view)


def _same(view: TableView) -> bool:
    assert view.stored is not None
    return view.stored.snapshot_id == (view.own.snapshot_id if view.own else None)


CHAIN: tuple[Rule[TableView, ChainSource], ...] = (
    Rule(
        "NEW",
        "neither a property nor an own snapshot",
        lambda x: x.stored is None and x.own is None,
        ChainSource.NOWHERE,
        "the table knows nothing of the sink: `START` decides",
    ),
    Rule(
        "PROPERTY_LOST",
        "no property",
        lambda x: x.stored is None,
        ChainSource.SUMMARY,
        "take the chain of the newest own snapshot",
    ),
    Rule(
        "CURRENT",
        "the property names the newest own snapshot, or none where there is none",
        _same,
        ChainSource.PROPERTY,
        "take the property",
    ),
    Rule(
        "PROPERTY_OLD",
        "an own snapshot is newer than the property",
        _own_is_newer,
        CommitHalt.CHAIN_DAMAGED,
        "halt: somebody set the property back",
    ),
    Rule(
        "ROWS_GONE",
        "as in the next rule, but the table had fewer rows before its oldest snapshot than with the property's",
        _rows_gone,
        CommitHalt.ROWS_GONE,
        "halt: the table was rolled back, or somebody deleted rows, before the snapshots expired",
    ),
    Rule(
        "EXPIRED",
        "there are snapshots, the lineage was cut by expiry, and all of it is newer than the property's snapshot",
        _expired,
        ChainSource.PROPERTY,
        "take the property: its snapshot expired",
    ),
    Rule(
        "ROLLED_BACK",
        "otherwise: the property's snapshot is not in the lineage",
        lambda _: True,
        CommitHalt.ROLLED_BACK,
        "halt: the table was rolled back",
    ),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The table's chain, or why a person has to decide.  ``because`` names the rule."""

    because: str
    chain: Chain | None
    halt: CommitHalt | None = None


def read_chain(view: TableView) -> Reading:
    """The chain of the table, None where it has none."""
    found = _read(view)
    if found.chain is None:
        return found
    links = {**view.origins, **found.chain.links}
    links |= {tp: _shared(links[tp], share, found.chain) for tp, share in view.shared.items() if tp in links}
    return replace(found, chain=replace(found.chain, links=links))


def _shared(link: Link, share: StoredShare, chain: Chain) -> Link:
    """The link with its choice.  Before a rollback to a time before the choice, the table may have held more."""
    until = max(link.until, share.since) if chain.sequence >= share.sequence else link.until
    return replace(link, choice=share.sharing.choice, until=until)


def _read(view: TableView) -> Reading:
    rule = first(CHAIN, view)
    match rule.verdict:
        case CommitHalt() as halt:
            return Reading(rule.name, None, halt)
        case ChainSource.PROPERTY:
            return Reading(rule.name, view.stored)
        case ChainSource.SUMMARY:
            assert view.own is not None and view.own.chain is not None
            # the summary was written before its snapshot had a sequence number
            own = replace(view.own.chain, snapshot_id=view.own.snapshot_id, sequence=view.own.sequence)
            return Reading(rule.name, own)
        case _:
            return Reading(rule.name, None)


# --- how it is stored ------------------------------------------------------------------------------------------------


def encode(chain: Chain) -> str:
    """The chain as one line of JSON; per topic its id, then origins and untils by partition (null: not known)."""
    topics: dict[str, list[Any]] = {}
    for topic in sorted({tp.topic for tp in chain.links}):
        known = {tp.partition: link for tp, link in chain.links.items() if tp.topic == topic}
        ids = {link.topic_id for link in known.values()}
        assert len(ids) == 1, (topic, ids)
        slots = [known.get(number) for number in range(max(known) + 1)]
        topics[topic] = [ids.pop(), [s and s.origin for s in slots], [s and s.until for s in slots]]
    document = {
        "version": CODEC_VERSION,
        "topics": topics,
        "control": [chain.control_id, {str(p): offset for p, offset in sorted(chain.control.items())}],
        "commit": chain.commit_id,
        "snapshot": chain.snapshot_id,
        "sequence": chain.sequence,
        "rows": chain.rows,
        "skipped": chain.skipped,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def decode(text: str) -> Chain:
    """The inverse of :func:`encode`.  Raises :class:`DamagedChain` for anything else."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document["version"] != CODEC_VERSION:
            raise DamagedChain(f"chain of version {document['version']}; this chsink reads version {CODEC_VERSION}")
        links = {
            TopicPartition(topic, number): Link(topic_id, origin, until)
            for topic, (topic_id, origins, untils) in document["topics"].items()
            for number, (origin, until) in enumerate(zip(origins, untils, strict=True))
            if until is not None
        }
        control_id, control = document["control"]
        return Chain(
            links,
            control_id,
            {int(partition): offset for partition, offset in control.items()},
            document["commit"],
            document["snapshot"],
            document["sequence"],
            document["rows"],
            document["skipped"],
        )
    except DamagedChain:
        raise
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedChain(f"damaged chain ({type(error).__name__}: {error})") from error
