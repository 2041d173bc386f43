"""What ``chsink run`` says of ports, packages, Spark and the checkpoint: what it tells to do leads on."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chsink.cli import submit
from chsink.clickhouse.window import DedupWindow
from chsink.driver.driver import Driver
from chsink.errors import PreflightError
from tests.integration.exits.commands import settings_of
from tests.integration.exits.looked import cli, done, leads_on, look, refused
from tests.integration.exits.person import Person
from tests.integration.job.conftest import MakeJob
from tests.integration.job.test_exit_codes import Run
from tests.support.job import Job, command
from tests.support.registry import RegistryService
from tests.support.told import named_in, pip_of, says, setting_of, shell_of

pytestmark = [pytest.mark.slow, pytest.mark.soak]


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    """Five records wait."""
    job = make_job(partitions=1)
    job.send(0, 5)
    return job


def taken(job: Job) -> str:
    """A port that something listens on."""
    return job.shards[0].rpartition(":")[2]


@pytest.mark.exit_of("METRICS_PORT")
def test_a_port_for_metrics_that_is_taken(job: Job, run: Run) -> None:
    said = refused("METRICS_PORT", run(job, {"observe.metrics_port": taken(job)}))
    done(run(job, {"observe.metrics_port": named_in(said, "or to")}))
    job.check()


@pytest.mark.exit_of("PAGE_NOT_SERVED")
def test_a_port_for_the_page_that_is_taken(job: Job, run: Run) -> None:
    at = f"127.0.0.1:{taken(job)}"
    refused("PAGE_NOT_SERVED", cli(job, "ui", "--listen", at))
    said = refused("PAGE_NOT_SERVED", run(job, {"observe.ui": at}))
    done(run(job, {"observe.ui": f"127.0.0.1:{named_in(said, 'port')}"}))
    job.check()


@pytest.mark.exit_of("TABLE_CHANGED")
def test_a_table_that_is_altered_again_and_again(job: Job, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, the job meets that by itself.  Here, the table is altered each time before the job looks at it."""
    real, numbers = DedupWindow.check_unchanged, count()

    def altered(window: DedupWindow, tables: Iterable[str]) -> None:
        command(job.shards[0], f"ALTER TABLE {job.tables[job.topic]} ADD COLUMN more_{next(numbers)} UInt8 DEFAULT 1")
        real(window, tables)

    with monkeypatch.context() as somebody:
        somebody.setattr(DedupWindow, "check_unchanged", altered)
        said = refused("TABLE_CHANGED", run(job))
    says(said, "start again: chsink settles what was in doubt for the earlier table")
    done(run(job))
    job.check()


