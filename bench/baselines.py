"""The at-least-once jobs that people write today, as fast as they get.  Imports nothing from chsink.

(b)  ``from_json`` in the JVM, then ``insert_arrow`` of each Arrow batch from ``mapInArrow``: no token, no state.
(b2) raw values to ``mapInArrow``, sent as one ``JSONEachRow`` body per Arrow batch: ClickHouse parses.
(p)  raw values to ``mapInArrow``, parsed by Arrow and written to one Parquet file a task: no check, no catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

SPARK_SCHEMA = "id long, name string, ts timestamp, amount double, flag boolean, city string, note string"
Insert = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def arrow_job(url: str, table: str, tasks: int = 0) -> Callable[[DataFrame, int], None]:
    """(b): the function of ``foreachBatch``.  In so many ``tasks``; 0: in one for each partition."""

    def land(frame: DataFrame, _batch_id: int) -> None:
        read = frame.coalesce(tasks) if tasks else frame
        parsed = read.select(F.from_json(F.col("value").cast("string"), SPARK_SCHEMA).alias("r")).select("r.*")
        parsed.mapInArrow(_inserter(url, table, as_json=False), "rows long").collect()

    return land


def json_job(url: str, table: str, allowed_errors: float = 0) -> Callable[[DataFrame, int], None]:
    """(b2): the function of ``foreachBatch``.  ``allowed_errors``: the part of records that ClickHouse may skip."""

    def land(frame: DataFrame, _batch_id: int) -> None:
        frame.select("value").mapInArrow(_inserter(url, table, allowed_errors, as_json=True), "rows long").collect()

    return land


def parquet_job(folder: str) -> Callable[[DataFrame, int], None]:
    """(p): the function of ``foreachBatch``."""

    def land(frame: DataFrame, _batch_id: int) -> None:
        frame.select("value").mapInArrow(_parquet(folder), "rows long").collect()

    return land


def _parquet(folder: str) -> Insert:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import uuid

        import pyarrow.json as pj
        import pyarrow.parquet as pq

        schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("ts", pa.timestamp("us")),
                            ("amount", pa.float64()), ("flag", pa.bool_()), ("city", pa.string()),
                            ("note", pa.string())])  # fmt: skip
        options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        rows = 0
        with pq.ParquetWriter(f"{folder}/{uuid.uuid4()}.parquet", schema, compression="zstd") as file:
            for batch in batches:
                used = _used(batch.column(0))
                body = pa.BufferReader(batch.column(0).buffers()[2][:used])
                size = pj.ReadOptions(use_threads=False, block_size=used + 1)
                parsed = pj.read_json(body, read_options=size, parse_options=options)
                file.write_table(parsed)
                rows += parsed.num_rows
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    return write


def _inserter(url: str, table: str, allowed_errors: float = 0, *, as_json: bool) -> Insert:
    host, port = urlsplit(url).hostname, urlsplit(url).port

    def insert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import clickhouse_connect

        client = clickhouse_connect.get_client(host=host, port=port, autogenerate_session_id=False)
        settings = {"input_format_allow_errors_ratio": allowed_errors} if allowed_errors else {}
        rows = 0
        for batch in batches:
            if as_json:
                data = batch.column(0).buffers()[2]
                block = data[: _used(batch.column(0))].to_pybytes()
                client.raw_insert(table, insert_block=block, fmt="JSONEachRow", settings=settings)
            else:
                client.insert_arrow(table, pa.Table.from_batches([batch]))
            rows += batch.num_rows
        client.close()
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    return insert


def _used(values: pa.Array) -> int:
    """Bytes of the data buffer that the values take."""
    offsets = pa.Array.from_buffers(pa.int32(), len(values) + 1, [None, values.buffers()[1]])
    return int(offsets[len(values)].as_py())
