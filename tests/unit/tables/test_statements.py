"""The statements that create and extend tables."""

from __future__ import annotations

from typing import Any

from chsink.config import Config
from chsink.tables.statements import add_columns, create_table

COLUMNS = {"id": "Nullable(Int64)", "odd name": "Array(Nullable(Int64)) DEFAULT []"}


def config(**sections: Any) -> Config:
    whole: dict[str, Any] = {
        "sink": {"name": "s"},
        "kafka": {"bootstrap": "k:9092"},
        "route": [{"topic": "t", "table": "air.flights"}],
        "clickhouse": {"endpoints": ["http://a:8123"]},
    }
    return Config.from_mapping({**whole, **sections})


def test_a_table_by_default() -> None:
    job = config()
    assert create_table(job, job.routes[0], "air", COLUMNS) == (
        "CREATE TABLE IF NOT EXISTS `air`.`flights`\n(\n"
        "    `id`             Nullable(Int64),\n"
        "    `odd name`       Array(Nullable(Int64)) DEFAULT [],\n"
        "    _kafka_topic     LowCardinality(String),\n"
        "    _kafka_partition UInt32,\n"
        "    _kafka_offset    UInt64,\n"
        "    _kafka_timestamp DateTime64(3)\n)\n"
        "ENGINE = MergeTree\nORDER BY (_kafka_topic, _kafka_partition, _kafka_offset)\n"
        "SETTINGS non_replicated_deduplication_window = 10000"
    )


def test_keys_are_not_nullable_and_a_route_has_its_own() -> None:
    route = {"topic": "t", "table": "flights", "order_by": ["id"], "partition_by": "toYYYYMM(at)", "shard_key": ["key"]}
    job = config(route=[route], schema={"order_by": ["other"], "cluster": "main"})
    made = create_table(job, job.routes[0], "d", dict.fromkeys(("id", "at", "key", "rest"), "Nullable(Int64)"))
    assert "`d`.`flights` ON CLUSTER `main`\n" in made
    assert [line.split()[1] for line in made.splitlines()[2:6]] == ["Int64,", "Int64,", "Int64,", "Nullable(Int64),"]
    assert "PARTITION BY toYYYYMM(at)\nORDER BY (`id`)\n" in made


def test_replicas_share_their_tokens() -> None:
    """Without ON CLUSTER, a server refuses a replicated table without a path: it would make a UUID of its own."""
    places = {"endpoints": [{"url": "http://a:8123", "replicas": ["http://b:8123"]}]}
    job = config(clickhouse=places)
    made = create_table(job, job.routes[0], "air", COLUMNS)
    path = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
    assert f"ENGINE = ReplicatedMergeTree({path})\n" in made and "SETTINGS" not in made
    job = config(clickhouse=places, schema={"cluster": "main"})
    made = create_table(job, job.routes[0], "air", COLUMNS)
    assert "ENGINE = ReplicatedMergeTree\n" in made and "SETTINGS" not in made


def test_columns_that_are_added() -> None:
    job = config()
    assert add_columns(job, "`air`.`flights`", COLUMNS) == (
        "ALTER TABLE `air`.`flights` ADD COLUMN IF NOT EXISTS `id` Nullable(Int64), "
        "ADD COLUMN IF NOT EXISTS `odd name` Array(Nullable(Int64)) DEFAULT []"
    )
