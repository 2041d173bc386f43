"""Every format in one job: its examples in docs/examples, and one value of each type, cell by cell."""

from __future__ import annotations

import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from chsink.config import Config
from chsink.embedded.feed import send_lines
from chsink.embedded.stack import Stack
from chsink.spark import job as spark_job
from tests.support.format_cases import CASES, NULL
from tests.support.job import WINDOW, command, select
from tests.support.registry import RegistryService

DOCS = Path(__file__).parents[3] / "docs" / "examples"
EXAMPLES, WITH_SCHEMAS = (sorted((DOCS / folder).glob("*/job.toml")) for folder in ("formats", "schemas"))
ORDERS = "1\tAda\t12.5\t2026-01-31 12:00:00.000\t['new','gift']\n2\tZoë\t7\t\\N\t[]\n"
FIELDS = {f"c{number}": case for number, case in enumerate(CASES)}
TEXTS = {name: case for name, case in FIELDS.items() if case.text is not None}
SHOWN = {"json": FIELDS, "debezium": FIELDS, "csv": TEXTS, "tsv": TEXTS}
"""By format: the columns of the table that takes a value of each type."""
SELECTS = {"raw": "SELECT line FROM raw_lines", "string": "SELECT reading, _kafka_partition, _kafka_offset FROM string_readings"}  # fmt: skip
FINAL = {"debezium": "FINAL"}
DELETED = "SELECT id, city, created, version FROM debezium_orders WHERE is_deleted ORDER BY id FORMAT TSV"


def value_of(name: str) -> bytes:
    """One record with a value of each type."""
    row = "{" + ",".join(f'"{column}":{case.json}' for column, case in FIELDS.items()) + "}"
    texts = [case.text or "" for case in TEXTS.values()]
    return {
        "json": row,
        "debezium": f'{{"schema":null,"payload":{{"op":"c","before":null,"after":{row}}}}}',
        "csv": ",".join("" if text == NULL else '"' + text.replace('"', '""') + '"' for text in texts) + "\r\n",
        "tsv": "\t".join("\\N" if text == NULL else text for text in texts),
    }[name].encode()


def junk_of(name: str) -> bytes:
    """A record that is none of the format, which the job skips."""
    return {"json": b"{", "debezium": b'{"op":"t"}', "csv": b'"a\n', "tsv": b"\\x"}[name]


def routes_of_types(services: Stack) -> list[dict[str, Any]]:
    """Make a table for each format with a column for each type, and send the values."""
    routes, producer = [], Producer({"bootstrap.servers": services.kafka.bootstrap})
    for name, fields in SHOWN.items():
        topic = f"types_{name}"
        columns = ", ".join(f"{column} {case.type}" for column, case in fields.items())
        made = f"CREATE TABLE {topic} ({columns}) ENGINE = MergeTree ORDER BY tuple() SETTINGS {WINDOW}"
        command(services.clickhouse[0].url, made)
        services.kafka.create_topic(topic, 1)
        for value in (junk_of(name), value_of(name), None, junk_of(name), value_of(name)):
            producer.produce(topic, value)
        options = {"columns": list(fields)} if name in ("csv", "tsv") else {}
        routes.append({"topic": topic, "table": topic, "format": {"type": name, **options}})
    assert producer.flush(30) == 0
    return routes


@pytest.fixture
def registry() -> Iterator[RegistryService]:
    with RegistryService() as service:
        yield service


def routes_with_schemas(services: Stack, registry: RegistryService, patch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Make the tables, and send the records as the examples' own programs do."""
    routes = []
    for path in WITH_SCHEMAS:
        (route,) = tomllib.loads(path.read_text(encoding="utf-8"))["route"]
        if isinstance(route["format"], dict):
            route["format"]["schema_file"] = str(path.with_name(route["format"]["schema_file"]))
        command(services.clickhouse[0].url, path.with_name("table.sql").read_text(encoding="utf-8"))
        patch.setattr(sys, "argv", ["produce.py", services.kafka.bootstrap, registry.url])
        runpy.run_path(str(path.with_name("produce.py")), run_name="__main__")
        routes.append(route)
    return routes


def test_every_format_lands_every_cell(
    services: Stack, spark: SparkSession, registry: RegistryService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, bootstrap = services.clickhouse[0].url, services.kafka.bootstrap
    routes = [*routes_of_types(services), *routes_with_schemas(services, registry, monkeypatch)]
    for path in EXAMPLES:
        (route,) = tomllib.loads(path.read_text(encoding="utf-8"))["route"]
        command(url, path.with_name("table.sql").read_text(encoding="utf-8"))
        separator = "|" if path.parent.name in ("debezium", "keys") else None
        list(send_lines(bootstrap, route["topic"], path.with_name("records.txt"), 2, separator))
        routes.append(route)
    config = Config.from_mapping(
        {
            "sink": {"name": "formats", "checkpoint": str(tmp_path / "checkpoint")},
            "kafka": {"bootstrap": bootstrap},
            "clickhouse": {"endpoints": [url], "chunk_offsets": 2},
            "schema_registry": {"url": registry.url},
            "errors": {"on_bad_value": "skip", "on_tombstone": "skip"},
            "trigger": {"mode": "available_now"},
            "observe": {"progress": "never"},
            "spark": {"master": "local[2]"},
            "route": routes,
        }
    )
    spark_job.run(config, spark)

    for path in EXAMPLES:
        name = path.parent.name
        table = tomllib.loads(path.read_text(encoding="utf-8"))["route"][0]["table"]
        rows = SELECTS.get(name, f"SELECT * FROM {table} {FINAL.get(name, '')}")
        found = select(url, f"{rows} ORDER BY 1 FORMAT TSV")
        assert found == path.with_name("expected.tsv").read_text(encoding="utf-8"), name
    for path in WITH_SCHEMAS:
        assert select(url, f"SELECT * FROM {path.parent.name}_orders ORDER BY id FORMAT TSV") == ORDERS, path
    zero = "1970-01-01 00:00:00.000000"
    assert select(url, DELETED) == f"2\t\t{zero}\t13\n3\t\t{zero}\t14\n", "what a delete lacks is filled in"
    for name, fields in SHOWN.items():
        lines = select(url, f"SELECT * FROM types_{name} FORMAT TSV").splitlines()
        assert [line.split("\t") for line in lines] == [[case.shown for case in fields.values()]] * 2, name
