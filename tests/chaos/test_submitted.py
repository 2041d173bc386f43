"""``spark-submit`` as ``docs/deployment.md`` has it, on a cluster: copies of tasks, and a second driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chsink.jvm import jars
from tests.chaos.world import World
from tests.conftest import CHECKOUT
from tests.support.child import Child
from tests.support.cluster import SETTINGS, Cluster, cluster, send_until
from tests.support.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

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
        argv += [str(CHECKOUT / "chsink" / "cli" / "submit.py"), "-c", str(file), *sets]
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=job.folder,
                start_new_session=True,
            )


def test_submitted_with_speculation_then_overtaken(
    world: World, spark: SparkSession, wheel: Path, tmp_path: Path
) -> None:
    """Two workers; those of the first sleep after each insert, so their tasks are run twice.  Then another process
    takes the sink over: this one exits with 4 and names it.
    """
    job, gate = world.job(tmp_path, partitions=4), world.gates[0]
    other = {"sink.checkpoint": str(job.folder / "other")}
    with cluster(tmp_path / "cluster") as workers, Submitted(job, workers, wheel, {**SETTINGS, **OFTEN}) as child:
        send_until("copy of a task", lambda: max([0, *gate.sent(job.topic).values()]) > 1, child)
        assert workers.asleep, "a task slept"
        child.await_that("records landed", lambda: job.verdict().exactly_once and not job.in_doubt())
        assert list((tmp_path / "cluster").glob(f"work-*/app-*/*/{wheel.name}")), "executors were given the wheel"
        world.tally.fired("speculative copy of a task sent its pieces too", 1)
        job.send(0, 12)
        job.drain(spark, other)
        job.send(0, 12)
        assert child.end() == 4, child.said[-3000:]
        assert "CHS-801" in child.said
        assert f"pid {os.getpid()}" in child.said, "the loser names the winner"
        world.tally.fired("second driver", 1)
    job.drain(spark, other)
    world.judge(job)
