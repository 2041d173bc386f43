"""``chsink mirror publish``: moves a table's main branch to what the mirror committed on a branch of its own.

:mod:`chsink.statemachine.commit.publish` decides.  The mirror may run meanwhile: only main has to be where it was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from chsink.errors import ChsinkError, halts, services
from chsink.mirror.known_tables import ATTEMPTS
from chsink.mirror.tables import TOTAL, MirrorTable, TableRead
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain, decode
from chsink.statemachine.commit.publish import BranchView, Publish, decide_publish
from chsink.statemachine.commit.rules import Rule


@dataclass(frozen=True, slots=True)
class Published:
    """What happened to a table.  ``before`` and ``after`` are the head of main, None without one; ``snapshots`` counts
    those that main got.
    """

    table: str
    branch: str
    before: int | None
    after: int | None
    snapshots: int

    def as_dict(self) -> dict[str, Any]:
        """For a machine."""
        return asdict(self)


def publish(table: MirrorTable, snapshot_id: int | None = None) -> Published:
    """Move main to a snapshot of the branch, by default its head.

    Raises PreflightError CHS-353, HaltError CHS-262, UnavailableError, ``CatalogFailed``.
    """
    reason = ""
    for _ in range(ATTEMPTS):
        read = table.read()
        if read is None:
            raise halts.MIRROR_TABLE_GONE(tables=table.identifier)
        target = read.view.head if snapshot_id is None else snapshot_id
        view, rule = _seen(read, target)
        main = view.main[0] if view.main else None
        if rule.verdict is Publish.NOTHING or target is None:
            return Published(table.identifier, table.keys.branch, main, main, 0)
        if rule.verdict is Publish.REFUSE:
            raise _refusal(rule.name, table, target, read.table.metadata.snapshot_by_name(MAIN_BRANCH))
        done = table.publish(read, target, _own(table, read, view.lineage))
        reason = done.reason
        if done.outcome is Outcome.APPLIED:
            gained = len(view.lineage) if main is None else view.lineage.index(main)
            return Published(table.identifier, table.keys.branch, main, target, gained)
    raise services.MIRROR_COMMITS_FAIL(table=table.identifier, rounds=ATTEMPTS, reason=reason)


def _seen(read: TableRead, target: int | None) -> tuple[BranchView, Rule[BranchView, Publish]]:
    metadata = read.table.metadata
    main = metadata.snapshot_by_name(MAIN_BRANCH)
    of_main = _lineage(metadata, None if main is None else main.snapshot_id)
    view = BranchView(_lineage(metadata, target), of_main, target in _lineage(metadata, read.view.head))
    return view, decide_publish(view)


def _lineage(metadata: TableMetadata, at: int | None) -> tuple[int, ...]:
    """A snapshot and its ancestors, newest first, as far as they are there."""
    found: list[int] = []
    while at is not None and (snapshot := metadata.snapshot_by_id(at)) is not None:
        found.append(at)
        at = snapshot.parent_snapshot_id
    return tuple(found)


def _own(table: MirrorTable, read: TableRead, lineage: Sequence[int]) -> Chain | None:
    """The chain of the mirror's newest snapshot in the lineage, as far as it has come without a snapshot since."""
    for at in lineage:
        snapshot, stored = read.table.metadata.snapshot_by_id(at), read.view.stored
        said = _said(snapshot)
        if snapshot is not None and table.keys.summary in said:
            if stored is not None and stored.snapshot_id == at:
                return stored
            chain = decode(said[table.keys.summary])
            return replace(chain, snapshot_id=at, sequence=snapshot.sequence_number or 0)
    return None


def _said(snapshot: Snapshot | None) -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}


def _refusal(rule: str, table: MirrorTable, target: int, main: Snapshot | None) -> ChsinkError:
    known = {"table": table.identifier, "branch": table.keys.branch, "snapshot": target}
    if rule == "NOT_THERE":
        return halts.MIRROR_SNAPSHOT_NOT_THERE(**known)
    said = _said(main)
    alone = table.keys.summary in said or said.get(TOTAL) == "0"  # main has only what the mirror published
    entry = halts.MIRROR_MAIN_UNSEEN if rule == "UNSEEN" and alone else halts.MIRROR_MAIN_MOVED
    return entry(**known, main=main and main.snapshot_id)
