"""The same records in Iceberg and in ClickHouse: read back by pyiceberg and by ClickHouse's own reader of Iceberg.

One record for each value of the types' cases sets one column of a wide table.  ``icebergLocal`` of the engine reads
what the mirror committed.  It knows every flat type; of a ``time`` it gives the whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from chsink.decode import INSERT_SETTINGS, Column, Decoded, JsonDecoder
from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import Bench
from tests.support.clickhouse_http import connected
from tests.support.iceberg_cases import CASES, NESTED, same, type_in_clickhouse
from tests.support.kafka import produce

MakeBench = Callable[..., Bench]
AS_ICEBERG = {"fixed[4]": "base64Decode({})", "binary": "base64Decode({})", "time": "toInt64({})"}
"""How a ClickHouse value is compared with what the engine reads of Iceberg."""
ICEBERG_ONLY = {'"0001-01-01"', '"9999-12-31"', '"0001-01-01T00:00:00"', '"9999-12-31T23:59:59.999999"', '"12:34"'}
"""What ClickHouse's type cannot hold, or not in this form."""
WIDE = Schema(
    NestedField(1, "_kafka_offset", LongType(), required=True),
    *(NestedField(2 + n, f"c{n}", case.kind) for n, case in enumerate(CASES)),
)
FITS = [(n, text, value) for n, case in enumerate(CASES) for text, value in case.fits]
BAD = [(n, text) for n, case in enumerate(CASES) for text in case.bad]


def record(n: int, text: str) -> bytes:
    return f'{{"c{n}": {text}}}'.encode()


@pytest.fixture
def client(clickhouse: list[EmbeddedClickHouse]) -> Client:
    return connected(clickhouse[0])


