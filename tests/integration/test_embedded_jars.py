"""Jars by checksum, through the real Ivy, from a repository in a folder: no network."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chsink.errors import ChsinkError
from chsink.jvm import ivy, jars
from tests.support.iceberg_rest import PINS

CONTENT = b"not really a jar, but exactly these bytes"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Maven repository with one jar, an empty cache, and a set ``mine`` that pins the jar."""
    root = tmp_path / "repository"
    folder = root / "org/example/thing/1.0"
    folder.mkdir(parents=True)
    (folder / "thing-1.0.jar").write_bytes(CONTENT)
    (folder / "thing-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>thing</artifactId>"
        "<version>1.0</version><dependencies><dependency><groupId>org.example</groupId><artifactId>not-there</artifactId>"
        "<version>1</version></dependency></dependencies></project>",
        encoding="utf-8",
    )
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="folder"/><resolvers><filesystem name="folder" m2compatible="true">'
        f'<ivy pattern="{root}/[organisation]/[module]/[revision]/[artifact]-[revision].pom"/>'
        f'<artifact pattern="{root}/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"/>'
        "</filesystem></resolvers></ivysettings>",
        encoding="utf-8",
    )
    monkeypatch.setenv("CHSINK_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("CHSINK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ivy, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(jars, "_PINS", tmp_path / "jars.toml")
    pin(tmp_path, hashlib.sha256(CONTENT).hexdigest())
    jars.pins.cache_clear()
    yield folder
    jars.pins.cache_clear()


def pin(folder: Path, sha256: str, *coordinates: str) -> None:
    pins = "".join(f'"{coordinate}" = "{sha256}"\n' for coordinate in coordinates or ["org.example:thing:1.0"])
    (folder / "jars.toml").write_text(f"[mine]\n{pins}", encoding="utf-8")


def test_a_set_is_fetched_once_without_its_dependencies(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with a classifier is another file of the same version."""
    (repository / "thing-1.0-tests.jar").write_bytes(CONTENT)
    pin(tmp_path, hashlib.sha256(CONTENT).hexdigest(), "org.example:thing:1.0", "org.example:thing:1.0:tests")
    jars.pins.cache_clear()
    paths = jars.ensure("mine")
    folder = tmp_path / "cache" / "jars"
    assert paths == [folder / "thing-1.0.jar", folder / "thing-1.0-tests.jar"]
    assert [path.read_bytes() for path in paths] == [CONTENT] * 2
    (repository / "thing-1.0.jar").unlink()
    assert jars.ensure("mine") == paths
    said = f"downloading mine to {folder} (once): "
    assert capsys.readouterr().err == f"{said}0 of 2 jars\n{said}2 of 2 jars\n"
    assert sorted(file.name for file in folder.iterdir()) == [".lock", "thing-1.0-tests.jar", "thing-1.0.jar"]


@pytest.mark.soak
def test_a_damaged_file_is_fetched_again(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int]] = []
    (path,) = jars.ensure("mine")
    path.write_bytes(CONTENT[:10])
    capsys.readouterr()
    assert jars.ensure("mine", lambda done, of: told.append((done, of))) == [path]
    assert told == [(0, 1), (1, 1)]
    assert not capsys.readouterr().err, "whoever logs as JSON gets no other lines"
    assert path.read_bytes() == CONTENT


def test_another_file_under_the_pinned_name_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "thing-1.0.jar").write_bytes(b"tampered with")
    with pytest.raises(ChsinkError, match=r"CHS-903.*org\.example:thing:1\.0"):
        jars.ensure("mine")
    assert not (tmp_path / "cache" / "jars" / "thing-1.0.jar").exists()


@pytest.mark.soak
def test_a_missing_file_is_an_error_with_ivys_words(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "_ATTEMPTS", 2)  # each is a Java
    (repository / "thing-1.0.jar").unlink()
    (repository / "thing-1.0.pom").unlink()
    with pytest.raises(ChsinkError, match=r"(?s)CHS-902.*2 attempts.*thing;1\.0: not found"):
        jars.ensure("mine")


@pytest.mark.soak
def test_processes_that_need_it_at_once_fetch_it_once(repository: Path, tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from chsink.jvm import jars; jars._PINS = pathlib.Path(sys.argv[1]); "
        "print(jars.ensure('mine')[0])"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "jars.toml")]
    processes = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [process.communicate(timeout=60) for process in processes]
    assert {out.strip() for out, _ in answers} == {str(tmp_path / "cache/jars/thing-1.0.jar")}
    assert sum("1 of 1 jars" in err for _, err in answers) == 1


def test_every_shipped_pin_is_whole() -> None:
    sets = {**jars.pins(), **jars.pins(PINS)}
    counts = {name: len(files) for name, files in sets.items()}
    assert counts == {
        "spark-kafka": 4,
        "kafka-broker": 46,
        "clickhouse-jdbc": 19,
        "rest-server": 19,
        "s3": 3,
        "iceberg-connect": 93,
    }
    for files in sets.values():
        assert all(len(jar.sha256) == 64 for jar in files)
        assert len({jar.file_name for jar in files}) == len(files)
