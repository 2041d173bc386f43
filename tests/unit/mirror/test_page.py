"""The table of requirements: none is missing, and every test that it names exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from chsink.findings import Severity
from chsink.mirror.checks import table_findings
from chsink.mirror.types import TableColumns

CHECKOUT = Path(__file__).parents[3]
PAGE = (CHECKOUT / "docs" / "mirror.md").read_text(encoding="utf-8")
ROWS = [re.split(r" \| ", line.strip("| ")) for line in PAGE.splitlines() if re.match(r"\| [A-Z]+-\d+ \|", line)]
BUILT = {
    "W": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    "T": (1, 2, 3, 4, 5, 6, 7, 8, 10),
    "E": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    "C": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
    "K": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    "V": (1, 2, 3),
    "I": (1, 2, 3, 4, 5),
    "R": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    "F": (1, 2, 3, 4, 5, 6),
    "Z": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    "Q": (1, 2, 3, 7),
    "P": (1, 2, 3, 4, 5, 6, 7, 8),
    "O": (1, 2, 3, 4, 5, 6),
    "A": (1, 2, 3, 4, 5, 6),
    "G": (1, 2, 3, 4),
}
"""The numbers of what is built."""
NOT_BUILT = "Not built: M-1 to M-4"
OPEN: set[str] = set()
"""What is not shown yet.  A row leaves this list with its test."""


def test_every_requirement_has_a_row() -> None:
    assert [row[0] for row in ROWS] == [f"{letter}-{number}" for letter, numbers in BUILT.items() for number in numbers]
    others = PAGE[PAGE.index(NOT_BUILT) :].partition("`")[0]
    assert re.findall(r"\b[A-Z]-\d+", others) == ["M-1", "M-4", "T-9", "C-15", "Z-12", "Q-4", "Q-6"]


def test_every_row_names_its_tests_or_is_open() -> None:
    assert {row[0] for row in ROWS if "::" not in row[3]} == OPEN
    assert all(row[3].startswith("open") for row in ROWS if row[0] in OPEN)


def test_every_test_that_is_named_exists() -> None:
    files = {
        file.name: file
        for file in (CHECKOUT / "tests").rglob("test_*.py")
        if "mirror" in str(file.relative_to(CHECKOUT)) or file.name.endswith("_on_rest.py")
    }
    files |= {file.name: file for file in (CHECKOUT / "tests/unit/statemachine/commit").glob("test_*.py")}
    files |= {file.name: file for file in (CHECKOUT / "tests/unit/config").glob("test_kafka_*.py")}
    files["test_architecture.py"] = CHECKOUT / "tests/unit/test_architecture.py"
    named = [tuple(name.split("::")) for row in ROWS for name in re.findall(r"`(test_\w+\.py::\w+)`", row[3])]
    assert len(named) > 60
    missing = [(file, test) for file, test in named if f"def {test}(" not in files[file].read_text(encoding="utf-8")]
    assert missing == []


def test_every_file_of_code_exists() -> None:
    for row in ROWS:
        for name in re.findall(r"`([\w/]+\.py)`", row[2]):
            places = [CHECKOUT / "chsink" / name, CHECKOUT / "statemachine" / name, CHECKOUT / "chsink/mirror" / name]
            assert any(place.is_file() for place in places), (row[0], name)


def test_the_example_creates_a_table_that_the_mirror_takes(tmp_path: Path) -> None:
    """It is run as it stands, but for its folder."""
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    made: dict[str, Any] = {}
    exec(example.replace("/data/lake", str(tmp_path)), made)
    table = made["catalog"].load_table("air.flights")
    assert [f.severity for f in table_findings("air.flights", table)] == [Severity.OK]
    value = {"icao24": "3c6444", "altitude": 11277.6, "seen_at": "2026-11-21T23:47:11Z"}
    records = pa.RecordBatch.from_pydict(
        {"value": [json.dumps(value).encode()], "topic": ["flights"], "partition": [0], "offset": [7], "timestamp": [0]}
    )
    decoded = TableColumns(table.schema()).decode(records)
    assert not decoded.bad and decoded.batch.to_pylist()[0]["altitude"] == 11277.6
