"""Every transform over every type: one value a file, equal to Iceberg's own, and found by a filter."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros, time_to_micros

from chsink.mirror import files as files_module
from chsink.mirror.append import AppendBySpec
from chsink.mirror.events import DataWritten, Event, TableReference, UnitTag, decode, encode, split
from chsink.mirror.files import DataFiles, data_file, entry_of
from chsink.mirror.partitions import Partitioning, unusable
from chsink.mirror.types import TableColumns

Open = Callable[[], Catalog]
UTC = dt.UTC


def spec_of(transform: Transform[Any, Any]) -> PartitionSpec:
    return PartitionSpec(PartitionField(2, 1000, transform, "p"))


VALUES: dict[IcebergType, list[Any]] = {
    BooleanType(): [True, False],
    IntegerType(): [-(2**31), 2**31 - 1, 0, -1, 34],
    LongType(): [-(2**63), 2**63 - 1, -1, 0, 34],
    FloatType(): [0.5, -1.5, math.inf],
    DoubleType(): [0.5, -1.5, -math.inf],
    DecimalType(9, 2): [Decimal("14.20"), Decimal("-0.01"), Decimal("-9999999.99")],
    DecimalType(38, 10): [Decimal("9999999999999999999999999999.0000000001"), Decimal("-0.0000000001")],
    DateType(): [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    TimeType(): [dt.time(22, 31, 8, 5), dt.time(0)],
    TimestampType(): [
        dt.datetime.fromisoformat("0001-01-01 00:00:00"),
        dt.datetime.fromisoformat("1969-12-31 23:59:59.999999"),
        dt.datetime.fromisoformat("2026-11-24 01:00:00"),
    ],
    TimestamptzType(): [
        dt.datetime(1, 1, 1, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        dt.datetime(9999, 12, 31, 23, tzinfo=UTC),
    ],
    StringType(): ["iceberg", "", "é😀abc", "a/b=c&ü", "..", "x" * 300],
    BinaryType(): [b"\0\1\2\3", b"", b"abcdefghijkl"],
    FixedType(4): [b"\0\1\2\3", b"abcd"],
    UUIDType(): [UUID(int=7), UUID(int=2**127)],
}
TRANSFORMS: list[Transform[Any, Any]] = [
    *(IdentityTransform(), BucketTransform(16), TruncateTransform(3), VoidTransform()),
    *(YearTransform(), MonthTransform(), DayTransform(), HourTransform()),
]
CASES = [
    (kind, transform)
    for kind in VALUES
    for transform in TRANSFORMS
    if transform.can_transform(kind) and not unusable(spec_of(transform), Schema(NestedField(2, "c", kind)))
]


def test_what_cannot_be_written_is_named() -> None:
    schema = Schema(NestedField(2, "c", UUIDType()))
    assert unusable(spec_of(IdentityTransform()), schema) == (
        "p: identity of a uuid, whose rows pyiceberg does not find",
    )
    promised = NestedField(2, "c", LongType(), required=True)
    assert "cannot write the null" in unusable(spec_of(VoidTransform()), Schema(promised))[0]
    assert (
        "cannot write the null"
        in unusable(spec_of(IdentityTransform()), Schema(NestedField(1, "s", StructType(promised))))[0]
    )
    held = Schema(NestedField(1, "s", StructType(promised), required=True))
    assert not unusable(spec_of(IdentityTransform()), held)
    inside = Schema(NestedField(1, "l", ListType(2, LongType())))
    assert "not a single value" in unusable(spec_of(IdentityTransform()), inside)[0]
    assert "not a single value" in unusable(spec_of(IdentityTransform()), Schema(NestedField(1, "n", LongType())))[0]


def internal(value: Any) -> Any:
    """As Iceberg's transforms take it."""
    match value:
        case dt.datetime():
            return datetime_to_micros(value)
        case dt.date():
            return date_to_days(value)
        case dt.time():
            return time_to_micros(value)
    return value


def plain(transform: Callable[[Any], Any], value: Any) -> Any:
    """What a manifest has."""
    return transform(internal(value))


def made(open_catalog: Open, schema: Schema, *fields: PartitionField, order: SortOrder | None = None) -> Table:
    spec = PartitionSpec(*fields)
    extra: dict[str, Any] = {} if order is None else {"sort_order": order}
    return open_catalog().create_table("shop.t", schema, partition_spec=spec, **extra)


