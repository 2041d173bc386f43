"""State in this process's memory.

It obeys the same contract as the others, between threads of one process.  It guarantees nothing across a crash or a
restart: a range that was in doubt is forgotten, so its rows may be lost or duplicated.  For tests and evaluation only;
the job logs that when it starts.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Literal

from chsink.ports import StoredRow, Swap
from chsink.state.settings import ClickHouseAccess, StoreSettings


class Memory(StoreSettings):
    """State in the driver's memory. For evaluation only: after a crash or restart, rows may be lost or duplicated."""

    store: Literal["memory"]
    """Which store."""

    def open(self, _clickhouse: ClickHouseAccess, /) -> MemoryStore:
        """An empty store."""
        return MemoryStore()


class MemoryStore:
    """:class:`chsink.ports.StateStore` in a dict.  Threads may share it."""

    name = "memory"
    durable = False

    def __init__(self) -> None:
        self._rows: dict[str, StoredRow] = {}
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Nothing to make."""

    def load(self, sink: str) -> dict[str, StoredRow]:
        """All rows of the sink."""
        with self._lock:
            return {k: r for k, r in self._rows.items() if k == sink or k.startswith(f"{sink}/")}

    def catch_up(self, row: StoredRow) -> None:
        """Nothing lags."""

    def create(self, rows: Sequence[StoredRow]) -> bool:
        """Create all rows, or none if one exists."""
        assert len({r.key for r in rows}) == len(rows), "keys are unique"
        with self._lock:
            if self._ours(rows):
                return True
            if any(r.key in self._rows for r in rows):
                return False
            self._rows.update((r.key, r) for r in rows)
            return True

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """Replace all rows, or none if one is missing or has another attempt."""
        assert len({s.row.key for s in swaps}) == len(swaps), "keys are unique"
        with self._lock:
            if self._ours([s.row for s in swaps]):
                return True
            for swap in swaps:
                row = self._rows.get(swap.row.key)
                if row is None or row.attempt != swap.expected:
                    return False
            self._rows.update((s.row.key, s.row) for s in swaps)
            return True

    def _ours(self, rows: Sequence[StoredRow]) -> bool:
        """Whether this very write was applied before."""
        return all(r.key in self._rows and self._rows[r.key].attempt == r.attempt for r in rows)

    def close(self) -> None:
        """Nothing to release."""
