"""A mirror whose job file has no ``[clickhouse]``: every command that needs none works, and nothing is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from chsink.config import load
from chsink.ui.document import document
from chsink.ui.eyes import Eyes
from tests.integration.mirror.bench import Bench
from tests.integration.mirror.conftest import MakeBench

pytestmark = pytest.mark.slow


def chsink(bench: Bench, *command: str) -> subprocess.CompletedProcess[str]:
    """A process, as a user starts it."""
    argv = [sys.executable, "-m", "chsink.cli.main", *command, "-c", str(bench.job_file())]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.soak
def test_a_mirror_runs_where_there_is_no_clickhouse(make_bench: MakeBench) -> None:
    bench = make_bench(partitions=2)
    bench.produce([1, 2, 3])
    bench.produce([4], partition=1)
    looked = chsink(bench, "doctor", "--json", "--sample", "10")
    findings = json.loads(looked.stdout)["findings"]
    assert looked.returncode == 0, findings
    assert any("sampled records fit Iceberg table shop.orders" in each["sentence"] for each in findings), findings
    assert not any("ClickHouse" in each["sentence"] for each in findings)
    ran = chsink(bench, "mirror", "run", "--set", "trigger.mode=available_now")
    assert ran.returncode == 0, ran.stderr[-3000:]
    rows = bench.catalog().load_table("shop.orders").scan().to_arrow().column("id").to_pylist()
    assert sorted(rows) == [1, 2, 3, 4]
    [table] = json.loads(chsink(bench, "mirror", "status", "--json").stdout)["tables"]
    assert (table["lag"], table["problem"]) == (0, "")
    found = page(bench)
    assert found["health"]["sentence"] == "Up to date: the mirror has all that Kafka holds."
    [shown] = found["mirror"]["tables"]
    assert (shown["table"], shown["lag"], shown["pending"], shown["halted"]) == ("shop.orders", 0, 0, False)
    assert shown["snapshot"] == str(table["snapshot"])


def page(bench: Bench) -> dict[str, Any]:
    """What the status page finds."""
    eyes = Eyes(load(bench.job_file()))
    try:
        return document(eyes.look(), job_words=[], interval_s=5)
    finally:
        eyes.rest()
