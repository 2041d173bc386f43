"""What a table's manifests say of its files."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

AT_ONCE = 16
"""Files that are read or deleted in parallel."""


def name_of(location: str) -> str:
    """The last part of a location."""
    return location.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Referred:
    """What snapshots refer to: the names of their data and delete files, and the locations of their manifests and
    manifest lists.
    """

    files: frozenset[str]
    manifests: frozenset[str]


def referred(metadata: TableMetadata, io: FileIO, without: Collection[int] = ()) -> Referred:
    """By all snapshots but those.  Raises any error of the storage."""
    snapshots = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in without]
    manifests = manifests_of(snapshots, io)
    entries = _entries(manifests.values(), io, deleted=True)
    files = frozenset(name_of(entry.data_file.file_path) for entry in entries)
    return Referred(files, frozenset({*manifests, *(snapshot.manifest_list for snapshot in snapshots)}))


def manifests_of(snapshots: Iterable[Snapshot], io: FileIO) -> dict[str, ManifestFile]:
    """The manifests of snapshots, by location."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda snapshot: snapshot.manifests(io), snapshots)
        return {manifest.manifest_path: manifest for manifests in found for manifest in manifests}


def added_by(metadata: TableMetadata, io: FileIO) -> dict[str, int | None]:
    """The snapshot that added each file, by the file's location.  Raises any error of the storage."""
    manifests = manifests_of(metadata.snapshots, io)
    return {entry.data_file.file_path: entry.snapshot_id for entry in _entries(manifests.values(), io, deleted=False)}


def _entries(manifests: Iterable[ManifestFile], io: FileIO, *, deleted: bool) -> list[ManifestEntry]:
    """With ``deleted``, also what a snapshot removed: an older one may still have it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda m: m.fetch_manifest_entry(io, discard_deleted=not deleted), manifests)
        return [entry for entries in found for entry in entries]
