"""Parquet files of a table, and how a file's description travels: never pickled, always by Iceberg's own names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.io.pyarrow import ParquetFormatWriter
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table import TableProperties as P
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.utils.properties import property_as_int

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


GROUP_BYTES = 32 * 2**20
"""Bytes of a row group in memory, some 10 MB in a file.  Iceberg's default, 128 MB, is most of a worker's memory."""


class DataFiles:
    """Writes the rows of one attempt as files of a table, by the table's own settings.

    Rows are held until they fill a row group (``write.parquet.row-group-limit`` rows, or
    ``write.parquet.row-group-size-bytes`` in memory, ``GROUP_BYTES`` if that is not set).  A file is closed once it has
    ``write.target-file-size-bytes``, so it is larger than that by one row group at most, and every file but the last
    holds a whole one.  ``attempt`` makes the names unique: the writer overwrites what has the same name.
    """

    def __init__(self, metadata: TableMetadata, io: FileIO, attempt: UUID) -> None:
        self._metadata, self._io, self._attempt = metadata, io, attempt
        properties = metadata.properties
        self._group_rows = _number(properties, P.PARQUET_ROW_GROUP_LIMIT, P.PARQUET_ROW_GROUP_LIMIT_DEFAULT)
        self._group_bytes = _number(properties, P.PARQUET_ROW_GROUP_SIZE_BYTES, GROUP_BYTES)
        self._target = _number(properties, P.WRITE_TARGET_FILE_SIZE_BYTES, P.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT)
        self._schema = sanitize_column_names(metadata.schema())
        self._locations = load_location_provider(metadata.location, properties)
        self._waiting: list[pa.Table] = []
        self._open: tuple[OutputFile, ParquetFormatWriter] | None = None
        self._done: list[DataFile] = []

    def write(self, rows: pa.Table) -> None:
        """Add rows of the table's schema, as :class:`chsink.mirror.types.TableColumns` makes them."""
        if rows.num_rows:
            self._waiting.append(rows)
        while sum(t.num_rows for t in self._waiting) >= self._group_rows:
            self._write_group()
        if sum(t.nbytes for t in self._waiting) >= self._group_bytes:
            self._write_group()

    def close(self) -> list[DataFile]:
        """Write the held rows and close the last file; returns all files of the attempt."""
        while self._waiting:
            self._write_group()
        self._close_file()
        return self._done

    def _write_group(self) -> None:
        rows = pa.concat_tables(self._waiting)
        group, rest = rows.slice(0, self._group_rows), rows.slice(self._group_rows)
        self._waiting = [rest] if rest.num_rows else []
        if self._open is None:
            self._open = self._new_file()
        writer = self._open[1]
        writer.write(group)
        if writer._fos is not None and writer._fos.tell() >= self._target:
            self._close_file()

    def _new_file(self) -> tuple[OutputFile, ParquetFormatWriter]:
        name = f"00000-{len(self._done)}-{self._attempt}.parquet"
        output = self._io.new_output(self._locations.new_data_location(name))
        # the writer warns about settings that it does not know; this class applies this one itself
        ours = {k: v for k, v in self._metadata.properties.items() if k != P.PARQUET_ROW_GROUP_SIZE_BYTES}
        return output, ParquetFormatWriter(output, self._schema, ours)

    def _close_file(self) -> None:
        if self._open is None:
            return
        (output, writer), self._open = self._open, None
        found = writer.close().to_serialized_dict()
        self._done.append(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=output.location,
                file_format=FileFormat.PARQUET,
                partition=Record(),
                file_size_in_bytes=len(output),
                sort_order_id=None,
                spec_id=self._metadata.default_spec_id,
                equality_ids=None,
                key_metadata=None,
                **found,
            )
        )


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    found = property_as_int(dict(properties), name, default)
    assert found is not None
    return max(found, 1)


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
