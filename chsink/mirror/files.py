"""Parquet files of a table, and how a file's description travels: never pickled, always by Iceberg's own names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ParquetFormatWriter
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table import TableProperties as P
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import StructType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros
from pyiceberg.utils.properties import property_as_int

from chsink.mirror.blooms import PREFIX, BloomFilters
from chsink.mirror.events import FileEntry
from chsink.mirror.partitions import Partitioning
from chsink.mirror.schemas import UNPARTITIONED, partition_name
from chsink.mirror.sorting import Sorting

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
HELD_BYTES = 2 * GROUP_BYTES
"""How many bytes of rows wait in memory, over all partition values."""
SPLIT_BYTES = 16 * 2**20
"""How many bytes of rows are split by partition value at once: each value that they have costs two kilobytes."""
OPEN_FILES = 50
"""How many files are open at once, over all partition values: on S3 each holds a buffer of 5 MB."""


class DataFiles:
    """Writes the rows of one attempt as files of a table, by the table's own settings.

    Each file holds the rows of one partition value.  Rows are held until they fill a row group of their file
    (``write.parquet.row-group-limit`` rows, or ``write.parquet.row-group-size-bytes`` in memory, ``GROUP_BYTES`` if
    that is not set), or until ``HELD_BYTES`` are held in all.  A file is closed once it has
    ``write.target-file-size-bytes``, so it is larger than that by one row group at most.  With more than ``OPEN_FILES``
    partition values, a file may be closed earlier.  ``attempt`` makes the names unique: the writer overwrites what has
    the same name.
    """

    def __init__(self, metadata: TableMetadata, io: FileIO, attempt: UUID) -> None:
        self._settings = _Settings(metadata, io, attempt)
        self._partitioning = Partitioning(metadata.spec(), metadata.schema())
        self._unsplit = _Values(())
        self._waiting: dict[tuple[str, ...], _Values] = {}
        self._held = 0
        self._pinned = 0
        self._open: dict[tuple[str, ...], _OpenFile] = {}
        self._done: list[DataFile] = []
        self._begun = 0

    def write(self, rows: pa.Table) -> None:
        """Add rows of the table's schema, as :class:`chsink.mirror.types.TableColumns` makes them."""
        settings, unsplit = self._settings, self._unsplit
        unsplit.add(rows)
        self._held += rows.nbytes
        if unsplit.rows >= settings.group_rows or unsplit.bytes >= min(SPLIT_BYTES, settings.group_bytes):
            self._split()
        if self._held >= max(HELD_BYTES, settings.group_bytes) and len(self._waiting) > 1:
            self._write_all()
        elif self._pinned >= HELD_BYTES and len(self._waiting) > 1:
            self._unpin()

    @property
    def held(self) -> int:
        """How many bytes of rows wait in memory."""
        return self._held

    def release(self) -> None:
        """Write the held rows and close all files."""
        self._write_all()
        for key in list(self._open):
            self._close_file(key)

    def close(self) -> list[DataFile]:
        """Write the held rows and close all files; returns all files of the attempt."""
        self.release()
        return self._done

    def _split(self) -> None:
        """By partition value; what fills a row group is written."""
        settings, whole = self._settings, self._unsplit
        self._held -= whole.bytes
        self._pinned += whole.bytes
        for part in self._partitioning.split(whole.take(whole.rows)) if whole.rows else ():
            waiting = self._waiting.setdefault(part.key, _Values(part.values))
            waiting.add(part.rows)
            self._held += part.rows.nbytes
            while waiting.rows >= settings.group_rows or waiting.bytes >= settings.group_bytes:
                self._write_group(part.key, waiting)

    def _write_all(self) -> None:
        """All at once, not the largest alone: the rows of small values keep the batches in memory that they are of."""
        self._split()
        for key, waiting in list(self._waiting.items()):
            while waiting.rows:
                self._write_group(key, waiting)
        self._waiting.clear()
        self._pinned = 0

    def _unpin(self) -> None:
        """A few rows of a rare value keep the whole batch in memory that they are a slice of."""
        for waiting in self._waiting.values():
            waiting.copy()
        self._pinned = self._held

    def _write_group(self, key: tuple[str, ...], waiting: _Values) -> None:
        self._held -= waiting.bytes
        group = waiting.take(self._settings.group_rows)
        self._held += waiting.bytes
        file = self._open.pop(key, None) or self._new_file(waiting.values)
        self._open[key] = file  # the last one written is the last one here
        file.write(self._settings.sorting.sorted(group))
        if file.size >= self._settings.target:
            self._close_file(key)
        elif len(self._open) > OPEN_FILES:
            self._close_file(next(iter(self._open)))

    def _new_file(self, values: tuple[Any, ...]) -> _OpenFile:
        name = f"00000-{self._begun}-{self._settings.attempt}.parquet"
        self._begun += 1
        return _OpenFile(self._settings, self._settings.location(name, self._partitioning.folder(values)), values)

    def _close_file(self, key: tuple[str, ...]) -> None:
        self._done.append(self._open.pop(key).close())