def rows_of(table: Table, **columns: list[Any]) -> pa.Table:
    arrow = TableColumns(table.schema()).arrow
    arrays = list[pa.Array]()
    for field in arrow:
        values = columns[field.name]
        if isinstance(field.type, pa.ExtensionType):
            stored = pa.array([None if v is None else v.bytes for v in values], field.type.storage_type)
            arrays.append(pa.ExtensionArray.from_storage(field.type, stored))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=arrow)


def written(table: Table, *batches: pa.Table) -> list[DataFile]:
    """Files as a coordinator has them: their description has travelled in an event."""
    writer = DataFiles(table.metadata, table.io, uuid4())
    for rows in batches:
        writer.write(rows)
    partition = table.spec().partition_type(table.schema())
    entries = [entry_of(file, table.spec().spec_id, partition) for file in writer.close()]
    tag = UnitTag("u", "t", "orders", "id", 0, 0, 1, 0, 1, table.spec().spec_id)
    found = []
    for group in split(entries, partition):
        reference = TableReference("lake", ("shop",), "t")
        event = Event(uuid4(), dt.datetime.now(UTC), "g", DataWritten(uuid4(), reference, group, tag, partition))
        read = decode(encode(event))
        assert read is not None and isinstance(read.payload, DataWritten)
        found += [data_file(entry) for entry in read.payload.files]
    return found


def append(table: Table, files: list[DataFile]) -> Table:
    producer = AppendBySpec(table, uuid4(), {}, "main")
    for file in files:
        producer.append_data_file(file)
    updates, requirements = producer._commit()
    table.catalog.commit_table(table, requirements, updates)
    return table.refresh()


def content(file: DataFile, column: str = "c") -> list[Any]:
    found: list[Any] = pq.read_table(file.file_path.removeprefix("file://"), columns=[column]).column(0).to_pylist()
    return found


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("kind", "transform"),
    [
        (StringType(), IdentityTransform()),
        (DateType(), IdentityTransform()),
        (TimestamptzType(), DayTransform()),
        (LongType(), BucketTransform(4)),
    ],
    ids=str,
)
def test_the_column_of_an_earlier_spec_is_dropped(
    open_catalog: Open, kind: IcebergType, transform: Transform[Any, Any], waits: bool
) -> None:
    """⚑ Every commit failed: neither the merged manifests of that spec could be written, nor one of files that waited."""
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "c", kind))
    table = made(open_catalog, schema, PartitionField(2, 1000, transform, "p"))
    first, second, late = (written(table, rows_of(table, n=[n], c=[VALUES[kind][0]])) for n in range(3))
    append(table, first)
    append(table, second)
    with table.update_spec() as spec:
        spec.remove_field("p")
    with table.update_schema() as change:
        change.delete_column("c")
    table = open_catalog().load_table("shop.t")
    now = append(table, late if waits else written(table, rows_of(table, n=[2])))
    assert sorted(now.scan().to_arrow().column("n").to_pylist()) == [0, 1, 2]
    head = now.current_snapshot()
    assert head is not None
    files = [e.data_file for m in head.manifests(now.io) for e in m.fetch_manifest_entry(now.io)]
    assert sorted(file.spec_id for file in files) == [0, 0, 0 if waits else 1]
    assert {repr(file.partition) for file in files if file.spec_id == 0} == {repr(late[0].partition)}


@pytest.mark.parametrize(("kind", "transform"), CASES, ids=str)
def test_one_value_a_file(open_catalog: Open, kind: IcebergType, transform: Transform[Any, Any]) -> None:
    """⚑ W-3: a file under a wrong value is skipped by filters that should find its rows."""
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "c", kind))
    table = made(open_catalog, schema, PartitionField(2, 1000, transform, "p"))
    apply = partial(plain, transform.transform(kind))
    refused = Partitioning(table.spec(), table.schema()).checks
    values = [v for v in VALUES[kind] if not (refused and v == min(VALUES[kind]) and not isinstance(v, str | bytes))]
    values = [*values, None, *values]
    batch = rows_of(table, n=list(range(len(values))), c=values)
    files = written(table, batch.slice(0, 3), batch.slice(3))
    expected = {repr(apply(value)) for value in values}
    assert {repr(file.partition[0]) for file in files} == expected and len(files) == len(expected)
    for file in files:
        numbers = content(file, "n")
        assert {repr(apply(values[n])) for n in numbers} == {repr(file.partition[0])}
    now = append(table, files)
    assert sorted(now.scan().to_arrow().column("n").to_pylist()) == list(range(len(values)))
    equal: Any = EqualTo
    is_null: Any = IsNull
    filters = {v: equal("c", v) for v in values if v is not None and not (isinstance(v, float) and math.isinf(v))}
    for value, condition in [*filters.items(), (None, is_null("c"))]:
        numbers = [n for task in now.scan(row_filter=condition).plan_files() for n in content(task.file, "n")]
        assert {n for n, v in enumerate(values) if v == value} <= set(numbers), value


