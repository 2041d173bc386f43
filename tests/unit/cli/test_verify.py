"""What ``chsink verify`` prints, and which options belong together."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.cli.verify import WORDS, _print
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.verify.report import PartitionReport, Report, TableReport
from chsink.verify.scope import SkipReason, Unjudged

MORE = "more rows differ, but were not compared one by one"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--partition", "1"], "--partition needs --topic"),
        (["--topic", "t", "--from", "1"], "--from and --to need --partition"),
        (["--topic", "t", "--partition", "0", "--from", "5", "--to", "5"], "--to must be greater than --from"),
    ],
)
def test_a_part_of_what_is_not_named_is_refused_before_the_file_is_read(options: list[str], sentence: str) -> None:
    answer = CliRunner().invoke(app, ["verify", "-c", "nowhere.toml", *options], env={"TERM": "dumb", "COLUMNS": "200"})
    assert answer.exit_code == 2
    assert sentence in answer.stderr


def test_a_sentence_begins_with_the_category_that_it_explains() -> None:
    assert all(words.startswith(f"{name}: ") for name, words in WORDS.items())


def test_a_line_names_the_table_where_its_topic_has_several(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of two tables could not be told apart."""
    reports = [PartitionReport(TopicPartition("t", 0), table, (OffsetRange(0, 9),)) for table in ("d.a", "d.b")]
    reports[1].missing.add(np.array([4]))
    other = PartitionReport(TopicPartition("t", 1), "d.b", (OffsetRange(0, 9),))
    other.missing.add(np.array([5]))
    _print(Report("flights", [*reports, other]))
    said = [line for line in capsys.readouterr().out.splitlines() if "missing:" in line]
    assert [line.split(": ")[0] for line in said] == ["t-0 of d.b", "t-1 of d.b"]


def test_it_prints_every_category_with_its_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    first = PartitionReport(TopicPartition("t", 0), "d.t", (OffsetRange(0, 90),), records=88, rows=87, without_row=1)
    first.missing.add(np.array([4, 5, 6, 9]))
    first.different.add(np.array([11]))
    first.different_columns["text"] = 1
    first.named_rows = 1
    second = PartitionReport(TopicPartition("p", 1), "d.p", (), [Unjudged(OffsetRange(3, 7), SkipReason.IN_DOUBT)])
    tables = [TableReport("d.p", 50, unexpected=2, more=True)]
    _print(Report("flights", [first, second], tables, ["a note"]))
    assert capsys.readouterr().out.splitlines() == [
        "topic  partition  table  offsets  records  rows  result",
        "t      0          d.t    90       88       87    4 missing, 1 different",
        "p      1          d.p    0        0        -     not judged",
        "t-0: missing: a record without its row; 4 offsets: 4-6, 9",
        "t-0: different: the row differs from its record; 1 offset: 11",
        "t-0: columns that differ: text (1)",
        "t-0: records without a row, because they do not fit the table or are skipped: 1; dead letters: 0",
        "p-1: not judged [3, 7): in doubt: the job settles them first",
        f"d.p: 50 rows; 2 unexpected: they match no record, or are there too often; {MORE}",
        "note: a note",
        "sink flights: 90 offsets judged, differences found",
    ]
