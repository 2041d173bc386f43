"""Steps of messages that Spark with Iceberg's own runtime takes, in a REST catalog: statements are run as they stand.

The first run makes an environment with Spark, of 500 MB (:mod:`bench.peer`).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from bench.peer import ensure
from tests.integration.mirror.bench import SCHEMA, Bench
from tests.integration.mirror.commands import follow, lands, problem, problems, run
from tests.integration.mirror.conftest import MakeBench
from tests.support.iceberg_rest import IcebergRest
from tests.support.told import named_in, says, statements_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]
PROGRAM: Final = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config(map=json.loads(sys.argv[1])).getOrCreate()
for line in sys.stdin:
    try:
        spark.sql(json.loads(line)).collect()
        print("done", flush=True)
    except Exception as error:
        print(json.dumps(str(error)), flush=True)
"""


class SparkSql:
    """A process that runs statements.  Tables without a catalog are those of ``lake``."""

    def __init__(self, properties: Mapping[str, str], log: Path) -> None:
        peer, catalog = ensure(print), "spark.sql.catalog.lake"
        settings = {
            "spark.jars": peer.jars,
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.defaultCatalog": "lake",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.cache-enabled": "false",
            **{f"{catalog}.{name}": value for name, value in properties.items()},
        }
        argv = [peer.python, "-c", PROGRAM, json.dumps(settings)]
        self._log = log.open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )

    def run(self, statement: str) -> None:
        """It succeeds."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(statement.rstrip(";")) + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        assert said == "done", (statement, said, Path(self._log.name).read_text("utf-8")[-3000:])

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)
        self._log.close()


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Those of the catalog.  As most catalogs, it creates no namespace by itself."""
    with IcebergRest(tmp_path_factory.mktemp("rest"), {"jdbc.strict-mode": "true"}) as server:
        yield {"type": "rest", "uri": server.url}


@pytest.fixture(scope="module")
def spark_sql(properties: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSql]:
    process = SparkSql(properties, tmp_path_factory.mktemp("spark") / "spark.log")
    yield process
    process.close()


@pytest.fixture
def bench(make_bench: MakeBench, properties: dict[str, str]) -> Bench:
    """Its table has a name of its own: all share the catalog."""
    return make_bench(tables=(f"t_{uuid.uuid4().hex[:8]}",), properties=properties)


@pytest.mark.exit_of("MIRROR_NO_TABLE")
def test_the_statements_that_create_a_table(bench: Bench, spark_sql: SparkSql) -> None:
    bench.route = 'create = { partition = ["bucket(4, id)"], sort = ["name"], identifier = ["id"] }'
    [name] = bench.tables
    bench.catalog().drop_table(f"shop.{name}")
    bench.produce([1, 2])
    printed = follow(bench, problem(bench, "MIRROR_NO_TABLE"), "--iceberg", more=["--json"])
    for statement in json.loads(printed.stdout)["statements"]:
        spark_sql.run(statement["sql"])
    assert bench.catalog().load_table(f"shop.{name}").schema().identifier_field_names() == {"id"}
    assert problems(bench, "--sample", "9") == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_NO_TABLE")
def test_the_statements_that_create_a_table_in_a_new_namespace(bench: Bench, spark_sql: SparkSql) -> None:
    bench.produce([1, 2])
    namespace, job = f"n_{uuid.uuid4().hex[:8]}", bench.job_file()
    job.write_text(job.read_text("utf-8").replace('"shop.', f'"{namespace}.'), "utf-8")
    looked = run(bench, ["doctor"], job)
    assert "CHS-262" in looked.output, looked.output
    for statement in json.loads(follow(bench, looked.output, "--iceberg", more=["--json"], job=job).stdout)[
        "statements"
    ]:
        spark_sql.run(statement["sql"])
    assert "CHS-262" not in run(bench, ["doctor", "--problems"], job).output


@pytest.mark.exit_of("MIRROR_NO_BRANCH")
def test_the_statement_that_creates_a_branch(bench: Bench, spark_sql: SparkSql) -> None:
    lands(bench)
    bench.branch = "audit"
    [statement] = statements_of(problem(bench, "MIRROR_NO_BRANCH"), "ALTER TABLE")
    spark_sql.run(statement)
    assert problems(bench) == {}
    lands(bench)


@pytest.mark.exit_of("MIRROR_TABLE_VERSION")
def test_the_statement_that_upgrades_a_table(bench: Bench, spark_sql: SparkSql) -> None:
    """⚑ Rows of version 1 have no sequence numbers."""
    [name] = bench.tables
    bench.catalog().drop_table(f"shop.{name}")
    bench.catalog().create_table(f"shop.{name}", SCHEMA, properties={"format-version": "1"})
    spark_sql.run(f"INSERT INTO shop.{name} VALUES (99, 'x', 9, 0)")
    [statement] = statements_of(problem(bench, "MIRROR_TABLE_VERSION"), "ALTER TABLE")
    spark_sql.run(statement)
    assert problems(bench) == {}
    spark_sql.run(f"DELETE FROM shop.{name} WHERE id = 99")
    lands(bench)


@pytest.mark.exit_of("MIRROR_NOT_CLEANED")
def test_the_procedure_that_cleans_a_table_of_two_sinks(
    make_bench: MakeBench, properties: dict[str, str], spark_sql: SparkSql
) -> None:
    """⚑ What waits for a commit is kept."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    schemas = {name: Schema(*SCHEMA.fields, NestedField(5, "_kafka_topic", StringType()))}
    bench = make_bench(tables=(name,), schemas=schemas, properties=properties)
    lands(bench)
    table, first = bench.catalog().load_table(f"shop.{name}"), bench.sent()
    orphan = Path(table.location().removeprefix("file:").replace("//", "/")) / "data" / "orphan.parquet"
    orphan.write_bytes(b"left behind")
    os.utime(orphan, (time.time() - 10 * 86_400,) * 2)
    bench.group += "-2"
    bench.topic += "-2"
    bench.kafka.create_topic(bench.topic, 1)
    coordinator = bench.coordinator()
    bench.hand_over(*bench.produce([5]))
    bench.rounds(coordinator, 2)
    bench.hand_over(*bench.produce([6]))
    cleaned = run(bench, ["mirror", "clean", "--apply"])
    assert cleaned.exit_code == 2 and "another sink writes to it" in " ".join(cleaned.stderr.split()), cleaned.output
    says(cleaned, "set its older_than further back than the mirror's longest time without a commit")
    procedure = named_in(cleaned, "for example with Spark's")
    before = (datetime.now(UTC) - timedelta(days=5)).strftime("%Y-%m-%d %H:%M:%S")
    spark_sql.run(f"CALL lake.system.{procedure}(table => 'shop.{name}', older_than => TIMESTAMP '{before}')")
    assert not orphan.exists()
    bench.rounds(coordinator, 2)
    assert bench.landed(name) == bench.sent() + first
