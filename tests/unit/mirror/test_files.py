"""Files follow the table's settings, are closed at its target size, and tell the truth about their columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BooleanType, FloatType, ListType, LongType, NestedField, StringType, StructType

from chsink.mirror import files as module
from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.types import TableColumns
from tests.support.iceberg_cases import CASES

Open = Callable[[], Catalog]
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "text", StringType()))

BY_BUCKET = PartitionSpec(PartitionField(1, 1000, BucketTransform(16), "bucket"))


def table_of(open_catalog: Open, properties: Mapping[str, str], schema: Schema = SCHEMA) -> Table:
    return open_catalog().create_table("shop.t", schema, properties=dict(properties))


def batch(table: Table, low: int, high: int) -> pa.Table:
    arrow = TableColumns(table.schema()).arrow
    return pa.table([range(low, high), [f"{n:040}" for n in range(low, high)]], schema=arrow)


def written(table: Table, *batches: pa.Table) -> list[DataFile]:
    files = DataFiles(table.metadata, table.io, uuid4())
    for rows in batches:
        files.write(rows)
    return files.close()


def footer(file: DataFile) -> Any:
    return pq.read_metadata(file.file_path.removeprefix("file://"))


def append(table: Table, files: list[DataFile]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        for file in files:
            update.append_data_file(data_file(entry_of(file, 0)))


@pytest.mark.parametrize(
    ("properties", "codec"),
    [
        ({}, "ZSTD"),
        ({"write.parquet.compression-codec": "snappy"}, "SNAPPY"),
        ({"write.parquet.compression-codec": "uncompressed"}, "UNCOMPRESSED"),
        ({"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": "9"}, "GZIP"),
    ],
)
def test_the_codec_is_the_tables(open_catalog: Open, properties: dict[str, str], codec: str) -> None:
    """W-2: read from the footer."""
    table = table_of(open_catalog, properties)
    (file,) = written(table, batch(table, 0, 100))
    assert footer(file).row_group(0).column(1).compression == codec


def test_row_groups_are_the_tables(open_catalog: Open) -> None:
    """W-2: by rows, whatever comes at once."""
    table = table_of(open_catalog, {"write.parquet.row-group-limit": "100"})
    (file,) = written(table, batch(table, 0, 30), batch(table, 30, 120), batch(table, 120, 350), batch(table, 350, 350))
    found = footer(file)
    assert [found.row_group(n).num_rows for n in range(found.num_row_groups)] == [100, 100, 100, 50]
    assert file.record_count == 350 and len(file.split_offsets or ()) == 4
    assert pq.read_table(file.file_path.removeprefix("file://"), columns=["id"]).column(0).to_pylist() == [*range(350)]


def test_row_groups_are_bounded_by_memory(open_catalog: Open) -> None:
    """W-2, T-10: ``write.parquet.row-group-size-bytes`` bounds what is held."""
    table = table_of(open_catalog, {"write.parquet.row-group-size-bytes": "5000"})
    (file,) = written(table, *(batch(table, n, n + 60) for n in range(0, 600, 60)))
    assert footer(file).num_row_groups == 5


def test_other_settings_are_the_tables(open_catalog: Open) -> None:
    """W-2: no dictionary page beyond its limit, columns without statistics, a data folder of the table's choice."""
    properties = {
        "write.parquet.dict-size-bytes": "64",
        "write.metadata.metrics.column.text": "none",
        "write.data.path": f"{open_catalog().properties['warehouse']}/elsewhere",
    }
    table = table_of(open_catalog, properties)
    (file,) = written(table, batch(table, 0, 5000))
    assert "/elsewhere/" in file.file_path and set(file.lower_bounds or ()) == {1}
    assert "PLAIN" in footer(file).row_group(0).column(1).encodings


def test_bloom_filters_where_the_table_asks(open_catalog: Open) -> None:
    """W-2: read from the footer.  Inside structs and lists too; none for booleans, and none where nobody asks."""
    inside = StructType(NestedField(11, "x y", StringType()), NestedField(12, "flag", BooleanType()))
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "text", StringType()),
        NestedField(3, "in", inside),
        NestedField(4, "many", ListType(13, StringType(), element_required=False)),
    )
    on = "write.parquet.bloom-filter-enabled.column."
    asked = {on + name: "true" for name in ("id", "in.x y", "in.flag", "many.element", "gone")}
    table = table_of(open_catalog, {**asked, f"{on}text": "false"}, schema)
    assert bloom_bytes(table, 1000) == {"id": 2048, "in.x_x20y": 2048, "many.list.element": 2048}
    with table.transaction() as change:
        change.set_properties({"write.parquet.bloom-filter-fpp.column.id": "0.5"})
        change.set_properties({"write.parquet.bloom-filter-max-bytes": "1500"})
    assert bloom_bytes(table, 1000) == {"id": 512, "in.x_x20y": 1024, "many.list.element": 1024}
    assert bloom_bytes(table, 1) == {"id": 32, "in.x_x20y": 32, "many.list.element": 32}


def bloom_bytes(table: Table, rows: int) -> dict[str, int]:
    """By column of the file: the size of its filter's bits, where it has one.  The header has some 15 bytes."""
    each = [{"id": n, "text": "x", "in": {"x_x20y": f"x{n}", "flag": True}, "many": [f"y{n}"]} for n in range(rows)]
    (file,) = written(table, pa.Table.from_pylist(each, schema=TableColumns(table.schema()).arrow))
    columns = [footer(file).row_group(0).column(n) for n in range(5)]
    return {c.path_in_schema: c.bloom_filter_length & ~31 for c in columns if c.bloom_filter_offset is not None}


