"""What ``chsink sql`` prints for a shard with replicas is run as it is printed; then the job runs on it."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from tests.chaos.letters import Letters, fits, send_bad
from tests.integration.job.conftest import MakeJob
from tests.support.job import DATABASE, Job, command, select
from tests.support.replicas.tables import CLUSTER

pytestmark = pytest.mark.slow


def run_printed(job: Job, *arguments: str) -> None:
    """Print statements, and run each on the servers that are named above it."""
    chosen = [part for name, value in job.settings.items() for part in ("--set", f"{name}={value}")]
    printed = CliRunner().invoke(app, ["sql", *arguments, "-c", str(job.file()), *chosen])
    assert printed.exit_code == 0, printed.output
    [(where, statement)] = re.findall(r"^-- Run this on (.*):\n([^-][^;]*);\n", printed.stdout, re.MULTILINE)
    everywhere = " and on ".join((*job.shards, *job.replicas))
    for url in (everywhere if where == "each server that you query" else where).split(" and on "):
        command(url, statement)


@pytest.mark.parametrize("cluster", [CLUSTER, pytest.param(None, marks=pytest.mark.soak)])
def test_tables_as_printed(cluster: str | None, make_job: MakeJob, spark: SparkSession) -> None:
    """⚑ A plain MergeTree of dead letters on the first replica would miss those that another one took."""
    job = make_job(partitions=2, table=False)
    table = job.tables[job.name] = f"{DATABASE}.t_{job.name}".replace("-", "_")
    letters = Letters(table=f"{table}_dead")
    job.settings = letters.settings | ({"schema.cluster": cluster} if cluster else {})
    job.send(0, 25)
    job.send(1, 5)
    run_printed(job, "create-table")
    run_printed(job, "dead-letters")
    run_printed(job, "distributed", "--cluster", CLUSTER)
    send_bad(job, 0, 2)
    job.drain(spark)
    job.check(rows_of=fits)
    for url in (*job.shards, *job.replicas):
        command(url, f"SYSTEM SYNC REPLICA {letters.table}")
        assert letters.held(job, url) == letters.expected(job)
        assert select(url, f"SELECT count() FROM {table}_all").strip() == "30"
