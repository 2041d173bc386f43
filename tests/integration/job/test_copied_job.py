"""The job file is copied: the same sink and [state], and another ClickHouse server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.embedded.stack import Stack
from tests.integration.job.conftest import MakeJob
from tests.integration.job.test_evolution import found_by_doctor
from tests.integration.job.test_verify import run as verify
from tests.support.job import METADATA, WINDOW, command

pytestmark = [pytest.mark.slow, pytest.mark.soak]


def test_what_a_copy_landed_elsewhere_is_missed(
    make_job: MakeJob, spark: SparkSession, services: Stack, tmp_path: Path
) -> None:
    """⚑ The first job skips it, as it is recorded to have landed: each start says so, and `verify` names the offsets."""
    job = make_job(partitions=1)
    job.settings = {"state.store": "zookeeper", "state.zookeeper": services.zookeeper.hosts}
    job.send(0, 20)
    job.drain(spark)
    (tmp_path / "copy").mkdir()
    copy = replace(job, folder=tmp_path / "copy", tables=dict(job.tables), shards=[services.clickhouse[1].url])
    table = job.tables[job.topic]
    columns = f"id UInt64, text String, {METADATA}"
    command(copy.shards[0], f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY tuple() SETTINGS {WINDOW}")
    job.send(0, 5)
    copy.drain(spark)
    assert len(copy.landed()) == 5
    [said] = [f for f in found_by_doctor(job) if f["id"] == "CHS-266" and f["severity"] == "warning"]
    assert f"{job.topic}-0 landed in another table named {table}" in said["sentence"]
    assert "run `chsink verify`" in said["fix"]
    _, report = verify(job)
    assert '"ranges": [[20, 25]]' in json.dumps(report)
    job.send(0, 10)
    job.drain(spark)
    assert [f["severity"] for f in found_by_doctor(job) if f["id"] == "CHS-266"] == ["ok"]
