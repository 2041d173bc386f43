"""The examples for five domains, in one job: every cell is what ``expected.tsv`` says, computed without chsink."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.config import Config
from chsink.embedded.feed import send_lines
from chsink.embedded.stack import Stack
from chsink.spark import job as spark_job
from tests.conftest import CHECKOUT
from tests.support.job import command, select

pytestmark = [pytest.mark.slow, pytest.mark.soak]

EXAMPLES = sorted((CHECKOUT / "docs" / "examples" / "domains").glob("*/job.toml"))
FINAL = {"flight_changes": "FINAL"}
COMPUTED = "asterisk_include_materialized_columns = 1"


def test_every_domain_lands_every_cell(services: Stack, spark: SparkSession, tmp_path: Path) -> None:
    url, bootstrap = services.clickhouse[0].url, services.kafka.bootstrap
    routes = []
    for path in EXAMPLES:
        (route,) = tomllib.loads(path.read_text(encoding="utf-8"))["route"]
        command(url, path.with_name("table.sql").read_text(encoding="utf-8"))
        separator = "|" if path.parent.name in ("campaign_finance", "flight_changes") else None
        list(send_lines(bootstrap, route["topic"], path.with_name("records.txt"), 1, separator))
        routes.append(route)
    config = Config.from_mapping(
        {
            "sink": {"name": "domains", "checkpoint": str(tmp_path / "checkpoint")},
            "kafka": {"bootstrap": bootstrap},
            "clickhouse": {"endpoints": [url]},
            "errors": {"on_tombstone": "skip"},
            "trigger": {"mode": "available_now"},
            "observe": {"progress": "never"},
            "spark": {"master": "local[2]"},
            "route": routes,
        }
    )
    spark_job.run(config, spark)

    for path in EXAMPLES:
        name = path.parent.name
        rows = f"SELECT * EXCEPT (_kafka_topic, _kafka_partition) FROM {name} {FINAL.get(name, '')}"
        found = select(url, f"{rows} ORDER BY _kafka_offset SETTINGS {COMPUTED} FORMAT TSV")
        assert found == path.with_name("expected.tsv").read_text(encoding="utf-8"), name