def test_values_that_truncation_would_wrap_do_not_fit(open_catalog: Open) -> None:
    """⚑ The least integer would be filed under the largest one."""
    schema = Schema(
        NestedField(1, "i", IntegerType()), NestedField(2, "l", LongType()), NestedField(3, "d", DecimalType(5, 2))
    )
    fields = [PartitionField(n, 999 + n, TruncateTransform(100), f"p{n}") for n in (1, 2, 3)]
    table = made(open_catalog, schema, *fields)
    texts = [b'{"i":-2147483648}', b'{"l":-9223372036854775808}', b'{"d":-999.99}', b'{"i":5,"l":5,"d":5.25}', b"{}"]
    decoded = TableColumns(table.schema(), spec=table.spec()).decode(
        pa.RecordBatch.from_pydict({"value": pa.array(texts, pa.binary())})
    )
    assert [(bad.row, bad.column) for bad in decoded.bad] == [(0, "i"), (1, "l"), (2, "d")]
    assert decoded.bad[0].reason == "out of range for partition field 'p1'"
    assert decoded.rows.to_pylist() == [3, 4] and len(written(table, decoded.batch)) == 2


def test_fields_of_structs(open_catalog: Open) -> None:
    """⚑ W-3: a table may be partitioned and sorted by fields inside structs; null where a struct is."""
    inner = StructType(NestedField(4, "n", IntegerType()), NestedField(5, "ts", TimestampType()))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StructType(NestedField(3, "in", inner))))
    held = schema.find_field("s.in.n").field_id, schema.find_field("s.in.ts").field_id
    fields = [
        PartitionField(held[1], 1000, DayTransform(), "day"),
        PartitionField(held[0], 1001, TruncateTransform(10), "tens"),
    ]
    order = SortOrder(SortField(held[0], IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST))
    table = made(open_catalog, schema, *fields, order=order)
    texts = [f'{{"id":{n},"s":{{"in":{{"n":{n},"ts":"2026-01-{n % 2 + 1:02}T10:00:00"}}}}}}' for n in range(20)]
    texts += ['{"id":20}', '{"id":21,"s":{"in":null}}', '{"s":{"in":{"n":-2147483648}}}']
    decoded = TableColumns(table.schema(), spec=table.spec()).decode(
        pa.RecordBatch.from_pydict({"value": pa.array([text.encode() for text in texts], pa.binary())})
    )
    assert [(bad.row, bad.column) for bad in decoded.bad] == [(22, "s.in.n")]
    files = written(table, decoded.batch)
    first = date_to_days(dt.date(2026, 1, 1))
    expected: dict[Any, list[int]] = {
        (first + day, tens): list(range(tens + 8 + day, tens - 1, -2)) for day in (0, 1) for tens in (0, 10)
    }
    assert {(file.partition[0], file.partition[1]): content(file, "id") for file in files} == {
        **expected,
        (None, None): [20, 21],
    }
    assert {file.sort_order_id for file in files} == {table.sort_order().order_id}
    now = append(table, files)
    equal: Any = EqualTo
    assert [now.scan(row_filter=equal("s.in.n", n)).to_arrow().column("id").to_pylist() for n in range(20)] == [
        [n] for n in range(20)
    ]
    assert len([*now.scan(row_filter=equal("s.in.n", 3)).plan_files()]) == 2, "files of one ten"


def test_nan_is_one_value_and_the_zeros_are_two(open_catalog: Open) -> None:
    """Iceberg orders -0.0 below 0.0."""
    table = made(
        open_catalog, Schema(NestedField(1, "c", DoubleType())), PartitionField(1, 1000, IdentityTransform(), "p")
    )
    files = written(table, rows_of(table, c=[0.0, math.nan, -0.0, None]), rows_of(table, c=[-math.nan, 0.0]))
    assert sorted(repr(file.partition[0]) for file in files) == ["-0.0", "0.0", "None", "nan"]
    assert sum(file.record_count for file in files) == 6
    assert append(table, files).scan().to_arrow().num_rows == 6


