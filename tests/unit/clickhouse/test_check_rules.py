"""Judgements over numbers: each verdict at its edge."""

from __future__ import annotations

import pytest

from chsink.clickhouse.checks import rules
from chsink.clickhouse.checks.rules import Load, Replication, View


@pytest.mark.parametrize(
    ("version", "severity"), [("24.7.9.1", "warning"), ("24.8.1.1", "ok"), ("26.9.2.1", "ok"), ("9.1", "warning")]
)
def test_server_version(version: str, severity: str) -> None:
    assert rules.server_version("http://a", version).severity == severity


DRIVER_MS = 7_000_000
"""How far any server is ahead of the driver: it does not matter."""


@pytest.mark.parametrize(
    ("second", "margin_s", "severity"),
    [
        ((-30_000, -29_900), 30, "ok"),
        ((-30_102, -30_101), 30, "error"),
        ((31_200, 31_300), 30, "error"),
        ((900, 901), 0, "ok"),
    ],
)
@pytest.mark.parametrize("driver_ms", [0, DRIVER_MS])
def test_clocks_of_replicas(second: tuple[int, int], margin_s: int, severity: str, driver_ms: int) -> None:
    """⚑ A driver whose clock was wrong did not start, although no decision depends on it."""
    at_least, at_most = (driver_ms + ms for ms in second)
    finding = rules.clocks({"http://a": (driver_ms, driver_ms + 100), "http://b": (at_least, at_most)}, margin_s)
    assert (finding.id, finding.severity) == ("CHS-224", severity)


def test_a_wrong_clock_says_whose_and_by_how_much() -> None:
    ahead = {"http://a": (0, 10), "http://b": (5, 9), "http://c": (31_010, 31_020)}
    assert "clock of http://c is 31.0 s ahead of that of http://b" in rules.clocks(ahead, 30).sentence


ONE, TWO = ("http://a",), ("http://a", "http://b")


@pytest.mark.parametrize(
    ("found", "severity"),
    [
        (Replication(False, ONE, 1, "0", {}), None),
        (Replication(False, TWO, 1, "0", {}), "error"),
        (Replication(True, ONE, 1, "0", {"http://a": "/t"}), "ok"),
        (Replication(True, ONE, 2, "0", {"http://a": "/t"}), "error"),
        (Replication(True, ONE, 2, "1", {"http://a": "/t"}), "error"),
        (Replication(True, ONE, 3, "2", {"http://a": "/t"}), "ok"),
        (Replication(True, TWO, 2, "auto", {"http://a": "/t", "http://b": "/t"}), "ok"),
        (Replication(True, TWO, 2, "auto", {"http://a": "/t", "http://b": "/u"}), "error"),
    ],
)
def test_replicas_are_one_table_and_acknowledge_together(found: Replication, severity: str | None) -> None:
    """⚑ several replicas need one Keeper path and insert_quorum, else refused."""
    finding = rules.replication("d.t", found)

    assert (finding.severity if finding else None) == severity


@pytest.mark.parametrize(
    ("view", "severity", "fix"),
    [
        (View("d.v", "d.t2", "MergeTree", 100), "ok", ""),
        (View("d.v", "d.t2", "MergeTree", 0), "warning", "non_replicated_deduplication_window"),
        (View("d.v", "d.t2", "ReplicatedMergeTree", 0), "warning", " replicated_deduplication_window"),
        (View("d.v", "d.t2", "Null", None), "warning", "MergeTree"),
        (View("d.v", "d.t2", "", None), "warning", "MergeTree"),
        (View("d.v", "d.t2", "MergeTree", 100, volatile=("at",)), "warning", "comes from the record"),
    ],
)
def test_a_view_counts_twice_unless_its_table_deduplicates(view: View, severity: str, fix: str) -> None:
    [finding] = rules.views("d.t", [view])

    assert finding.severity == severity
    assert fix in finding.fix


def test_no_views_no_finding() -> None:
    assert rules.views("d.t", []) == []


@pytest.mark.parametrize(
    ("load", "verdicts"),
    [
        (Load(50, 0, partitioned=False, touched=1, per_block=100), [("CHS-211", "ok")]),
        (Load(51, 0, partitioned=False, touched=1, per_block=100), [("CHS-211", "info")]),
        (Load(50, 0, partitioned=True, touched=2, per_block=100), [("CHS-211", "ok")]),
        (Load(34, 0, partitioned=True, touched=3, per_block=100), [("CHS-211", "warning")]),
        (Load(51, 0, partitioned=True, touched=3, per_block=100), [("CHS-211", "info"), ("CHS-211", "warning")]),
        (Load(None, 101, partitioned=False, touched=1, per_block=100), [("CHS-211", "info")]),
        (Load(None, 0, partitioned=True, touched=0, per_block=100), [("CHS-211", "ok")]),
        (Load(1, 0, partitioned=True, touched=101, per_block=100), [("CHS-230", "warning")]),
        (Load(1, 0, partitioned=True, touched=101, per_block=0), [("CHS-211", "ok")]),
        (Load(1, 0, partitioned=True, touched=101, per_block=100, rows=100), [("CHS-211", "ok")]),
    ],
)
def test_a_batch_fits_the_window(load: Load, verdicts: list[tuple[str, str]]) -> None:
    """⚑ the window counts parts of the whole table: chunks × table partitions a batch are bounded by it."""
    assert [(f.id, str(f.severity)) for f in rules.window("d.t", "http://a", 111, 100, load)] == verdicts


def test_a_batch_that_fits_is_said_in_blocks() -> None:
    """⚑ It called another number remembered than CHS-203 does."""
    [fits] = rules.window("d.t", "http://a", 10_000, 9000, Load(4, 0, partitioned=False, touched=1, per_block=100))

    assert fits.sentence == (
        "d.t at http://a remembers 10,000 blocks; chsink relies on 9,000, and one round needs at most 4"
    )
