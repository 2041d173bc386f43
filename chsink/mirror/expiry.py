"""Which snapshots of a table may expire, by Iceberg's own rules, without harm to the mirror.

Rules:
- Snapshots that a branch or a tag names stay.  Of a branch's older ones, those stay that are younger than
  ``history.expire.max-snapshot-age-ms``, and at least ``history.expire.min-snapshots-to-keep``.  A branch may have its
  own limits.  A snapshot that belongs to no branch expires by its age.
- The snapshots of the mirror's branch from its head to the mirror's newest one stay: they show that the table was not
  rolled back.  So do those that main does not have yet: they show that main may be moved forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyiceberg.table import TableProperties as P
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.properties import property_as_int


def expired(metadata: TableMetadata, own: int | None, now_ms: int, branch: str = MAIN_BRANCH) -> tuple[int, ...]:
    """The ids of the snapshots that may go; ``own`` is the mirror's newest one, on ``branch``."""
    main = metadata.snapshot_by_name(MAIN_BRANCH)
    needed = (own, None if main is None else main.snapshot_id)
    kept: set[int] = set()
    for name, ref in metadata.refs.items():
        kept |= set(_kept(metadata, ref, now_ms, needed if name == branch else ()))
    oldest = now_ms - _limit(metadata, P.MAX_SNAPSHOT_AGE_MS, P.MAX_SNAPSHOT_AGE_MS_DEFAULT)
    in_branches = {s.snapshot_id for ref in metadata.refs.values() for s in _lineage(metadata, ref)}
    kept |= {s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in in_branches and s.timestamp_ms >= oldest}
    return tuple(s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in kept)


def _kept(metadata: TableMetadata, ref: SnapshotRef, now_ms: int, needed: Iterable[int | None]) -> Iterator[int]:
    """The snapshots that a branch or tag keeps."""
    if ref.snapshot_ref_type == SnapshotRefType.TAG:
        yield ref.snapshot_id
        return
    age = ref.max_snapshot_age_ms or _limit(metadata, P.MAX_SNAPSHOT_AGE_MS, P.MAX_SNAPSHOT_AGE_MS_DEFAULT)
    least = ref.min_snapshots_to_keep or _limit(metadata, P.MIN_SNAPSHOTS_TO_KEEP, P.MIN_SNAPSHOTS_TO_KEEP_DEFAULT)
    lineage = list(_lineage(metadata, ref))
    ids = [snapshot.snapshot_id for snapshot in lineage]
    least = max(least, *(ids.index(one) + 1 for one in needed if one in ids), 1)
    for number, snapshot in enumerate(lineage):
        if number >= least and snapshot.timestamp_ms < now_ms - age:
            return
        yield snapshot.snapshot_id


def _lineage(metadata: TableMetadata, ref: SnapshotRef) -> Iterator[Snapshot]:
    """A branch's or tag's snapshot and its ancestors, newest first."""
    at = metadata.snapshot_by_id(ref.snapshot_id)
    while at is not None:
        yield at
        at = None if at.parent_snapshot_id is None else metadata.snapshot_by_id(at.parent_snapshot_id)


def _limit(metadata: TableMetadata, name: str, default: int) -> int:
    found = property_as_int(metadata.properties, name, default)
    assert found is not None
    return max(found, 1)
