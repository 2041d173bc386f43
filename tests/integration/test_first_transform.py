"""docs/your-first-transform.md runs as it is written: its table, job file and program, from its own code blocks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chsink.cli.example import template
from chsink.embedded.stack import Stack
from tests.support.job import command, select
from tests.support.kafka import produce

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "your-first-transform.md").read_text(encoding="utf-8")
BLOCK = dict(re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
SHOWN = re.findall(r"^\d\. │ (\w+) +│ (\w+) +│ +(\d+) │ (\w+) +│ (\S+) │", PAGE, re.MULTILINE)


@pytest.mark.usefixtures("spark")
def test_the_program_lands_the_rows_that_the_page_shows(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it runs a second time: the state says what was processed, and nothing lands again."""
    url = stack.clickhouse[0].url
    command(url, BLOCK["sql"])
    stack.kafka.create_topic("departures", 2)
    for partition, record in enumerate(template("flights.jsonl").splitlines()):
        produce(stack.kafka.bootstrap, "departures", partition % 2, [record])
    job = BLOCK["toml"].replace("/tmp/late-checkpoint", str(tmp_path / "checkpoint"))
    job = job.replace("127.0.0.1:29198", stack.kafka.bootstrap).replace("http://127.0.0.1:25292", url)
    (tmp_path / "late.toml").write_text(job, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    for _ in range(2):
        exec(compile(BLOCK["python"], "late.py", "exec"), {})

        columns = "carrier, airline, flight, origin, delay_h"
        landed = select(url, f"SELECT {columns} FROM late_departures ORDER BY flight").splitlines()
        assert [tuple(row.split("\t")) for row in landed] == SHOWN
    assert len(SHOWN) == 3
