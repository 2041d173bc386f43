"""What is wrong with this machine or with a checkpoint folder, said before Spark starts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chsink.errors import HaltError, PreflightError
from chsink.findings import Finding, Severity
from chsink.jvm import java
from chsink.spark import checks
from chsink.spark.checkpoint import LocalFolder, PassedOver, checkpoint_findings, local_folder, passed_over
from chsink.spark.offset_log import planned_batch
from chsink.statemachine import writes
from chsink.statemachine.parts import Sending, TopicLife
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord

IDS = {"flights": {"0": 7, "1": 3}}


def folder(root: Path, ends: object = IDS, *, starts: object | None = None, committed: bool = True) -> LocalFolder:
    """A checkpoint after one batch."""
    for name, text in (
        ("metadata", '{"id":"5f1c"}'),
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


KEY = StateKey("sink", "flights", 0, "db.t")
AFTER = StateRecord(Phase.AFTER, 1, "a", 0, 5, life=TopicLife("id"), sent=Sending(4))


def check(of: LocalFolder, *, has_state: bool | None = True) -> Finding:
    records = None if has_state is None else {KEY: AFTER} if has_state else {}
    return only(list(checkpoint_findings(of, ["flights"], lambda: records)))


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    assert check(LocalFolder("a/b", path), has_state=False).severity is Severity.OK
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = check(LocalFolder("file/sub", tmp_path / "file" / "sub"))
    assert (finding.id, finding.severity) == ("CHS-238", Severity.ERROR)
    assert finding.error().exit_code == 2


def test_a_full_disk(tmp_path: Path) -> None:
    """It was called writable, because an empty folder could be made."""
    code = (
        "import sys, pathlib; from chsink.spark.checkpoint import LocalFolder; "
        "problem = LocalFolder('here', pathlib.Path(sys.argv[1])).write_problem(); "
        "print(problem and (problem.id, problem.sentence), list(pathlib.Path(sys.argv[1]).iterdir()))"
    )
    mount = 'mount -t tmpfs -o size=16k none "$1" && head -c 16384 /dev/zero > "$1/full" || exit 77; rm "$1/full"; '
    fill = 'head -c 12288 /dev/zero > "$1/full"; exec "$2" -c "$3" "$1"'
    argv = ["unshare", "-rm", "sh", "-c", mount + fill, "sh", str(tmp_path), sys.executable, code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"this machine lets no user mount a file system: {done.stderr.strip()}")
    assert "'CHS-238', " in done.stdout, done
    assert "No space left on device" in done.stdout
    assert ".chsink" not in done.stdout


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
    """The sink has another name now, the checkpoint is another sink's, or the state is lost: a person has to say which."""
    finding = check(folder(tmp_path), has_state=False)
    assert (finding.id, finding.error().exit_code) == ("CHS-302", 3)
    assert finding.fix.startswith("if you changed sink.name or [state], change it back;")


# --- damaged files ---------------------------------------------------------------------------------------------------


def three_batches(root: Path) -> LocalFolder:
    """Batch 2 is planned, and not yet committed."""
    whole = folder(root)
    for n in (1, 2):
        (root / f"offsets/{n}").write_text((root / "offsets/0").read_text())
    (root / "commits/1").write_text("v1\n{}")
    for name in ("offsets/2", "commits/1"):
        path = root / name
        path.with_name(f".{path.name}.crc").write_bytes(b"crc")
    return whole


def damages(file: str, text: str) -> list[tuple[str, str]]:
    """Each way to cut a file after its first signs, at the ends of lines, and before its last sign."""
    lines = [i + 1 for i, sign in enumerate(text) if sign == "\n"]
    return [(file, text[:n]) for n in sorted({0, 1, len(text) - 1, *lines, *(n - 1 for n in lines)})]


PLAN = f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(IDS)}'
DAMAGES = [
    *damages("offsets/2", PLAN), *damages("offsets/1", PLAN), *damages("commits/1", "v1\n{}"),
    *damages("metadata", '{"id":"5f1c"}'), *damages("sources/0/0", "\0v1\n" + json.dumps(IDS)),
]  # fmt: skip


@pytest.mark.parametrize(("file", "left"), DAMAGES)
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, file: str, left: str) -> None:
    of = three_batches(tmp_path)
    assert check(of).severity is Severity.OK
    (tmp_path / file).write_text(left)
    assert (check(of).id, check(of).error().exit_code) == ("CHS-316", 3)
    assert f"its file {file} " in check(of).sentence