def test_a_file_is_closed_at_the_target_size(open_catalog: Open) -> None:
    """⚑ T-10: a unit has as many files as its bytes need, on disk; each but the last has a whole row group."""
    small = {"write.parquet.row-group-limit": "1000", "write.parquet.compression-codec": "uncompressed"}
    table = table_of(open_catalog, {**small, "write.target-file-size-bytes": "100000"})
    files = written(table, *(batch(table, n, n + 700) for n in range(0, 14_000, 700)))
    sizes = [file.file_size_in_bytes for file in files]
    assert len(files) == 7 and all(100_000 <= size < 170_000 for size in sizes[:-1])
    assert len({file.file_path for file in files}) == 7
    append(table, files)
    assert table.refresh().scan().to_arrow().column("id").to_pylist() == [*range(14_000)]


@pytest.mark.parametrize("spec", [UNPARTITIONED_PARTITION_SPEC, BY_BUCKET])
def test_a_longer_range_holds_no_more_memory(
    open_catalog: Open, monkeypatch: pytest.MonkeyPatch, spec: PartitionSpec
) -> None:
    """O-3: once what may be held is full, Arrow's memory stays as it is, however many rows come."""
    monkeypatch.setattr(module, "HELD_BYTES", 400_000)
    properties = {"write.parquet.row-group-size-bytes": "200000"}
    table = open_catalog().create_table("shop.t", SCHEMA, partition_spec=spec, properties=properties)

    def most(batches: int) -> int:
        files, before, found = DataFiles(table.metadata, table.io, uuid4()), pa.total_allocated_bytes(), 0
        for number in range(batches):
            files.write(batch(table, number * 1000, number * 1000 + 1000))
            found = max(found, pa.total_allocated_bytes() - before)
        assert sum(file.record_count for file in files.close()) == batches * 1000
        return found

    assert most(80) <= 1.1 * most(20)


def test_one_file_by_default(open_catalog: Open) -> None:
    """T-10: one trigger, one range, one file, however many batches bring it; none where there is no row."""
    table = table_of(open_catalog, {})
    assert len(written(table, *(batch(table, n, n + 100) for n in range(0, 5000, 100)))) == 1
    assert written(table, batch(table, 0, 0)) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bounds_and_nulls_of_a_column(case: Any, open_catalog: Open) -> None:
    """⚑ A bound that is too narrow hides rows: each value is found by a filter on it, and counts are right."""
    schema = Schema(NestedField(1, "c", case.kind))
    table = table_of(open_catalog, {}, schema)
    decoder = TableColumns(table.schema())
    texts = [*(text for text, _ in case.fits), "null", "null"]
    records = pa.RecordBatch.from_pydict({"value": pa.array([f'{{"c": {t}}}'.encode() for t in texts], pa.binary())})
    (file,) = written(table, decoder.decode(records).batch)
    assert file.record_count == len(texts) and dict(file.null_value_counts or {}) == {1: 2}
    assert dict(file.value_counts or {}) == {1: len(texts)}
    append(table, [file])
    table.refresh()
    equal: Any = EqualTo
    for _, value in case.fits:
        if not (isinstance(value, float) and not math.isfinite(value)):
            assert len(list(table.scan(row_filter=equal("c", value)).plan_files())) == 1, value


def test_a_scan_prunes_files(open_catalog: Open) -> None:
    """Files outside a filter's range are not read; truncated bounds of texts hide none."""
    table = table_of(open_catalog, {})
    for low in (0, 1000, 2000):
        append(table.refresh(), written(table, batch(table, low, low + 1000)))
    table.refresh()
    assert len(list(table.scan(row_filter="id = 1500").plan_files())) == 1
    assert len(list(table.scan(row_filter="id > 2999").plan_files())) == 0
    assert table.scan(row_filter=f"text = '{1500:040}'").to_arrow().column("id").to_pylist() == [1500]


def test_nan_is_in_no_bound_and_infinity_is_one(open_catalog: Open) -> None:
    """A column of NaN alone has no bound."""
    schema = Schema(*(NestedField(n, name, FloatType()) for n, name in enumerate("abc", 1)))
    table = table_of(open_catalog, {}, schema)
    rows = [[1.0, math.nan, -2.0], [math.nan] * 3, [math.inf, -math.inf, 0.0]]
    (file,) = written(table, pa.table(rows, schema=TableColumns(table.schema()).arrow))
    bounds: Any = [
        {k: from_bytes(FloatType(), v) for k, v in (b or {}).items()} for b in (file.lower_bounds, file.upper_bounds)
    ]
    assert bounds == [{1: -2.0, 3: -math.inf}, {1: 1.0, 3: math.inf}]
    append(table, [file])
    assert table.refresh().scan(row_filter="a is nan").to_arrow().num_rows == 1


def test_odd_names_of_columns(open_catalog: Open) -> None:
    """Files use names that Avro takes; fields are found by their ids."""
    schema = Schema(NestedField(1, "preis €", LongType()), NestedField(2, "1st", LongType()))
    table = table_of(open_catalog, {}, schema)
    records = pa.RecordBatch.from_pydict({"value": pa.array(['{"preis €": 1, "1st": 2}'.encode()], pa.binary())})
    append(table, written(table, TableColumns(table.schema()).decode(records).batch))
    assert table.refresh().scan().to_arrow().to_pylist() == [{"preis €": 1, "1st": 2}]
