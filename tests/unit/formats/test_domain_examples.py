"""The examples for five domains: their job files are valid, and their records fit their tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chsink.config import load
from chsink.decode.columns import Column
from tests.unit.formats.decoding import outcomes

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "domains"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())
WITH_KEYS = {"campaign_finance", "flight_changes"}


def columns(name: str) -> list[Column]:
    """Those that a record fills."""
    text = (EXAMPLES / name / "table.sql").read_text(encoding="utf-8")
    declared = re.findall(r"^    (\w+) (.+?)(?: (DEFAULT|MATERIALIZED) (.+?))?,?$", text, re.MULTILINE)
    return [
        Column(column, *rest) for column, *rest in declared if rest[1] != "MATERIALIZED" and column[:7] != "_kafka_"
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_record_fits(name: str) -> None:
    config = load(EXAMPLES / name / "job.toml", environ={})
    [route] = config.routes
    assert route.topic == route.table == name
    lines = (EXAMPLES / name / "records.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("|", 1) if name in WITH_KEYS else ["", line] for line in lines]
    sent = [(key.encode(), value.encode()) for key, value in pairs if value]
    rows = outcomes(route.format, columns(name), [value for _, value in sent], [key for key, _ in sent], route.keys)
    assert len(rows) > 3
    assert [row for row in rows if isinstance(row, str)] == []


def test_there_are_five_and_the_page_names_them() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(NAMES) == 5 and all(f"[{name}]({name}/job.toml)" in page for name in NAMES)
