"""``errors.on_tombstone = "delete"`` on the real engine: what it says about keys, and which row stays."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest

from chsink.clickhouse.client import ClickHouseClient
from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.connections import Connections
from chsink.clickhouse.landing import decoder
from chsink.clickhouse.writer import arrow_stream
from chsink.clock import SystemClock
from chsink.config import Config
from chsink.decode import INSERT_SETTINGS
from chsink.errors import PreflightError
from chsink.formats.pipeline import Untouched

TABLE = "client_test.deletes"
COLUMNS = "id UInt32, name String, tags Array(String), _kafka_offset UInt64, is_deleted UInt8"
RECORDS = [(b'{"id":%d}' % (n % 3), None if n in (3, 4, 8) else b'{"name":"n%d","tags":[]}' % n) for n in range(9)]
"""By offset.  Of key 0: a value, a delete, a value; of key 1: a value, a delete, a value; of key 2 the last is a delete."""


def config(server: str) -> Config:
    return Config.from_mapping(
        {
            "sink": {"name": "s"},
            "kafka": {"bootstrap": "h:1"},
            "clickhouse": {"endpoints": [server]},
            "errors": {"on_tombstone": "delete"},
            "route": [{"topic": "t", "table": TABLE, "key_format": "json", "key_columns": ["id"]}],
        }
    )


def records(offsets: range) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([RECORDS[o][0] for o in offsets], pa.binary()),
            "value": pa.array([RECORDS[o][1] for o in offsets], pa.binary()),
            "offset": pa.array(offsets, pa.int64()),
        }
    )


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ("ORDER BY id", ""),
        ("PARTITION BY intDiv(id, 10) ORDER BY (id % 7, id)", ""),
        ("ORDER BY (id, lower(name))", "uses name"),
        ("PARTITION BY length(tags) ORDER BY id", "uses tags"),
    ],
)
def test_what_the_server_says_of_keys(client: ClickHouseClient, server: str, keys: str, refused: str) -> None:
    """⚑ In whatever order its chunks are inserted, a delete wins over what came before it and loses to what came after."""
    client.command(f"DROP TABLE IF EXISTS {TABLE} SYNC")
    engine = "ReplacingMergeTree(_kafka_offset, is_deleted)"
    client.command(f"CREATE TABLE {TABLE} ({COLUMNS}) ENGINE = {engine} {keys}")
    job = config(server)
    with closing(Connections(job)) as connections:
        cluster = Cluster(job, SystemClock(), connections)
        if refused:
            with pytest.raises(PreflightError, match=f"CHS-278.*{refused}"):
                decoder(cluster, ("t", TABLE), Untouched("read_committed"))
            return
        reads = decoder(cluster, ("t", TABLE), Untouched("read_committed"))
    chunks = [reads.decode(records(range(at, at + 3))) for at in (0, 3, 6)]
    for order in (chunks, chunks[::-1]):
        client.command(f"TRUNCATE TABLE {TABLE}")
        for chunk in order:
            assert not chunk.bad
            names = ", ".join(chunk.batch.schema.names)
            body = arrow_stream(chunk.batch)
            client.insert(f"INSERT INTO {TABLE} ({names}) FORMAT ArrowStream", body, INSERT_SETTINGS, client.url)
        rows = client.query(f"SELECT id, name FROM {TABLE} FINAL ORDER BY id")
        assert rows == [(0, "n6"), (1, "n7")]
