"""What became of each file that was handed over: which commit took it, and which snapshot added it.

Read from the control topic and from the tables' manifests.  Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from chsink.mirror.control import Names
from chsink.mirror.events import CommitToTable, DataWritten, TableReference, UnitTag
from chsink.mirror.known_tables import Target
from chsink.mirror.manifests import added_by
from chsink.mirror.tables import COMMIT_ID, CatalogFailed, DamagedProperty, said
from chsink.mirror.trail import all_events
from chsink.statemachine.commit.chain import Links, read_chain
from chsink.statemachine.ranges import TopicPartition

COMMITTED, WAITING, GONE = "committed", "waiting", "gone"


@dataclass(frozen=True, slots=True)
class Handed:
    """One file that was handed over, or a range without rows, which has none.

    ``state``: ``committed`` if a snapshot has it; ``waiting`` if its table does not hold its offsets; else ``gone``.
    """

    time: str
    table: str
    topic: str
    partition: int
    start: int
    end: int
    rows: int
    state: str
    commit: str | None
    snapshot: int | None
    file: str | None

    def as_dict(self) -> dict[str, Any]:
        """For a machine."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Filter:
    """Empty texts let everything pass.  ``file`` is a part of a location."""

    table: str = ""
    topic: str = ""
    file: str = ""
    commit: str = ""

    def passes(self, handed: Handed) -> bool:
        return (
            self.topic in {"", handed.topic}
            and self.commit in {"", handed.commit}
            and (not self.file or self.file in (handed.file or ""))
        )


@dataclass(frozen=True, slots=True)
class _Table:
    """What a table says: the snapshot of each file, the commit of each snapshot, and its chain."""

    added: Mapping[str, int | None] = field(default_factory=dict)
    commits: Mapping[int, str] = field(default_factory=dict)
    links: Links = field(default_factory=dict)


def history(names: Names, targets: Mapping[str, Target], wanted: Filter) -> list[Handed]:
    """In the order in which they were handed over.  Raises ``CatalogFailed`` and ``ControlUnanswered``."""
    chosen = {t.reference: name for name, t in targets.items() if wanted.table in {"", name}}
    reported: list[tuple[datetime, str, DataWritten]] = []
    told: dict[int, str] = {}
    for event in all_events(names):
        match event.payload:
            case DataWritten(table=reference) as written if _name(chosen, reference):
                reported.append((event.timestamp, _name(chosen, reference), written))
            case CommitToTable(commit_id=commit, snapshot_id=int() as snapshot):
                told[snapshot] = str(commit)
            case _:
                pass
    tables = {name: _table(targets[name]) for name in sorted({name for _, name, _ in reported})}
    found = [row for at, name, written in reported for row in _rows(at, name, written, tables[name], told)]
    return sorted((row for row in found if wanted.passes(row)), key=_order)


def _name(chosen: Mapping[TableReference, str], reference: TableReference) -> str:
    """The catalog's name in an event is that of the job file at its time: it does not count."""
    same = (n for r, n in chosen.items() if (r.namespace, r.name) == (reference.namespace, reference.name))
    return next(same, "")


def _order(row: Handed) -> tuple[str, str, str, int, int, str]:
    return row.time, row.table, row.topic, row.partition, row.start, row.file or ""


def _table(target: Target) -> _Table:
    """A table that is gone, or whose chain is damaged, says less."""
    table = target.table.load()
    if table is None:
        return _Table()
    try:
        added = added_by(table.metadata, table.io)
    except Exception as error:  # any exception of the storage's client
        raise CatalogFailed(f"{target.table.identifier}: {said(error)}") from error
    summaries = {s.snapshot_id: s.summary for s in table.metadata.snapshots}
    commits = {n: str(s[COMMIT_ID]) for n, s in summaries.items() if s is not None and s.get(COMMIT_ID)}
    try:
        read = target.table.read()
    except DamagedProperty:
        read = None
    chain = None if read is None else read_chain(read.view).chain or read.view.stored
    return _Table(added, commits, {} if chain is None else chain.links)


def _rows(at: datetime, name: str, written: DataWritten, table: _Table, told: Mapping[int, str]) -> Iterator[Handed]:
    tag = written.tag
    if tag is None:
        return
    time, tp = at.astimezone(UTC).isoformat(timespec="seconds"), (tag.topic, tag.partition)
    passed = _passed(tag, table.links)
    for entry in written.files:
        location = entry["file_path"]
        snapshot = table.added.get(location)
        state = COMMITTED if location in table.added else GONE if passed else WAITING
        commit = None if snapshot is None else table.commits.get(snapshot) or told.get(snapshot)
        yield Handed(time, name, *tp, tag.start, tag.until, entry["record_count"], state, commit, snapshot, location)
    if not written.files:
        state = COMMITTED if passed else WAITING
        yield Handed(time, name, *tp, tag.start, tag.until, 0, state, None, None, None)


def _passed(tag: UnitTag, links: Links) -> bool:
    """Whether the table holds the unit's offsets, or is of another topic of this name."""
    link = links.get(TopicPartition(tag.topic, tag.partition))
    return link is not None and (link.topic_id != tag.topic_id or link.until >= tag.until)
