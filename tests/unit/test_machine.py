"""``chsink doctor --system``: what is checked, and when it is said to be wrong."""

from __future__ import annotations

import json
import resource
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner, Result

from chsink import machine
from chsink.cli.main import app
from chsink.errors.counts import counted
from chsink.findings import Finding, Severity
from chsink.jvm import jars, java
from chsink.machine import machine_findings
from tests.unit.config.conftest import LEAST

GB = 1_000_000_000


class Usage(NamedTuple):
    """As ``shutil.disk_usage`` gives it, in bytes."""

    total: int
    used: int
    free: int


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A container's limits, none of them set."""
    folder = tmp_path / "cgroup"
    folder.mkdir()
    monkeypatch.setattr(machine, "CGROUP", folder)
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHSINK_CACHE", str(tmp_path / "cache"))


def found(id: str, tasks: int | None = 2, **folders: str) -> Finding:
    return next(f for f in machine_findings(folders, tasks) if f.id == id)


def test_jars_that_are_not_there_yet(tmp_path: Path) -> None:
    """Nothing is wrong where there is a network."""
    finding = found("CHS-912")
    assert finding.severity is Severity.INFO
    assert str(tmp_path / "cache" / "jars") in finding.sentence
    assert all(jar.file_name in finding.sentence for jar in jars.pins()[jars.SPARK_KAFKA])
    assert not (tmp_path / "cache").exists(), "nothing is written"


def test_a_disk_that_is_almost_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = str(tmp_path / "not" / "there" / "yet")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GB, 99 * GB, GB - 1))
    finding = found("CHS-913", checkpoint=later)
    assert finding.severity is Severity.WARNING
    assert "has 999 MB left" in finding.sentence
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GB, 99 * GB, GB))
    assert found("CHS-913").severity is Severity.OK


@pytest.mark.parametrize(("most", "severity"), [(4_095, Severity.WARNING), (4_096, Severity.OK), (-1, Severity.OK)])
def test_open_files(monkeypatch: pytest.MonkeyPatch, most: int, severity: Severity) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (min(most, 1_024), most))
    assert found("CHS-915").severity is severity


@pytest.mark.parametrize(("text", "severity"), [("511", Severity.WARNING), ("512", Severity.OK), ("max", Severity.OK)])
def test_processes_of_a_container(cgroup: Path, text: str, severity: Severity) -> None:
    (cgroup / "pids.max").write_text(f"{text}\n")
    assert found("CHS-916").severity is severity


@pytest.mark.parametrize(
    ("megabytes", "tasks", "severity"),
    [(1_750, 2, Severity.OK), (1_749, 2, Severity.WARNING), (1_749, 1, Severity.OK), (2_000, 8, Severity.WARNING)],
)
def test_memory_of_a_container(cgroup: Path, megabytes: int, tasks: int, severity: Severity) -> None:
    (cgroup / "memory.max").write_text(f"{megabytes * 1_000_000}\n")
    assert found("CHS-917", tasks).severity is severity


@pytest.mark.parametrize(("text", "tasks"), [("50000 100000", 1), ("150000 100000", 2), ("9900000 100000", 3)])
def test_tasks_are_as_many_as_java_counts_cores(
    cgroup: Path, monkeypatch: pytest.MonkeyPatch, text: str, tasks: int
) -> None:
    (cgroup / "cpu.max").write_text(f"{text}\n")
    (cgroup / "memory.max").write_text("1000000\n")
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert found("CHS-917", None).sentence.endswith(f" for {counted(tasks, 'tasks')} at a time")


def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    assert found("CHS-918").severity is Severity.ERROR
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert found("CHS-918").severity is Severity.OK


def test_the_clock_is_asked_of_the_kernel() -> None:
    """What it answers depends on the machine; it answers, and the sentence fits."""
    finding = found("CHS-914")
    assert (finding.severity is Severity.OK) is (finding.sentence == "a time service synchronizes this machine's clock")


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["doctor", "--system", *words])


def test_no_job_file_is_needed(doctor: Callable[..., Result]) -> None:
    done = doctor("--json")
    said = json.loads(done.stdout)
    assert done.exit_code == (1 if said["error"] else 0)
    assert said["machine"] == socket.gethostname()
    assert {f["id"] for f in said["findings"]} >= {"CHS-901", "CHS-912", "CHS-913", "CHS-914", "CHS-917", "CHS-918"}


def test_a_job_file_adds_its_folders_and_tasks(doctor: Callable[..., Result], tmp_path: Path) -> None:
    assert doctor("-c", "other.toml").exit_code == 2
    job = LEAST.replace('"flights"\n[kafka]', f'"flights"\ncheckpoint = "{tmp_path}/c"\n[kafka]')
    (tmp_path / "job.toml").write_text(f'{job}\n[spark]\nmaster = "local[999]"\n', encoding="utf-8")
    assert "999 tasks at a time" in doctor().stdout
    assert doctor("--sample", "5").exit_code == 2


def test_a_machine_without_java(doctor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody sees who has only run ``pip install``: one sentence with an id, and what to do."""
    monkeypatch.setattr(java, "_INSTALL_ROOTS", ())
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "")
    for words in (["doctor", "--system"], ["jars"], ["dev", "up"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == (1 if words[0] == "doctor" else 2), done.output
        assert "CHS-901" in done.output and "no Java 17 or 21 was found" in done.output
        assert "fix: install Java 17" in done.output
        assert "Traceback" not in done.output