class _Values:
    """Rows of one partition value that wait to be written."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values, self.rows, self.bytes = values, 0, 0
        self._tables: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        self._tables.append(rows)
        self.rows += rows.num_rows
        self.bytes += rows.nbytes

    def copy(self) -> None:
        """Let go of the tables that the rows are slices of."""
        if self._tables:  # without a second chunk, nothing would be copied
            self._tables = [pa.concat_tables([*self._tables, self._tables[0].slice(0, 0)]).combine_chunks()]

    def take(self, limit: int) -> pa.Table:
        """The first rows, no more than the limit."""
        rows = pa.concat_tables(self._tables)
        rest = rows.slice(limit)
        self._tables = [rest] if rest.num_rows else []
        self.rows, self.bytes = rest.num_rows, rest.nbytes if rest.num_rows else 0
        return rows.slice(0, limit)


class _Settings:
    """What the table says of its files."""

    def __init__(self, metadata: TableMetadata, io: FileIO, attempt: UUID) -> None:
        self.io, self.attempt, self.spec_id = io, attempt, metadata.default_spec_id
        properties = metadata.properties
        self.group_rows = _number(properties, P.PARQUET_ROW_GROUP_LIMIT, P.PARQUET_ROW_GROUP_LIMIT_DEFAULT)
        self.group_bytes = _number(properties, P.PARQUET_ROW_GROUP_SIZE_BYTES, GROUP_BYTES)
        self.target = _number(properties, P.WRITE_TARGET_FILE_SIZE_BYTES, P.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT)
        self.schema = sanitize_column_names(metadata.schema())
        self.sorting = Sorting(metadata.sort_order(), metadata.schema())
        self.location = load_location_provider(metadata.location, properties).new_data_location
        self.blooms = BloomFilters(metadata.schema(), properties)
        # the writer warns about settings that it does not know; this module applies these itself
        own = (P.PARQUET_ROW_GROUP_SIZE_BYTES, PREFIX)
        self.properties = {k: v for k, v in properties.items() if not k.startswith(own)}


class _OpenFile:
    """One file that is being written."""

    def __init__(self, settings: _Settings, location: str, values: tuple[Any, ...]) -> None:
        self._settings, self._values = settings, values
        self._output = settings.io.new_output(location)
        self._writer = ParquetFormatWriter(self._output, settings.schema, settings.properties)
        self._groups = 0

    def write(self, group: pa.Table) -> None:
        if not self._groups:
            filters = self._settings.blooms.options(group.num_rows)
            self._writer._parquet_writer_kwargs["bloom_filter_options"] = filters
        self._writer.write(group)
        self._groups += 1

    @property
    def size(self) -> int:
        """Bytes so far."""
        return 0 if self._writer._fos is None else int(self._writer._fos.tell())

    def close(self) -> DataFile:
        found = self._writer.close().to_serialized_dict()
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._output.location,
            file_format=FileFormat.PARQUET,
            partition=Record(*self._values),
            file_size_in_bytes=len(self._output),
            sort_order_id=self._settings.sorting.order_id if self._groups == 1 else None,
            spec_id=self._settings.spec_id,
            equality_ids=None,
            key_metadata=None,
            **found,
        )


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    found = property_as_int(dict(properties), name, default)
    assert found is not None
    return max(found, 1)


def entry_of(file: DataFile, spec_id: int, partition: StructType = UNPARTITIONED) -> FileEntry:
    """The file's description for an event; ``partition`` is the type of its partition."""
    entry: dict[str, Any] = {name: getattr(file, name) for name in _PLAIN}
    entry |= {name: _pairs(getattr(file, name)) for name in _MAPS}
    entry |= {name: None if getattr(file, name) is None else list(getattr(file, name)) for name in _LISTS}
    values = {partition_name(field): file.partition[i] for i, field in enumerate(partition.fields)}
    return entry | {"content": 0, "file_format": file.file_format.value, "partition": values, "spec_id": spec_id}


def data_file(entry: FileEntry) -> DataFile:
    """The inverse of :func:`entry_of`: an entry for a manifest."""
    partition = Record(*map(_number_of, entry["partition"].values()))
    found: dict[str, Any] = {name: entry[name] for name in (*_PLAIN, *_LISTS)}
    found |= {name: _mapping(entry[name]) for name in _MAPS}
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_format=FileFormat(entry["file_format"]), partition=partition, **found
    )
    file.spec_id = entry["spec_id"]
    return file


def _pairs(found: Mapping[int, Any] | None) -> list[dict[str, Any]] | None:
    return None if found is None else [{"key": key, "value": value} for key, value in sorted(found.items())]


def _mapping(pairs: Iterable[Mapping[str, Any]] | None) -> dict[int, Any] | None:
    return None if pairs is None else {pair["key"]: pair["value"] for pair in pairs}


def _number_of(value: Any) -> Any:
    """A partition value as a manifest has it: Avro's reader makes dates and times of numbers."""
    match value:
        case datetime():
            return datetime_to_micros(value)
        case date():
            return date_to_days(value)
        case time():
            return time_to_micros(value)
    return value
