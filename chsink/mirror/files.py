"""Parquet files of a table, and how a file's description travels: never pickled, always by Iceberg's own names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from chsink.mirror.events import FileEntry

_MAPS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
_PLAIN = ("file_path", "record_count", "file_size_in_bytes", "key_metadata", "sort_order_id")
_LISTS = ("split_offsets", "equality_ids")


def write_files(metadata: TableMetadata, io: FileIO, rows: pa.Table, attempt: UUID) -> Iterator[DataFile]:
    """The rows as files, with the table's own writer settings.  ``attempt`` makes their names unique: the writer
    overwrites files of the same name.
    """
    if rows.num_rows:
        yield from _dataframe_to_data_files(metadata, rows, io, write_uuid=attempt)


def entry_of(file: DataFile, spec_id: int) -> FileEntry:
    """The file's description for an event."""
    entry: dict[str, Any] = {name: getattr(file, name) for name in _PLAIN}
    entry |= {name: _pairs(getattr(file, name)) for name in _MAPS}
    entry |= {name: None if getattr(file, name) is None else list(getattr(file, name)) for name in _LISTS}
    return entry | {"content": 0, "file_format": file.file_format.value, "partition": {}, "spec_id": spec_id}


def data_file(entry: FileEntry) -> DataFile:
    """The inverse of :func:`entry_of`: an entry for a manifest."""
    assert not entry["partition"], "unpartitioned tables only"
    found: dict[str, Any] = {name: entry[name] for name in (*_PLAIN, *_LISTS)}
    found |= {name: _mapping(entry[name]) for name in _MAPS}
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_format=FileFormat(entry["file_format"]), partition=Record(), **found
    )
    file.spec_id = entry["spec_id"]
    return file


def _pairs(found: Mapping[int, Any] | None) -> list[dict[str, Any]] | None:
    return None if found is None else [{"key": key, "value": value} for key, value in sorted(found.items())]


def _mapping(pairs: Iterable[Mapping[str, Any]] | None) -> dict[int, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}
