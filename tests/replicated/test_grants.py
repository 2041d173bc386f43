"""A user with exactly the grants of ``chsink sql grants`` can run every command, on Replicated tables of two replicas."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.embedded.kafka import EmbeddedKafka
from chsink.embedded.zookeeper import EmbeddedZooKeeper
from tests.integration.job.faults import Failpoints
from tests.support.job import DATABASE, Job, command
from tests.support.replicas.engine import why_not
from tests.support.replicas.service import replicas
from tests.support.tour import DEFAULT, SETTINGS, TABLE, Tour, toml, user_of

pytestmark = pytest.mark.slow
ENGINE = "ReplicatedMergeTree('/grants/{uuid}/{table}', '{replica}')"
SETTINGS_TABLE = "system.replicated_merge_tree_settings"


def run_as(user: str, job: Job, *words: str, code: int) -> str:
    """What a command says to another user."""
    sets = [f"--set={key}={toml(value)}" for key, value in {**job.settings, "clickhouse.user": user}.items()]
    result = CliRunner().invoke(app, [*words, "-c", str(job.file()), *sets])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.soak
def test_every_command_runs_with_exactly_the_printed_grants(
    spark: SparkSession, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    if reason := why_not():
        pytest.skip(reason)
    servers = replicas(tmp_path / "servers", zookeeper.hosts)
    name = f"grants-{uuid.uuid4().hex[:8]}"
    first, second = (server.url for server in servers)
    job = Job(name, tmp_path, kafka.bootstrap, [first], settings=SETTINGS, tables={name: TABLE}, replicas=[second])
    kafka.create_topic(name, 1)
    failpoints = Failpoints(spark, tmp_path)
    try:
        for server in servers:
            server.users = (DEFAULT, user_of(job), user_of(job, "lacks", without=SETTINGS_TABLE))
            server.start()
            command(server.url, f"CREATE DATABASE {DATABASE}")
        Tour(job, ENGINE.replace("{uuid}", name)).go(spark, failpoints)
        for words, code in ((("doctor",), 1), (("verify",), 2)):
            output = run_as("lacks", job, *words, code=code)
            assert "CHS-216" in output and f"run GRANT SELECT ON {SETTINGS_TABLE} TO `lacks`" in output
            assert "did not answer" not in output, "it did: it refused"
    finally:
        failpoints.disarm()
        for server in servers:
            server.stop()
