"""The archive of Spark's classes: made once, started with, and passed over without a word where it does not fit."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from chsink.jvm import jars
from chsink.spark import classes
from tests.unit.config.conftest import LEAST

pytestmark = pytest.mark.soak  # to make an archive takes half a minute of CPU time

COMMAND = [sys.executable, "-m", "chsink.cli.main", "jars"]
START = """
import pathlib, sys
from chsink.config import load
from chsink.spark import session
spark = session.session(load(pathlib.Path(sys.argv[1])))
print(spark.range(3).count())
session.end(spark)
"""
MAPPED = "shared objects file (top)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the jars alone, whose path has a space."""
    found = jars.ensure(jars.SPARK_KAFKA)
    cache = tmp_path / "a cache"
    (cache / "jars").mkdir(parents=True)
    for jar in found:
        (cache / "jars" / jar.name).symlink_to(jar)
    monkeypatch.setenv("CHSINK_CACHE", str(cache))
    monkeypatch.delenv(classes.JAVA_OPTIONS)
    return cache / "jars"


def started(folder: Path, **conf: str) -> tuple[str, bool]:
    """What a session prints, with all that its Java does, and whether classes came from the archive."""
    job, loaded = folder / "job.toml", folder / "loaded.txt"
    settings = {"spark.ui.enabled": "false", **{name.replace("_", "."): value for name, value in conf.items()}}
    pairs = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in settings.items())
    job.write_text(f'{LEAST}\n[spark]\nmaster = "local[1]"\nconf = {{ {pairs} }}\n', encoding="utf-8")
    env = {**os.environ, classes.JAVA_OPTIONS: f'"-Xlog:class+load:file={loaded}"'}
    done = subprocess.run(
        [sys.executable, "-c", START, str(job)], check=True, stdout=subprocess.PIPE, text=True, env=env, cwd=folder
    )
    return done.stdout, MAPPED in loaded.read_text(encoding="utf-8")


def test_an_archive_that_java_did_not_finish_is_not_kept(tmp_path: Path) -> None:
    """⚑ Spark's session ends first: what becomes of Java then was not looked at."""
    most = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (20 << 20, 20 << 20))
    command = [sys.executable, "-m", "chsink.spark.classes", str(tmp_path / "new.jsa")]
    done = subprocess.run(command, preexec_fn=most, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode and b"Unable to write to shared archive file" in done.stdout


def test_it_is_made_once_used_and_passed_over(folder: Path) -> None:
    both = [subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=500) for process in both]
    [archive] = folder.glob("*.jsa")
    made = f"archived Spark's classes: {archive.name}, {archive.stat().st_size >> 20} MiB"
    assert sorted(len(said.splitlines()) for _, said in answers) == [0, 2], answers
    assert made in answers[0][1] + answers[1][1]
    assert {out.strip() for out, _ in answers} == {jars.spark_jars()}
    assert [file.name for file in folder.iterdir() if file.name.startswith(".")] == [".lock"]

    assert started(folder) == ("3\n", True)
    another_path = str(next(folder.glob("kafka-clients*.jar")))
    assert started(folder, spark_driver_extraClassPath=another_path) == ("3\n", False)

    whole = archive.read_bytes()
    archive.chmod(0o600)
    archive.write_bytes(whole[: len(whole) // 2])  # Java itself dies of that
    assert started(folder) == ("3\n", False)
