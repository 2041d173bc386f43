"""A live test of the state store: does compare-and-set hold here, now, for this user?

It uses one row of its own per sink, under a name that no sink can have, so no driver ever takes it for state.  The row
stays: a store never deletes, so its user needs no privilege for that.  Two tests at the same time disturb each other's
writes, never each other's verdict: only a *stale* swap that is applied proves a broken store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chsink.errors import preflight, services
from chsink.errors.entry import Entry
from chsink.findings import Finding, Severity, found, passed
from chsink.ports import StateStore, StoredRow, StoreUnavailable, Swap

ROUNDS = 8


def store_findings(store: StateStore, sink: str, new_attempt: Callable[[], str]) -> Iterator[Finding]:
    """Swap the test row, and try a stale swap."""
    if not store.durable:
        yield found(Severity.WARNING, preflight.STATE_NOT_DURABLE, store=store.name)
    try:
        broken = _broken(store, f"{sink}!self-test", new_attempt)
    except StoreUnavailable as raised:
        yield found(Severity.ERROR, services.STATE_STORE_UNAVAILABLE, store=store.name, reason=raised)
        return
    if broken is None:
        yield passed(preflight.STATE_STORE_OVERWRITES, store=store.name)
    else:
        yield found(Severity.ERROR, broken, store=store.name)


def _broken(store: StateStore, key: str, new_attempt: Callable[[], str]) -> Entry | None:
    """What is wrong with the store, None if nothing.  StoreUnavailable if no answer proves anything."""
    for _ in range(ROUNDS):
        first = _place(store, key, new_attempt)
        second, third = StoredRow(key, new_attempt(), "{}"), StoredRow(key, new_attempt(), "{}")
        if first is None or not store.swap([Swap(first, second)]):
            continue
        if store.swap([Swap(first, third)]):
            return preflight.STATE_STORE_OVERWRITES
        row = store.load(key).get(key)
        if row is not None and row.attempt == third.attempt:
            return preflight.STATE_STORE_LIES
        return None
    raise StoreUnavailable(
        f"none of {ROUNDS} writes of a test row was applied (for KeeperMap, run sql/4_state_checks.sql)"
    )


def _place(store: StateStore, key: str, new_attempt: Callable[[], str]) -> str | None:
    """The attempt in the test row, which is created if missing; None if it could not be created."""
    row = store.load(key).get(key)
    if row is not None:
        return row.attempt
    made = StoredRow(key, new_attempt(), "{}")
    return made.attempt if store.create([made]) else None