def in_clickhouse(client: Client, table: str, values: list[bytes]) -> Decoded:
    """A ClickHouse table of the records that fit it; what did not."""
    columns = [Column(f"c{n}", f"Nullable({type_in_clickhouse(case.kind)})") for n, case in enumerate(CASES)]
    ddl = ", ".join(f"{column.name} {column.type}" for column in columns)
    client.command(f"CREATE TABLE {table} (at Int64, {ddl}) ENGINE = Memory", settings={"enable_time_time64_type": 1})
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(values, pa.binary()))
    assert decoded.rows is not None
    batch = decoded.batch.append_column("at", decoded.rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    client.raw_insert(
        table, batch.schema.names, sink.getvalue().to_pybytes(), settings=INSERT_SETTINGS, fmt="ArrowStream"
    )
    return decoded


def test_every_type_on_both_sides(make_bench: MakeBench, clickhouse: list[EmbeddedClickHouse], client: Client) -> None:
    """⚑ W-4, W-5: rows in Iceberg are the records that fit it, exactly; read by ClickHouse they equal the rows of a
    ClickHouse table, wherever a record fits both; what fits one side lands there alone.
    """
    folder = clickhouse[0].path / "user_files" / f"lake-{uuid4().hex[:8]}"
    bench = make_bench(folder=folder, tables=("wide",), schemas={"wide": WIDE})
    coordinator = bench.coordinator()
    values = [*(record(n, text) for n, text, _ in FITS), *(record(n, text) for n, text in BAD)]
    _, end = produce(bench.kafka.bootstrap, bench.topic, 0, values)
    report = bench.worker(halt_on_bad_value=False).run(OffsetRange(0, end), bench.records())
    bench.round(coordinator)
    assert (report.tables["shop.wide"].rows, report.tables["shop.wide"].skipped) == (len(FITS), len(BAD))
    first_bad = f"offset {len(FITS)}: column 'c0': "
    assert first_bad in report.tables["shop.wide"].first_skipped

    table = bench.catalog().load_table("shop.wide")
    rows = {row["_kafka_offset"]: row for row in table.scan().to_arrow().to_pylist()}
    assert sorted(rows) == [*range(len(FITS))]
    for at, (n, text, value) in enumerate(FITS):
        set_here = {name: found for name, found in rows[at].items() if name.startswith("c") and found is not None}
        assert [*set_here] == [f"c{n}"] and same(set_here[f"c{n}"], value), text

    other = f"wide_{uuid4().hex[:8]}"
    decoded = in_clickhouse(client, other, values)
    iceberg = f"icebergLocal('{table.location().removeprefix('file://')}')"
    only = client.query(f"SELECT _kafka_offset FROM {iceberg} WHERE _kafka_offset NOT IN (SELECT at FROM {other})")
    assert {FITS[at][1] for (at,) in only.result_rows} == ICEBERG_ONLY
    only = client.query(f"SELECT at FROM {other} WHERE at NOT IN (SELECT _kafka_offset FROM {iceberg})")
    taken = {str(CASES[BAD[at - len(FITS)][0]].kind) for (at,) in only.result_rows}
    assert taken == {"time", "fixed[4]", "binary"}, "forms that only ClickHouse's types take"
    both = decoded.batch.num_rows - len(only.result_rows)
    for n, case in enumerate(CASES):
        mine = AS_ICEBERG.get(str(case.kind), "{}").format(f"m.c{n}")
        differ = client.query(
            f"SELECT count(), countIf(toString(i.c{n}) IS DISTINCT FROM toString({mine})) "
            f"FROM {iceberg} AS i JOIN {other} AS m ON m.at = i._kafka_offset"
        )
        assert differ.result_rows == [(both, 0)], case


def test_structs_lists_and_maps(make_bench: MakeBench, clickhouse: list[EmbeddedClickHouse], client: Client) -> None:
    """⚑ W-5: read back by pyiceberg, each exactly; ClickHouse's reader finds the fields by their ids, too."""
    folder = clickhouse[0].path / "user_files" / f"lake-{uuid4().hex[:8]}"
    columns = [NestedField(2 + n, f"c{n}", case.kind) for n, case in enumerate(NESTED)]
    schema = Schema(NestedField(1, "_kafka_offset", LongType(), required=True), *columns)
    bench = make_bench(folder=folder, tables=("nested",), schemas={"nested": schema})
    coordinator = bench.coordinator()
    fits = [(n, text, value) for n, case in enumerate(NESTED) for text, value in case.fits]
    bad = [(n, text) for n, case in enumerate(NESTED) for text in case.bad]
    values = [*(record(n, text) for n, text, _ in fits), *(record(n, text) for n, text in bad)]
    _, end = produce(bench.kafka.bootstrap, bench.topic, 0, values)
    report = bench.worker(halt_on_bad_value=False).run(OffsetRange(0, end), bench.records())
    bench.round(coordinator)
    assert (report.tables["shop.nested"].rows, report.tables["shop.nested"].skipped) == (len(fits), len(bad))
    table = bench.catalog().load_table("shop.nested")
    rows = {row.pop("_kafka_offset"): row for row in table.scan().to_arrow().to_pylist()}
    expected = {
        at: {f"c{m}": value if m == n else None for m in range(len(NESTED))} for at, (n, _, value) in enumerate(fits)
    }
    assert rows == expected

    iceberg = f"icebergLocal('{table.location().removeprefix('file://')}')"
    found = client.query(f"SELECT c0.a, c0.b, c1, c2 FROM {iceberg} ORDER BY _kafka_offset").result_rows
    assert found[0][:2] == (1, None) and found[1][:2] == (1, "x")
    of_lists = [at for at, (n, _, _) in enumerate(fits) if n == 1]
    assert [found[at][2] for at in of_lists] == [fits[at][2] for at in of_lists]
    of_maps = [at for at, (n, _, _) in enumerate(fits) if n == 2]
    assert [found[at][3] for at in of_maps] == [dict(fits[at][2]) for at in of_maps]


def test_tables_of_different_schemas(make_bench: MakeBench) -> None:
    """⚑ F-4: a record lands where it fits, and is counted where it does not; each table has its own chain."""
    numbers = Schema(NestedField(1, "id", IntegerType(), required=True), NestedField(2, "_kafka_offset", LongType()))
    words = Schema(
        NestedField(7, "_kafka_offset", LongType()),
        NestedField(3, "id", StringType()),
        NestedField(5, "name", StringType(), required=True),
    )
    bench = make_bench(tables=("numbers", "words"), schemas={"numbers": numbers, "words": words})
    coordinator = bench.coordinator()
    values = [b'{"id": 1, "name": "a"}', b'{"id": "x", "name": "b"}', b'{"id": 2}', b"[]", None]
    _, end = produce(bench.kafka.bootstrap, bench.topic, 0, values)
    report = bench.worker(halt_on_bad_value=False).run(OffsetRange(0, end), bench.records())
    bench.round(coordinator)
    found = {name: bench.catalog().load_table(f"shop.{name}").scan().to_arrow().to_pylist() for name in bench.tables}
    assert found["numbers"] == [{"id": 1, "_kafka_offset": 0}, {"id": 2, "_kafka_offset": 2}]
    assert [(row["_kafka_offset"], row["id"], row["name"]) for row in found["words"]] == [(0, "1", "a"), (1, "x", "b")]
    assert {t: (w.rows, w.skipped) for t, w in report.tables.items()} == {"shop.numbers": (2, 3), "shop.words": (2, 3)}
    assert "offset 1: column 'id': a string that is not a number in int" in report.tables["shop.numbers"].first_skipped
    assert bench.group_at() == end and [bench.snapshots(name) for name in bench.tables] == [1, 1]