@pytest.mark.exit_of("COLUMNS_ALTERED")
@pytest.mark.parametrize("stays", [False, True])
def test_columns_that_are_altered_while_pieces_are_under_way(
    job: Job, run: Run, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    """Once, the job meets that by itself.  If the column stays as it is then, the start names the command to run."""
    real, table = Driver._land_recorded, job.tables[job.topic]
    other, back = (f"ALTER TABLE {table} MODIFY COLUMN text {kind}" for kind in ("LowCardinality(String)", "String"))

    def altered(driver: Driver, *given: Any, **named: Any) -> None:
        command(job.shards[0], other)
        try:
            real(driver, *given, **named)
        finally:
            command(job.shards[0], back)

    with monkeypatch.context() as somebody:
        somebody.setattr(Driver, "_land_recorded", altered)
        said = refused("COLUMNS_ALTERED", run(job))
    says(
        said, "start again: chsink settles the ranges in doubt with the earlier columns, or halts and names the command"
    )
    if stays:
        command(job.shards[0], other)
        person = Person(job, spark)
        person.start_until_it_ends()
        assert "CHS-309" in person.met
    else:
        done(run(job))
    job.check()


# --- packages --------------------------------------------------------------------------------------------------------


def installs(python: str, packages: list[str]) -> None:
    """The command works.  It changes nothing: here the packages are installed, and were only hidden from chsink."""
    words = [python, "-m", "pip", "install", "--dry-run", "--no-index", "--no-build-isolation", *packages]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and "Would install" not in ended.stdout, ended


def without(name: str) -> Callable[[str], str]:
    """``metadata.version`` where this package is not installed."""
    real = metadata.version

    def version(asked: str) -> str:
        if asked == name:
            raise metadata.PackageNotFoundError(name)
        return real(asked)

    return version


def old(name: str) -> Callable[[str], str]:
    """``metadata.version`` where this package is too old."""
    real = metadata.version
    return lambda asked: "0.1" if asked == name else real(asked)


@pytest.mark.exit_of("PACKAGES_MISSING")
@pytest.mark.exit_of("PACKAGE_VERSIONS")
@pytest.mark.parametrize(("entry", "version"), [("PACKAGES_MISSING", without), ("PACKAGE_VERSIONS", old)])
def test_packages_that_are_missing_or_old(
    job: Job, monkeypatch: pytest.MonkeyPatch, entry: str, version: Callable[[str], Callable[[str], str]]
) -> None:
    with monkeypatch.context() as hidden:
        hidden.setattr(metadata, "version", version("numpy"))
        before = look(job)
    python, packages = pip_of(before.fix(entry))
    assert python == sys.executable and [name.startswith("numpy") for name in packages] == [True]
    installs(python, packages)
    leads_on(entry, before, job)


@pytest.mark.exit_of("NO_PAGE_PACKAGES")
def test_packages_of_the_page_that_are_missing(job: Job, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    page = {"observe.ui": "127.0.0.1:0"}
    with monkeypatch.context() as hidden:
        hidden.setattr(importlib.util, "find_spec", lambda name, *of: None if name == "starlette" else real(name, *of))
        said = refused("NO_PAGE_PACKAGES", run(job, page))
        says(said, "also starts without them if you remove observe.ui")
        done(run(job))
    installs(*pip_of(said))
    done(run(job, page))
    job.check()


@pytest.mark.exit_of("NO_REGISTRY_PACKAGES")
@pytest.mark.parametrize("name", ["avro", "protobuf"])
def test_packages_of_a_format_that_are_missing(job: Job, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = {"avro": "confluent_kafka.schema_registry", "protobuf": "chsink.decode.protobuf"}[name]
    with RegistryService() as registry:
        route = {"topic": job.topic, "table": job.tables[job.topic], "format": name}
        job.settings = {"route": [route], "schema_registry.url": registry.url}
        with monkeypatch.context() as hidden:
            hidden.setitem(sys.modules, module, None)
            before = look(job)
        fix = before.fix("NO_REGISTRY_PACKAGES")
        python, packages = pip_of(fix)
        says(fix, f"'chsink[{name}]'")
        installs(python, [*packages, f"chsink[{name}]"])
        assert not look(job).of("NO_REGISTRY_PACKAGES")


@pytest.mark.exit_of("WORKER_LACKS_PACKAGE")
def test_executors_without_packages(
    job: Job, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their Python sees no installed package."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with monkeypatch.context() as other:
        other.setattr(spark.sparkContext, "pythonExec", str(bare))
        with pytest.raises(PreflightError) as raised:
            job.drain(spark)
    assert raised.value.name == "WORKER_LACKS_PACKAGE", raised.value
    says(raised.value, "install chsink with its dependencies for the executors' Python: see docs/deployment.md")
    job.drain(spark)
    job.check()


# --- the checkpoint --------------------------------------------------------------------------------------------------


@pytest.mark.exit_of("CHECKPOINT_NOT_WRITABLE")
def test_a_checkpoint_that_cannot_be_written(job: Job, run: Run, tmp_path: Path) -> None:
    (file := tmp_path / "file").write_text("")
    job.settings = {"sink.checkpoint": f"{file}/below"}
    before = look(job)
    said = refused("CHECKPOINT_NOT_WRITABLE", run(job))
    for fix in (before.fix("CHECKPOINT_NOT_WRITABLE"), said):
        says(fix, "set sink.checkpoint (for the mirror, mirror.checkpoint) to a folder that the job can write to")
    job.settings = {"sink.checkpoint": str(tmp_path / "folder")}
    leads_on("CHECKPOINT_NOT_WRITABLE", before, job)
    done(run(job))
    job.check()


@pytest.mark.exit_of("CHECKPOINT_FOREIGN")
def test_a_checkpoint_of_another_job(job: Job, make_job: MakeJob, run: Run, spark: SparkSession) -> None:
    """Also of a sink that has landed nothing, and that is to begin at the newest record otherwise."""
    other = make_job(partitions=1)
    other.send(0, 3)
    other.drain(spark)
    job.settings = {"sink.checkpoint": str(other.checkpoint), "kafka.starting_offsets": "latest"}
    before = look(job)
    said = refused("CHECKPOINT_FOREIGN", run(job))
    for fix in (before.fix("CHECKPOINT_FOREIGN"), said):
        says(fix, "set sink.checkpoint to a new folder", "if the sink has landed nothing at all yet, also")
    job.settings = setting_of(said, "kafka.starting_offsets")
    leads_on("CHECKPOINT_FOREIGN", before, job)
    done(run(job))
    job.check()


@pytest.mark.exit_of("CHECKPOINT_NOT_CHECKED")
def test_a_checkpoint_that_only_spark_can_read(job: Job, run: Run) -> None:
    """``chsink run`` checks it, as it says."""
    job.settings = {"sink.checkpoint": "s3a://bucket/checkpoint"}
    before = look(job)
    says(before.fix("CHECKPOINT_NOT_CHECKED"), "no action needed: chsink run checks it at start")
    assert not before.wrong
    refused("NO_FILE_SYSTEM", run(job))
    assert not job.landed()
    job.settings = {}
    leads_on("CHECKPOINT_NOT_CHECKED", before, job)


@pytest.mark.exit_of("SPARK_JARS")
def test_a_session_without_the_kafka_source(job: Job) -> None:
    """A process of its own: jars are given to Spark's Java at its start.  The shell runs the words of the message."""
    words = ["-c", str(job.file()), *settings_of(job), "--set", "spark.master=local[1]"]
    without_jars = ended([sys.executable, submit.__file__, *words])
    assert without_jars.returncode == 2 and "CHS-237" in without_jars.stderr, without_jars
    line = f'{shell_of(without_jars.stderr, "spark-submit")} "$@"'
    ended_well = ended(["sh", "-c", line, "sh", submit.__file__, *words])
    assert ended_well.returncode == 0, ended_well.stderr
    job.check()


def ended(words: list[str]) -> subprocess.CompletedProcess[str]:
    """A program that finds the programs of this Python first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
