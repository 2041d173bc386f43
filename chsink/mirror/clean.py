"""``chsink mirror clean``: removes data files that no snapshot needs and, if asked, snapshots that are old.

Rules:
- Files that wait for a commit are kept: those of every report that the coordinators' group has not passed.  The
  reports are read after the files were listed, and the table after the reports: a file that was committed meanwhile
  is then in the table.
- A table whose chain halts the mirror is left alone: a person may still undo what happened to it.  So is one into
  which another sink writes: what waits there is on a control topic that this sink does not know.
- The catalog refuses no commit because a branch or tag is new.  So they are compared again just before snapshots go.
- Nothing is compacted here.  :class:`Small` says how much there is to do for an engine that does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table import TableProperties as P
from pyiceberg.utils.properties import property_as_int

from chsink.errors import ChsinkError, preflight, services
from chsink.mirror.connector import marks, not_taken
from chsink.mirror.control import Names
from chsink.mirror.expiry import expired
from chsink.mirror.known_tables import ATTEMPTS, KnownTables, Target
from chsink.mirror.manifests import AT_ONCE, Referred, manifests_of, name_of, referred
from chsink.mirror.orphans import Listed, listed, orphans
from chsink.mirror.tables import CatalogFailed, TableRead, other_writers, said
from chsink.mirror.trail import handed_over
from chsink.ports import Outcome

SMALL = 0.75
"""A file below this part of ``write.target-file-size-bytes`` is small, as Spark's ``rewrite_data_files`` counts."""


@dataclass(frozen=True, slots=True)
class Small:
    """How many data files the table has, and how many of them are small; ``limit``: in bytes."""

    files: int
    small: int
    limit: int


@dataclass(frozen=True, slots=True)
class TableClean:
    """What would be removed of one table.  ``metadata_files`` are manifests and manifest lists of ``snapshots``."""

    table: str
    orphans: tuple[Listed, ...]
    snapshots: tuple[int, ...]
    metadata_files: tuple[str, ...]
    compaction: Small

    @property
    def bytes(self) -> int:
        """Of all orphans."""
        return sum(file.size for file in self.orphans)

    def figures(self) -> tuple[str | int, ...]:
        """Table, orphans, bytes, snapshots, metadata files, data files, small files."""
        small, removed = self.compaction, (len(self.snapshots), len(self.metadata_files))
        return self.table, len(self.orphans), self.bytes, *removed, small.files, small.small

    def as_dict(self) -> dict[str, Any]:
        """For a machine."""
        return {
            "table": self.table,
            "orphans": [{"location": file.location, "bytes": file.size} for file in self.orphans],
            "bytes": self.bytes,
            "snapshots": list(self.snapshots),
            "metadata_files": list(self.metadata_files),
            "compaction": asdict(self.compaction),
        }


class Cleaner:
    """Of the tables of one mirror.  ``older_than``: younger files are kept; ``expire``: old snapshots go, too."""

    def __init__(
        self, names: Names, targets: Mapping[str, Target], now_ms: int, older_than: timedelta, *, expire: bool
    ) -> None:
        self._names, self._targets = names, targets
        self._tables = KnownTables(targets, names.topic)
        self._now_ms, self._expire = now_ms, expire
        self._before = datetime.fromtimestamp(now_ms / 1000, UTC) - older_than

    def plan(self, name: str) -> TableClean:
        """What would be removed of a table.  Changes nothing.

        Raises ``Halted``, ``CatalogFailed``, ``ControlUnanswered`` and PreflightError CHS-268.
        """
        return self._planned(name)[1]

    def carry_out(self, name: str) -> TableClean:
        """Remove it; returns what was removed.  Raises as :meth:`plan`, and UnavailableError."""
        reason = ""
        for _ in range(ATTEMPTS):
            read, planned = self._planned(name)
            if planned.snapshots:
                if self._tables.read(name)[0].table.metadata.refs != read.table.metadata.refs:
                    reason = "its branches or tags keep changing"
                    continue
                done = self._targets[name].table.expire(read, planned.snapshots)
                reason = done.reason
                if done.outcome is not Outcome.APPLIED:
                    continue
            with _answered(name):
                _delete(read.table.io, [*(file.location for file in planned.orphans), *planned.metadata_files])
            return planned
        raise services.MIRROR_COMMITS_FAIL(table=name, rounds=ATTEMPTS, reason=reason)

    def _planned(self, name: str) -> tuple[TableRead, TableClean]:
        read, chain = self._tables.read(name)
        self._check_alone(name, read)
        # once taken over, nothing of it waits
        if not_taken(read.table, self._targets[name].table.keys.branch) or (not chain.links and marks(read.table)):
            reason = "a Kafka Connect sink filled it, and its files may wait for a commit until its snapshots expire"
            raise preflight.MIRROR_NOT_CLEANED(table=name, reason=reason)
        with _answered(name):
            found = listed(name, read.table)
        waiting = {entry["file_path"] for written in handed_over(self._names, whole=True) for entry in written.files}
        read, chain = self._tables.read(name)
        metadata, io = read.table.metadata, read.table.io
        branch = self._targets[name].table.keys.branch
        with _answered(name):
            gone = expired(metadata, chain.snapshot_id, self._now_ms, branch) if self._expire else ()
            kept = referred(metadata, io, without=gone)
            names = kept.files | {name_of(location) for location in waiting}
            left = _only_of(read.table, gone, kept)
            return read, TableClean(name, orphans(found, names, self._before), gone, left, _small(read))

    def _check_alone(self, name: str, read: TableRead) -> None:
        for found in other_writers(self._targets[name].table.keys, read.table.properties):
            said = f"another sink writes to it, as its property {found} says, "
            raise preflight.MIRROR_NOT_CLEANED(table=name, reason=f"{said}and files of that sink may wait for a commit")


def _only_of(table: Table, snapshots: Collection[int], kept: Referred) -> tuple[str, ...]:
    """The manifests and manifest lists of these snapshots that no other snapshot refers to."""
    if not snapshots:
        return ()
    found = [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id in snapshots]
    mine = {*manifests_of(found, table.io), *(snapshot.manifest_list for snapshot in found)}
    return tuple(sorted(mine - kept.manifests))


def _small(read: TableRead) -> Small:
    table, head = read.table, read.view.head
    target = property_as_int(
        table.metadata.properties, P.WRITE_TARGET_FILE_SIZE_BYTES, P.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
    )
    limit = int(SMALL * (target or 0))
    sizes = [] if head is None else [t.file.file_size_in_bytes for t in table.scan(snapshot_id=head).plan_files()]
    return Small(len(sizes), sum(size < limit for size in sizes), limit)


def _delete(io: FileIO, locations: Sequence[str]) -> None:
    """Delete files.  Those that another program deleted first do not count; any other error is raised at the end."""

    def delete(location: str) -> None:
        with suppress(FileNotFoundError):
            io.delete(location)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(delete, location) for location in locations]
    for each in asked:
        each.result()


@contextmanager
def _answered(name: str) -> Iterator[None]:
    """Raise an error of the storage inside the block as ``CatalogFailed``."""
    try:
        yield
    except ChsinkError:
        raise
    except Exception as error:  # any exception of the storage's client
        raise CatalogFailed(f"{name}: {said(error)}") from error
