"""The job as processes of their own, and on a cluster: a clean stop, a second driver, copies of tasks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chsink.embedded import jars
from tests.conftest import CHECKOUT
from tests.integration.job.conftest import MakeJob
from tests.support.child import JVM, Child, session_of
from tests.support.cluster import SETTINGS, Cluster, cluster, send_until
from tests.support.gate import Gate
from tests.support.job import Job

pytestmark = pytest.mark.slow

OFTEN = {"trigger.mode": "processing_time", "trigger.interval": "200 milliseconds"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout, built outside of it, under the name that Spark puts on the executors' path."""
    source = tmp_path_factory.mktemp("source")
    for name in ("chsink", "pyproject.toml", "README.md"):
        origin = CHECKOUT / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(origin, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    argv = [*pip, "--no-build-isolation", "--wheel-dir", str(source / "dist"), str(source)]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    (made,) = (source / "dist").glob("chsink-*.whl")
    return Path(shutil.copy(made, source / "chsink.zip"))


class Submitted(Child):
    """``spark-submit … submit.py -c job.toml`` as docs/deployment.md has it; the job file leaves the master open."""

    def __init__(self, job: Job, spark: Cluster, wheel: Path, settings: dict[str, object]) -> None:
        self.job = job
        self.log = job.folder / "submitted.log"
        self._fired = job.folder / "fired-submitted.log"
        file = job.file()
        file.write_text(file.read_text().replace('master = "local[2]"\n', ""))
        conf = {name.removeprefix("spark.conf."): value for name, value in settings.items() if "spark.conf." in name}
        sets = [w for k, v in {**job.settings, **settings}.items() if k not in conf for w in ("--set", f"{k}={v}")]
        argv = [str(Path(jars.spark_jars_folder()).parent / "bin" / "spark-submit"), "--master", spark.url]
        argv += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        argv += ["--py-files", str(wheel), "--jars", jars.spark_jars()]
        argv += [str(CHECKOUT / "chsink" / "spark" / "submit.py"), "-c", str(file), *sets]
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=job.folder,
                start_new_session=True,
                env={**os.environ, **JVM},
            )


def test_submitted_to_a_cluster_with_speculation_then_overtaken(
    make_job: MakeJob, spark: SparkSession, wheel: Path, tmp_path: Path
) -> None:
    """Two workers; those of the first sleep after each insert, so their tasks are run twice.  Then another process
    takes the sink over: this one exits with 4 and names it.
    """
    job = make_job(partitions=4)
    server = job.shards[0]
    with Gate(server) as gate, cluster(tmp_path / "cluster") as workers:
        job.shards = [gate.url]
        with Submitted(job, workers, wheel, {**SETTINGS, **OFTEN}) as child:
            send_until("copy of a task", lambda: max([0, *gate.sent(job.topic).values()]) > 1, child)
            assert workers.asleep, "a task slept"
            child.await_that("records landed", lambda: job.verdict().exactly_once and not job.in_doubt())
            assert list((tmp_path / "cluster").glob(f"work-*/app-*/*/{wheel.name}")), "executors were given the wheel"
            job.check()

            job.shards = [server]
            job.send(0, 12)
            job.drain(spark, {"sink.checkpoint": str(job.folder / "other"), "clickhouse.endpoints": f'["{gate.url}"]'})
            job.send(0, 12)
            assert child.end() == 4, child.said[-3000:]
            assert "CHS-801" in child.said
            assert f"pid {os.getpid()}" in child.said, "the loser names the winner"
    job.drain(spark, {"sink.checkpoint": str(job.folder / "other")})
    job.check()


def java_of(child: Child) -> int:
    """The JVM that the driver started."""
    (pid,) = [p for p in session_of(child.pid) if Path(f"/proc/{p}/comm").read_text().strip() == "java"]
    return pid


@pytest.mark.parametrize("blow", ["all", "java"])
def test_told_to_end_in_a_batch(blow: str, make_job: MakeJob, spark: SparkSession) -> None:
    """SIGTERM to all of its processes, as supervisors do: exit 0, and the batch at hand is confirmed (to the driver
    alone: ``make chaos``).  Spark killed under it: exit 5, and the batch is settled by the next start.
    """
    job = make_job(partitions=2)
    job.send(0, 25)
    job.send(1, 7)
    with Child(job, traps="driver.before_after=sleep:2@2", settings=OFTEN) as child:
        child.await_that("first batch", lambda: job.verdict().exactly_once and not job.in_doubt())
        job.send(0, 12)
        child.await_fired("driver.before_after")
        assert job.in_doubt() == {0}
        if blow == "all":
            child.tell_all(signal.SIGTERM)
        else:
            os.kill(java_of(child), signal.SIGKILL)
        assert child.end() == (5 if blow == "java" else 0), child.said[-3000:]
        assert ("CHS-708" in child.said) == (blow == "java")
        assert "chsink/spark/job.py" not in child.said, "no trace of the driver's"
    assert job.in_doubt() == ({0} if blow == "java" else set())
    job.send(0, 5)
    job.send(1, 5)
    job.drain(spark)
    job.check()
