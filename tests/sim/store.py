"""Simulated state store: compare-and-set that is applied without an answer, late, twice, or in parts.

A load is not a snapshot: rows are read one by one.  A lost session gives no answers for a while.  A load from a store
that *lags* may return an earlier state, like a replica of the Keeper that is behind, unless the client has caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from chsink.ports import Outcome, StoredRow, StoreUnavailable, Swap
from tests.sim.hub import Hub
from tests.sim.oracle import Consent, Oracle

TIMEOUT_S = 2.0
LAGS, LAG_MS = 0.3, 3_000
"""How often a lagging store answers from an earlier state, and how old that state may be."""
T = TypeVar("T")


class Store:
    """The service.  ``group`` is how many rows one statement takes; ``under_way`` counts statements that will arrive."""

    def __init__(self, hub: Hub, oracle: Oracle, group: int) -> None:
        self.hub = hub
        self.oracle = oracle
        self.group = group
        self.rows: dict[str, StoredRow] = {}
        self.down_until = 0
        self.lost_state = False
        self.lives = self.under_way = 0
        self.lags = False
        self.past: list[tuple[int, dict[str, StoredRow]]] = []  # until when it was the present state

    def apply_create(self, rows: Sequence[StoredRow]) -> Outcome:
        """All or none."""
        if any(r.key in self.rows for r in rows):
            return Outcome.REFUSED
        self._put(rows)
        return Outcome.APPLIED

    def apply_swap(self, swaps: Sequence[Swap]) -> Outcome:
        """All or none."""
        rows = self.rows
        if any(s.row.key not in rows or rows[s.row.key].attempt != s.expected for s in swaps):
            return Outcome.REFUSED
        self._put([s.row for s in swaps])
        return Outcome.APPLIED

    def _put(self, rows: Sequence[StoredRow]) -> None:
        if self.lags:
            self.past = [*self.past[-3:], (self.hub.now, dict(self.rows))]
        for row in rows:
            self.oracle.stored(self.rows.get(row.key), row)
            self.rows[row.key] = row

    def forget(self, backup: Mapping[str, StoredRow] | None = None) -> None:
        """Lose the state, as if an operator dropped the table; with ``backup``, restore this earlier state."""
        self.rows = dict(backup or {})
        self.past.clear()
        self.lives += 1
        self.oracle.forget_state()

    def start_over(self) -> None:
        """Remove the sink's rows; no earlier write is under way any more."""
        self.rows.clear()
        self.past.clear()
        self.lives += 1


class StoreClient:
    """:class:`chsink.ports.StateStore` as one process sees it."""

    name = "simulated"
    durable = True

    def __init__(self, store: Store) -> None:
        self.store = store
        self.hub = store.hub
        self._caught_up_at = 0

    def prepare(self) -> None:
        """Nothing to make."""

    def load(self, sink: str) -> dict[str, StoredRow]:
        """See :class:`chsink.ports.StateStore`."""
        self.hub.pause()
        if self._down("store load"):
            raise StoreUnavailable("no session")
        oldest = max(self.hub.now - LAG_MS, self._caught_up_at)
        past = [rows for until, rows in self.store.past if until >= oldest]
        if past and self.hub.random.random() < LAGS:
            self.hub.counts["outcome load lags"] += 1
            rows = self.hub.random.choice(past)
            return {k: row for k, row in rows.items() if k == sink or k.startswith(sink + "/")}
        keys = sorted(k for k in self.store.rows if k == sink or k.startswith(sink + "/"))
        self.hub.random.shuffle(keys)
        if self.hub.random.random() < 0.5:
            keys.sort(key=lambda key: key != sink)
        found = {}
        for key in keys:
            self.hub.pause()
            row = self.store.rows.get(key)
            if row is not None:
                found[key] = row
        self.hub.counts["outcome load answered"] += 1
        return found

    def catch_up(self, row: StoredRow) -> None:
        """See :class:`chsink.ports.StateStore`."""
        self.hub.pause()
        if self._down("store catch up") or self.hub.fault("store catch up lost", 0.02):
            raise StoreUnavailable("no answer")
        self._caught_up_at = self.hub.now

    def create(self, rows: Sequence[StoredRow]) -> bool:
        """See :class:`chsink.ports.StateStore`."""
        return self._grouped("create", rows, self.store.apply_create)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        """See :class:`chsink.ports.StateStore`."""
        return self._grouped("swap", swaps, self.store.apply_swap)

    def close(self) -> None:
        """Nothing to release."""

    def _down(self, what: str) -> bool:
        hub, store = self.hub, self.store
        if hub.now >= store.down_until and hub.fault("store session lost", 0.004):
            store.down_until = hub.now + int(hub.chance.random() ** 3 * 60_000)
        if hub.now >= store.down_until:
            return False
        hub.sleep(TIMEOUT_S)
        hub.counts[f"outcome {what} unavailable"] += 1
        return True

    def _grouped(self, verb: str, items: Sequence[T], apply: Callable[[Sequence[T]], Outcome]) -> bool:
        for at in range(0, len(items), self.store.group):
            outcome = self._one(verb, items[at : at + self.store.group], apply)
            self.hub.counts[f"outcome {verb} {outcome}"] += 1
            if outcome is not Outcome.APPLIED:
                return False
        return True

    def _one(self, verb: str, part: Sequence[T], apply: Callable[[Sequence[T]], Outcome]) -> Outcome:
        hub, life = self.hub, self.store.lives
        hub.pause()
        if self._down(f"store {verb}") or hub.fault(f"store {verb} lost", 0.02):
            return Outcome.UNKNOWN
        if hub.fault(f"store {verb} late", 0.02):
            self._later(apply, part, life)
            return Outcome.UNKNOWN
        outcome = apply(part)
        if hub.fault(f"store {verb} delivered twice", 0.02):
            self._later(apply, part, life)
        if hub.fault(f"store {verb} answer lost", 0.03):
            return Outcome.UNKNOWN
        hub.pause()
        return outcome

    def _later(self, apply: Callable[[Sequence[T]], Outcome], part: Sequence[T], life: int) -> None:
        self.store.under_way += 1
        consent = self.store.oracle.consented
        self.hub.after(self._delay(), lambda: self._arrive(apply, part, life, consent))

    def _arrive(self, apply: Callable[[Sequence[T]], Outcome], part: Sequence[T], life: int, consent: Consent) -> None:
        self.store.under_way -= 1
        if life == self.store.lives:
            with self.store.oracle.under(consent):
                self.hub.counts[f"outcome late write {apply(part)}"] += 1

    def _delay(self) -> int:
        return int(self.hub.chance.random() ** 4 * 100_000)
