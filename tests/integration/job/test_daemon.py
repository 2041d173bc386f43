"""A worker of ``chsink run`` on this machine imports nothing of chsink's for its first task: the daemon has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.config.conftest import LEAST

pytestmark = pytest.mark.soak

JOB = f"""{LEAST}
[spark]
master = "local[1]"
conf = {{ "spark.ui.enabled" = "false" }}
"""
LOOK = """
import pathlib, sys
from chsink.config import load
from chsink.spark import session

def look(batches):
    import json, os, sys
    import pyarrow as pa
    list(batches)
    yield pa.RecordBatch.from_pydict({"found": [json.dumps([os.getpid(), sorted(sys.modules)])]})

spark = session.session(load(pathlib.Path(sys.argv[1])))
for _ in range(2):
    print(spark.range(1).mapInArrow(look, "found string").collect()[0].found)
session.end(spark)
"""


def test_a_worker_has_imported_before_its_first_task(tmp_path: Path) -> None:
    """It lives on: the second task is carried out by the same one."""
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    command = [sys.executable, "-c", LOOK, str(tmp_path / "job.toml")]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env={**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path)}, timeout=120
    )
    (worker, modules), (again, _) = map(json.loads, done.stdout.splitlines())
    assert {"chsink.clickhouse.pieces", "chsink.kafka.admin", "chsink.spark.executor", "pandas"} <= set(modules)
    assert "chsink.mirror.task" not in modules
    assert worker == again
