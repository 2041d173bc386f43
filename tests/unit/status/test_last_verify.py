"""The last result of ``chsink verify``: what is kept, where, and what a person reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chsink.cli.verify import _keep
from chsink.config import Config
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.status.last_verify import last_verify
from chsink.verify.report import PartitionReport, Report
from chsink.verify.route import Selection


def job(checkpoint: str, **observe: str) -> Config:
    return Config.from_mapping(
        {
            "sink": {"name": "flights", "checkpoint": checkpoint},
            "kafka": {"bootstrap": "k:9092"},
            "route": [{"topic": "t", "table": "d.t"}],
            "clickhouse": {"endpoints": ["http://c:8123"]},
            "observe": observe,
        }
    )


def report(*missing: int) -> Report:
    found = PartitionReport(TopicPartition("t", 0), "d.t", (OffsetRange(0, 1_090),), records=1_088, rows=1_087)
    found.missing.add(np.array(missing, dtype=np.int64))
    return Report("flights", [found])


def test_the_newest_result_is_kept(tmp_path: Path) -> None:
    config = job(f"{tmp_path}/checkpoint/")
    file = config.verify_result
    assert file == tmp_path / "flights-verify.json" == job(f"{tmp_path}/new").verify_result
    assert last_verify(file, "flights") is None

    _keep(config, report(4, 5), Selection())
    first = last_verify(file, "flights")
    _keep(config, report(), Selection("t", 0))
    second = last_verify(file, "flights")

    assert first is not None and second is not None
    assert first.sentence == f"{first.at}: 1,090 offsets judged, 2 missing"
    assert second.sentence == f"{second.at} (--topic t --partition 0): 1,090 offsets judged, no difference"
    assert (first.ok, second.ok, first.records, first.rows) == (False, True, 1_088, 1_087)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("checkpoint", "file"),
    [
        ("/data/c", "/data/flights-verify.json"),
        ("file:///data/c", "/data/flights-verify.json"),
        ("s3a://bucket/c", None),
        ("hdfs:/c", None),
    ],
)
def test_only_a_folder_of_this_machine_has_a_file_beside_it(checkpoint: str, file: str | None) -> None:
    assert job(checkpoint).verify_result == (file and Path(file))
    assert job(checkpoint, verify_result="/shared/v.json").verify_result == Path("/shared/v.json")


def test_a_result_of_another_sink_or_a_broken_file_is_none(tmp_path: Path) -> None:
    config = job(str(tmp_path / "c"))
    _keep(config, report(), Selection())
    file = config.verify_result
    assert file is not None
    assert last_verify(file, "another") is None
    file.write_text("{")
    assert last_verify(file, "flights") is None
    assert last_verify(None, "flights") is None


def test_a_result_that_cannot_be_kept_is_said_and_fails_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = job(str(tmp_path / "nowhere" / "c"))
    _keep(config, report(), Selection())
    said = f"warning: the result was not kept in {config.verify_result}: No such file or directory\n"
    assert capsys.readouterr().err == said
