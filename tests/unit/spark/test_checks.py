"""What is wrong with this machine or with a checkpoint folder, said before Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chsink.embedded import java
from chsink.errors import PreflightError
from chsink.findings import Finding, Severity
from chsink.spark import checks
from chsink.spark.checkpoint import LocalFolder, checkpoint_findings, local_folder

IDS = {"flights": {"0": 7, "1": 3}}


def folder(root: Path, ends: object = IDS, *, starts: object | None = None, committed: bool = True) -> LocalFolder:
    """A checkpoint after one batch."""
    for name, text in (
        ("sources/0/0", "\0v1\n" + json.dumps(starts or {"flights": {"0": 0, "1": 0}})),
        ("offsets/0", f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(ends)}'),
        ("commits/0", "v1\n{}"),
    ):
        if committed or not name.startswith("commits"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return LocalFolder(str(root), root)


def only(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def check(of: LocalFolder, *, has_state: bool | None = True) -> Finding:
    return only(list(checkpoint_findings(of, ["flights"], has_state)))


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    assert check(LocalFolder("a/b", path), has_state=False).severity is Severity.OK
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = check(LocalFolder("file/sub", tmp_path / "file" / "sub"))
    assert (finding.id, finding.severity) == ("CHS-238", Severity.ERROR)
    assert finding.error().exit_code == 2


def test_the_jobs_own(tmp_path: Path) -> None:
    assert check(folder(tmp_path)).severity is Severity.OK
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".chsink")]


def test_a_query_of_other_topics(tmp_path: Path) -> None:
    finding = check(folder(tmp_path, {"orders": {"0": 1}}))
    assert (finding.id, finding.error().exit_code) == ("CHS-239", 2)
    assert "topic orders" in finding.sentence


def test_a_query_that_reads_no_kafka(tmp_path: Path) -> None:
    finding = check(folder(tmp_path, 5))
    assert (finding.id, finding.error().exit_code) == ("CHS-239", 2)


def test_progress_that_the_sink_does_not_know(tmp_path: Path) -> None:
    """Of another sink on the same topic, or the state is lost: a person has to say which."""
    finding = check(folder(tmp_path), has_state=False)
    assert (finding.id, finding.error().exit_code) == ("CHS-302", 3)


@pytest.mark.parametrize("has_state", [True, None])
def test_progress_with_state_or_a_store_that_forgets(tmp_path: Path, has_state: bool | None) -> None:
    assert check(folder(tmp_path), has_state=has_state).severity is Severity.OK


def test_a_first_batch_that_did_not_finish_or_held_nothing(tmp_path: Path) -> None:
    assert check(folder(tmp_path / "a", committed=False), has_state=False).severity is Severity.OK
    assert check(folder(tmp_path / "b", starts=IDS), has_state=False).severity is Severity.OK


def test_which_folder_is_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    assert local_folder("s3a://bucket/x", {}) is None
    assert local_folder("/x", {"spark.hadoop.fs.defaultFS": "hdfs://n:1"}) is None
    file, plain = local_folder("file:///a%20b", {}), local_folder("/a b", {})
    assert file is not None
    assert plain is not None
    assert file.path == plain.path == Path("/a b")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert local_folder("/x", {}) is None


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv(checks.GATEWAY, raising=False)
    monkeypatch.setattr(java, "_INSTALL_ROOTS", (str(tmp_path),))
    with pytest.raises(PreflightError, match="CHS-901"):
        list(checks.java_findings())
    monkeypatch.setenv(checks.GATEWAY, "1234")  # spark-submit's own Java started this process
    assert list(checks.java_findings()) == []


def test_the_checks_do_not_load_spark() -> None:
    code = "import sys, chsink.spark.checks; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
