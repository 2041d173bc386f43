"""Which archive of classes a start uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.jvm import jars
from chsink.spark import classes

CONTENT = b"classes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a Spark of one jar."""
    monkeypatch.setenv("CHSINK_CACHE", str(tmp_path / "a cache"))
    monkeypatch.setenv(classes.JAVA_OPTIONS, "-Dx=y")
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "a.jar").touch()
    monkeypatch.setattr(classes, "spark_jars_folder", lambda: tmp_path / "spark")
    return tmp_path


def archive() -> Path:
    name = f"{classes._fitting()}-{sha256(CONTENT).hexdigest()[: classes.DIGITS]}.jsa"
    path = jars.cache_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(CONTENT)
    return path


def used() -> str:
    classes.use()
    return os.environ[classes.JAVA_OPTIONS]


def test_options_of_ours_come_before_those_of_the_user(folder: Path) -> None:
    path = archive()
    wanted = f'"-XX:SharedArchiveFile={path}" -Xlog:cds*=off,class+path*=off -Dx=y'
    assert used() == wanted
    assert used() == wanted, "once is enough"


@pytest.mark.usefixtures("folder")
def test_without_an_archive_nothing_is_set() -> None:
    assert used() == "-Dx=y"


@pytest.mark.parametrize("left", [0, len(CONTENT) - 1])
def test_a_damaged_one_is_not_used(folder: Path, left: int) -> None:
    """Java maps a file that was cut, and dies."""
    archive().write_bytes(CONTENT[:left])
    assert used() == "-Dx=y"


def test_one_that_cannot_be_read_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's, or a folder of its name: a start goes on without it, or with the next one."""
    fitting = archive()
    fitting.unlink()
    fitting.mkdir()
    assert used() == "-Dx=y"
    next_one = fitting.with_name(fitting.name.replace(".jsa", "")[: -classes.DIGITS] + "1" * classes.DIGITS + ".jsa")
    next_one.write_bytes(CONTENT)
    monkeypatch.setattr(classes, "sha256_of", lambda path: "1" * 64 if path == next_one else jars.sha256_of(path))
    assert str(next_one) in used()


def test_another_jar_of_spark_wants_another_archive(folder: Path) -> None:
    archive()
    (folder / "spark" / "b.jar").touch()
    assert used() == "-Dx=y"


def test_jars_are_printed_though_no_archive_can_be_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output holds the paths alone: a shell puts them into a command."""

    def refused() -> Iterator[str]:
        yield "archiving"
        raise PermissionError("read-only")

    monkeypatch.setattr(classes, "make", refused)
    monkeypatch.setattr(jars, "ensure", lambda _: [folder / "k.jar", folder / "l.jar"])
    result = CliRunner().invoke(app, ["jars"])
    assert (result.exit_code, result.stdout) == (0, f"{folder}/k.jar,{folder}/l.jar\n")
    assert result.stderr == "archiving\nno archive of Spark's classes: read-only\n"
    assert CliRunner().invoke(app, ["jars", "--no-archive"]).stderr == ""