def test_several_fields_and_a_name_that_avro_does_not_take(open_catalog: Open) -> None:
    schema = Schema(NestedField(1, "day", DateType()), NestedField(2, "preis €", LongType()))
    fields = [PartitionField(1, 1000, DayTransform(), "d"), PartitionField(2, 1001, BucketTransform(2), "preis €_b")]
    table = made(open_catalog, schema, *fields)
    days = [dt.date(2026, 1, 1 + n % 3) for n in range(60)]
    rows = pa.Table.from_arrays(
        [pa.array(days, pa.date32()), pa.array(range(60), pa.int64())], schema=TableColumns(table.schema()).arrow
    )
    files = written(table, rows)
    assert len(files) == 6 and all("d=2026-01-0" in file.file_path for file in files)
    now = append(table, files)
    equal: Any = EqualTo
    for n in range(60):
        assert now.scan(row_filter=equal("preis €", n)).to_arrow().num_rows == 1


def by_value(open_catalog: Open) -> Table:
    """A table of numbers, partitioned by them."""
    return made(
        open_catalog, Schema(NestedField(1, "c", LongType())), PartitionField(1, 1000, IdentityTransform(), "p")
    )


def test_many_values_in_one_range(open_catalog: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ W-3: no more than some files are open, and no more than some rows are held."""
    table = by_value(open_catalog)
    monkeypatch.setattr(files_module, "HELD_BYTES", 4_000)
    monkeypatch.setattr(files_module, "OPEN_FILES", 7)
    table.metadata.properties["write.parquet.row-group-size-bytes"] = "4000"
    writer = DataFiles(table.metadata, table.io, uuid4())
    for low in range(0, 400, 50):
        writer.write(rows_of(table, c=[n for n in range(low, low + 50) for _ in range(4)]))
        assert writer._held < 4_000 + 50 * 4 * 8 and len(writer._open) <= 7
    files = writer.close()
    assert not writer._held and sum(file.record_count for file in files) == 1600
    assert {file.partition[0] for file in files} == set(range(400)) and all(len(set(content(f))) == 1 for f in files)


def test_a_value_costs_memory_once_for_many_batches(open_catalog: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ W-3: each batch had a slice for each of its values: with 10,000 values, a worker's memory grew to a gigabyte."""
    table = by_value(open_catalog)
    monkeypatch.setattr(files_module, "SPLIT_BYTES", 8 * 400)
    writer = DataFiles(table.metadata, table.io, uuid4())
    for _ in range(30):
        writer.write(rows_of(table, c=list(range(40))))
    waiting = [len(values._tables) for values in writer._waiting.values()]
    assert waiting == [3] * 40, "30 batches of 40 values were split 3 times"
    assert sum(file.record_count for file in writer.close()) == 1200


def test_a_few_rows_of_a_rare_value_keep_no_batches(open_catalog: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ W-3: each was a slice that kept its whole batch in memory, which nobody counted: it grew with the range."""
    table = by_value(open_catalog)
    monkeypatch.setattr(files_module, "SPLIT_BYTES", 80_000)
    monkeypatch.setattr(files_module, "HELD_BYTES", 400_000)
    table.metadata.properties["write.parquet.row-group-size-bytes"] = "160000"
    writer = DataFiles(table.metadata, table.io, uuid4())
    before = pa.total_allocated_bytes()
    for _ in range(100):
        writer.write(rows_of(table, c=[1] * 9_999 + [2]))
    assert pa.total_allocated_bytes() - before < 2_000_000, "eight megabytes were written"
    files = writer.close()
    assert sum(file.record_count for file in files) == 1_000_000
    assert {(file.partition[0], *set(content(file))) for file in files} == {(1, 1), (2, 2)}


@pytest.mark.parametrize("nulls", list(NullOrder))
@pytest.mark.parametrize("direction", list(SortDirection))
def test_rows_are_sorted_as_the_table_asks(open_catalog: Open, direction: SortDirection, nulls: NullOrder) -> None:
    """Within a file; a file that is sorted whole says so."""
    order = SortOrder(SortField(2, IdentityTransform(), direction, nulls))
    schema = Schema(NestedField(1, "p", LongType()), NestedField(2, "c", StringType()))
    table = made(open_catalog, schema, PartitionField(1, 1000, IdentityTransform(), "p"), order=order)
    values = ["b", None, "a", "c", "", None, "ab"]
    files = written(table, rows_of(table, p=[1] * 7, c=values), rows_of(table, p=[2] * 7, c=values))
    present = sorted((v for v in values if v is not None), reverse=direction is SortDirection.DESC)
    expected = [None, None, *present] if nulls is NullOrder.NULLS_FIRST else [*present, None, None]
    assert [content(file) for file in files] == [expected, expected]
    assert {file.sort_order_id for file in files} == {table.sort_order().order_id} != {0}
