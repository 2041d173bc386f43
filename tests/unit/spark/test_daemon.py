"""The daemon that imports before it forks: when a session uses it, and that a fork is as good as a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from chsink.config import Config
from chsink.spark import daemon, session
from chsink.spark.checks import GATEWAY
from tests.unit.config.conftest import merged

MIRRORED = """
[mirror]
enabled = true
catalog = { name = "lake", type = "sql", uri = "sqlite:////tmp/catalog.db", warehouse = "file:///tmp/lake" }
[[mirror.route]]
topic = "flights"
table = "lake.flights"
"""
SERVED = """
import json, os, sys
from chsink.spark import daemon
daemon.prefer_folders()
import pyspark.daemon

def forks():
    threads = {open(f"/proc/self/task/{one}/comm").read().strip() for one in os.listdir("/proc/self/task")}
    print(json.dumps([sorted(threads), sys.modules["pyspark"].__file__, sorted(sys.modules)]), flush=True)
    for _ in range(2):
        if not os.fork():
            import numpy as np
            import pyarrow as pa
            import pyarrow.compute as pc
            assert (np.ones((300, 300)) @ np.ones((300, 300))).sum() == 300**3
            assert pc.sum(pa.array(range(100_000))).as_py() == 4_999_950_000
            print(json.dumps(int(np.random.randint(2**62))), flush=True)
            os._exit(0)
        os.wait()

pyspark.daemon.manager = forks
daemon.serve(daemon.CLICKHOUSE, daemon.MIRROR)
"""


def test_a_forked_worker_has_all_imports_and_is_its_own() -> None:
    """⚑ Two workers with the same random numbers; a thread that waits for one that is not there after the fork."""
    home = Path(pyspark.__file__).parent
    first = [str(path) for path in sorted((home / "python" / "lib").glob("*.zip"))]
    path = os.pathsep.join([*first, str(Path.cwd())])
    env = {**os.environ, "PYTHONPATH": path, "SPARK_HOME": str(home), "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", SERVED], env=env, check=True, capture_output=True, timeout=60)
    (threads, spark, modules), *numbers = map(json.loads, done.stdout.splitlines())
    assert set(threads) <= {"python", "jemalloc_bg_thd"}
    assert ".zip" not in spark
    assert {"chsink.clickhouse.pieces", "chsink.mirror.worker", "pyspark.worker", "pandas"} <= set(modules)
    assert len(set(numbers)) == 2


class Conf(dict[str, str]):
    """Spark's settings without Spark."""

    contains, set = dict.__contains__, dict.__setitem__


def of_session(monkeypatch: pytest.MonkeyPatch, changes: str = "", **different: Any) -> tuple[str | None, str | None]:
    """The daemon and the modules that a new session gets."""
    monkeypatch.setattr(sys, "platform", different.pop("platform", "linux"))
    given = {"master": "local[*]", "pythonExec": sys.executable, "environment": {}, "_conf": Conf(), **different}
    context: Any = SimpleNamespace(**given)
    session._import_first(context, Config.from_mapping(merged(changes), source="job.toml", environ={}))
    return context._conf.get(session.DAEMON), context.environment.get(daemon.MODULES)


def test_a_job_on_this_machine_forks_from_what_its_tasks_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GATEWAY, raising=False)
    assert of_session(monkeypatch) == ("chsink.spark.daemon", daemon.CLICKHOUSE)
    assert of_session(monkeypatch, master="local")[0] == "chsink.spark.daemon"
    assert of_session(monkeypatch, MIRRORED)[1] == f"{daemon.CLICKHOUSE} {daemon.MIRROR}"


@pytest.mark.parametrize(
    "different",
    [
        {"master": "spark://host:7077"},
        {"master": "local-cluster[2,1,1024]"},
        {"master": "yarn"},
        {"pythonExec": "/usr/bin/python3"},
        {"platform": "darwin"},
        {"_conf": Conf({session.DAEMON: "mine"})},
    ],
    ids=str,
)
def test_elsewhere_sparks_daemon_stays(monkeypatch: pytest.MonkeyPatch, different: dict[str, Any]) -> None:
    """⚑ A daemon that cannot be imported ends the job."""
    monkeypatch.delenv(GATEWAY, raising=False)
    named = different.get("_conf", {}).get(session.DAEMON)
    assert of_session(monkeypatch, **different) == (named, None)


def test_spark_submit_keeps_sparks_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ ``--py-files`` brings chsink to the driver, and to a worker only with its first task."""
    monkeypatch.setenv(GATEWAY, "1")
    assert of_session(monkeypatch) == (None, None)
