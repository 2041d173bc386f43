"""Data files under a table's location that belong to none of its snapshots.

Rules:
- What snapshots refer to is read after the files were listed, so a commit in between hides no file.
- Files are compared by name: a name holds an id that no other file has, and a location has several spellings.
- A file without a time of its last change counts as young.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider

from chsink.errors import preflight
from chsink.mirror.manifests import name_of

SUFFIX = ".parquet"
"""Only such files are data files of the mirror."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A data file that lies there.  ``changed`` is None where the storage does not say."""

    location: str
    size: int
    changed: datetime | None

    @property
    def name(self) -> str:
        return name_of(self.location)


def listed(identifier: str, table: Table) -> list[Listed]:
    """The data files under the table's location.  Raises PreflightError CHS-268."""
    provider = load_location_provider(table.metadata.location, table.metadata.properties)
    root, own = provider.data_path, table.metadata.location.rstrip("/")
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        raise preflight.MIRROR_NOT_CLEANED(table=identifier, reason=f"{type(io).__name__} cannot list files")
    if root != own and not root.startswith(f"{own}/"):
        reason = f"its data files are in {root}, outside its location {own}, where other tables may have files"
        raise preflight.MIRROR_NOT_CLEANED(table=identifier, reason=reason)
    scheme, netloc, path = PyArrowFileIO.parse_location(root, io.properties)
    _, _, without = PyArrowFileIO.parse_location(provider.metadata_path, io.properties)
    fs: FileSystem = io.fs_by_scheme(scheme, netloc)
    infos = fs.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    return [
        Listed(root + info.path.removeprefix(path), info.size or 0, info.mtime)
        for info in infos
        if _is_data(info) and not info.path.startswith(f"{without}/")
    ]


def _is_data(info: FileInfo) -> bool:
    return info.type == FileType.File and info.path.endswith(SUFFIX)


def orphans(found: Iterable[Listed], kept: Collection[str], before: datetime) -> tuple[Listed, ...]:
    """The files whose names are not kept, and that were last changed before then."""
    return tuple(file for file in found if file.name not in kept and file.changed is not None and file.changed < before)
