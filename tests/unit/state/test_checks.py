"""The store's self-test tells a store that keeps its contract from one that does not."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from chsink.findings import Finding, Severity
from chsink.ports import StoredRow, StoreUnavailable, Swap
from chsink.state.checks import ROUNDS, store_findings
from chsink.state.memory import MemoryStore

NUMBERS = itertools.count()


class Durable(MemoryStore):
    """Says that it keeps what it is told."""

    durable = True


class Unguarded(Durable):
    """Sets without comparing."""

    def swap(self, swaps: Sequence[Swap]) -> bool:
        with self._lock:
            self._rows.update((s.row.key, s.row) for s in swaps)
        return True


class Liar(Durable):
    """Sets without comparing, and reports a conflict."""

    def swap(self, swaps: Sequence[Swap]) -> bool:
        held = super().swap(swaps)
        if not held:
            self._rows.update((s.row.key, s.row) for s in swaps)
        return held


class Silent(Durable):
    """Never confirms a write."""

    def create(self, rows: Sequence[StoredRow]) -> bool:
        return False


class Away(Durable):
    """Cannot be read."""

    def load(self, sink: str) -> dict[str, StoredRow]:
        raise StoreUnavailable("no route")


class Contended(Durable):
    """Another self-test replaces the row before each of the first swaps."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def swap(self, swaps: Sequence[Swap]) -> bool:
        if self.left > 0:
            self.left -= 1
            key = swaps[0].row.key
            self._rows[key] = StoredRow(key, f"another's {self.left}", "{}")
        return super().swap(swaps)


def examined(store: MemoryStore) -> list[Finding]:
    return list(store_findings(store, "s", lambda: f"attempt {next(NUMBERS)}"))


def test_a_store_that_compares_passes_and_keeps_one_test_row_however_often() -> None:
    store = Durable()

    for _ in range(3):
        [finding] = examined(store)

        assert (finding.id, finding.severity) == ("CHS-221", Severity.OK)
    assert store.load("s!self-test").keys() == {"s!self-test"}


def test_no_sink_sees_the_test_row() -> None:
    store = Durable()

    examined(store)

    assert store.load("s!self-test")
    assert store.load("s") == {}


def test_a_row_that_was_left_behind_is_used_again() -> None:
    store = Durable()
    store.create([StoredRow("s!self-test", "old", "{}")])

    assert [f.severity for f in examined(store)] == [Severity.OK]


@pytest.mark.parametrize("store", [Unguarded(), Liar()])
def test_a_store_that_does_not_compare_stops_the_start(store: MemoryStore) -> None:
    [finding] = examined(store)

    assert (finding.id, finding.severity, finding.error().exit_code) == ("CHS-221", Severity.ERROR, 2)


@pytest.mark.parametrize("store", [Silent(), Away(), Contended(10 * ROUNDS)])
def test_a_store_without_an_answer_is_unavailable_not_broken(store: MemoryStore) -> None:
    [finding] = examined(store)

    assert (finding.id, finding.error().exit_code) == ("CHS-701", 5)


def test_another_self_test_at_the_same_time_is_no_fault() -> None:
    assert [f.severity for f in examined(Contended(3))] == [Severity.OK]


def test_memory_is_no_durable_store() -> None:
    assert [(f.id, f.severity) for f in examined(MemoryStore())] == [
        ("CHS-222", Severity.WARNING),
        ("CHS-221", Severity.OK),
    ]
