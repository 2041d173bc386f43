"""Which Java is chosen: by the version it says it has, not by its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from chsink.errors import ChsinkError
from chsink.jvm import java


@pytest.fixture(autouse=True)
def _no_other_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_INSTALL_ROOTS", ())


def install(home: Path, version_line: str) -> Path:
    """A program that answers ``-version`` as a Java would."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n", encoding="utf-8")
    binary.chmod(0o755)
    return binary


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = install(tmp_path / "home", 'openjdk version "17.0.15" 2025-04-15')
    other = install(tmp_path / "path", 'openjdk version "21.0.2" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(other.parent))
    assert java.find_java() == chosen
    assert java.java_home() == tmp_path / "home"


@pytest.mark.parametrize("line", ['java version "1.8.0_392"', 'openjdk version "25" 2025-09-16', "no version at all"])
def test_an_unsupported_one_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    install(tmp_path / "home", line)
    chosen = install(tmp_path / "path", 'openjdk version "21.0.2" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{chosen.parent}:/bin:/usr/bin")
    assert java.find_java() == chosen


def test_none_is_an_error_that_names_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = install(tmp_path / "home", 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ChsinkError, match=rf"CHS-901.*{found} \(version 11\)"):
        java.find_java()