@pytest.mark.parametrize("file", ["offsets/2", "offsets/1", "offsets/0", "commits/1", "sources/0/0", "metadata"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, file: str) -> None:
    """``offsets/0`` is too old to matter, and Spark removes such; of ``commits/1`` its checksum is left."""
    of = three_batches(tmp_path)
    if file == "commits/1":
        (tmp_path / "offsets/2").unlink()
        (tmp_path / "offsets/.2.crc").unlink()
    (tmp_path / file).unlink()
    if file == "offsets/0":
        (tmp_path / "commits/0").unlink()
        assert check(of).severity is Severity.OK
        return
    assert check(of).id == "CHS-316"
    assert f"its file {file} " in check(of).sentence


def test_a_checksum_that_is_left_of_the_metadata(tmp_path: Path) -> None:
    """Spark cannot write the file again, at the start before the first batch either."""
    of = LocalFolder(str(tmp_path), tmp_path)
    (tmp_path / ".metadata.crc").write_bytes(b"crc")
    assert "its file metadata is missing" in check(of).sentence


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    of = three_batches(tmp_path)
    (tmp_path / "offsets/2").write_bytes(b"v1\n{}\n\xff\xfe")
    assert "its file offsets/2 cannot be read" in check(of).sentence


def test_the_plan_of_a_batch_is_read_by_the_same_rules(tmp_path: Path) -> None:
    of = three_batches(tmp_path)
    tp = TopicPartition("flights", 0)
    assert planned_batch(of, 2).ranges[tp] == OffsetRange(7, 7)
    (tmp_path / "offsets/1").unlink()
    with pytest.raises(HaltError, match="CHS-316.*offsets/1 is missing"):
        planned_batch(of, 2)


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


@pytest.mark.parametrize(
    ("line", "why"),
    [(None, "it has no bin/java"), ('openjdk version "11.0.2"', "its version is 11, and Spark supports")],
)
def test_a_java_home_that_cannot_be_used_is_not_ignored_silently(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str | None, why: str
) -> None:
    home, used = tmp_path / "home", tmp_path / "used"
    for root, said in ((home, line), (used, 'openjdk version "17.0.15"')):
        if said is not None:
            (root / "bin").mkdir(parents=True)
            (root / "bin/java").write_text(f"#!/bin/sh\necho '{said}' >&2\n")
            (root / "bin/java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{used}/bin:/bin:/usr/bin")
    monkeypatch.delenv(checks.GATEWAY, raising=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    finding = only(list(checks.java_findings()))
    assert (finding.id, finding.severity) == ("CHS-901", Severity.WARNING)
    assert f"JAVA_HOME is {home}, but {why}" in finding.sentence
    assert f"{used}/bin/java is used" in finding.sentence
    monkeypatch.setenv("JAVA_HOME", str(used))
    assert only(list(checks.java_findings())).severity is Severity.OK


def test_the_checks_do_not_load_spark() -> None:
    code = "import sys, chsink.spark.checks; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("incarnation", "halts"), [(0, False), (1, True)])
def test_progress_from_before_a_reset(tmp_path: Path, incarnation: int, halts: bool) -> None:
    """⚑ the query would find nothing new, and end well without a record of what was reset."""
    reset = writes.reset(AFTER, epoch=2, attempt="b") if incarnation else writes.empty(2, "b")
    finding = only(list(checkpoint_findings(folder(tmp_path), ["flights"], lambda: {KEY: reset}, [KEY.topic_table])))
    assert (finding.id == "CHS-302") is halts
    if halts:
        assert "the state of flights-0 in db.t was reset" in finding.sentence
        assert "set sink.checkpoint to a new folder" in finding.fix


def test_a_new_checkpoint_after_a_reset(tmp_path: Path) -> None:
    reset = writes.reset(AFTER, epoch=2, attempt="b")
    new = folder(tmp_path, committed=False)
    assert (
        only(list(checkpoint_findings(new, ["flights"], lambda: {KEY: reset}, [KEY.topic_table]))).severity
        is Severity.OK
    )


def test_a_reset_of_one_table_of_a_topic(tmp_path: Path) -> None:
    """⚑ What another table has landed since says nothing of the one that was reset.  A table without a route waits for
    nothing.
    """
    reset, other = writes.reset(AFTER, epoch=2, attempt="b"), replace(KEY, table="d.other")
    records, routes = {KEY: reset, other: AFTER}, [KEY.topic_table, other.topic_table]
    assert only(list(checkpoint_findings(folder(tmp_path / "a"), ["flights"], lambda: records, routes))).id == "CHS-302"
    gone = list(checkpoint_findings(folder(tmp_path / "b"), ["flights"], lambda: records, routes[1:]))
    assert only(gone).severity is Severity.OK


def test_a_table_that_was_left_out_for_a_time(tmp_path: Path) -> None:
    """⚑ The checkpoint has passed what the table lacks.  Without a new record, no batch would meet that."""
    other = replace(KEY, table="d.other")
    of, routes, tp = folder(tmp_path), [KEY.topic_table, other.topic_table], KEY.topic_partition
    second = StateKey("sink", "flights", 1, "d.other")
    whole = {
        replace(key, table=table): replace(AFTER, end=7) for key in (KEY, second) for table in (KEY.table, other.table)
    }
    assert passed_over(of, lambda: whole, routes) == []
    behind = {**whole, other: replace(AFTER, end=2)}
    assert passed_over(of, lambda: behind, routes) == [PassedOver(tp, "d.other", OffsetRange(2, 7), recorded=True)]
    assert passed_over(of, lambda: behind, routes[:1]) == []
    new = PassedOver(second.topic_partition, "d.other", OffsetRange(0, 3), recorded=False)
    assert passed_over(of, lambda: {**whole, second: writes.empty(1, "a")}, routes) == [new]
    assert passed_over(of, lambda: {k: r for k, r in whole.items() if k != second}, routes) == [new]
    assert passed_over(folder(tmp_path / "new", committed=False), dict, routes) == []
    assert passed_over(of, lambda: None, routes) == []
    assert passed_over(folder(tmp_path / "latest", starts=IDS), dict, routes) == []
