"""A live test of the state store: does compare-and-set hold here, now, for this user?

It runs on a row of its own, under a name that no sink can have, so that no driver ever takes it for state.  Two tests
at the same time disturb each other's row, never each other's verdict: only a *stale* swap that is applied proves a
broken store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chsink.errors import PreflightError, UnavailableError
from chsink.findings import Finding, of_error, ok, warning
from chsink.ports import Outcome, Row, StateStore, StoreUnavailable, Swap

ROUNDS = 8


def store_findings(store: StateStore, sink: str, new_attempt: Callable[[], str]) -> Iterator[Finding]:
    """Create, swap, refuse a stale swap, remove."""
    if not store.durable:
        yield warning(
            "CHS-222",
            f"state is kept in {store.name}: after a crash or restart records may be lost or doubled",
            'set state.store = "keepermap" or "zookeeper"',
        )
    try:
        trouble = _trouble(store, f"{sink}!self-test", new_attempt)
    except StoreUnavailable as raised:
        yield of_error(_unavailable(store, sink, str(raised)))
        return
    if trouble is None:
        yield ok("CHS-221", f"the state store ({store.name}) keeps, compares and sets rows as it must")
    else:
        yield of_error(trouble if isinstance(trouble, PreflightError) else _unavailable(store, sink, trouble))


def _unavailable(store: StateStore, sink: str, why: str) -> UnavailableError:
    return UnavailableError(
        "CHS-701",
        f"sink {sink!r}: the state store ({store.name}) does not answer: {why}",
        "bring the store back and start again",
    )


def _trouble(store: StateStore, key: str, new_attempt: Callable[[], str]) -> PreflightError | str | None:
    """What is wrong, None when all went as it must; a text when the store gave no answer that proves anything."""
    for _ in range(ROUNDS):
        first = _place(store, key, new_attempt)
        second, third = Row(key, new_attempt(), "{}"), Row(key, new_attempt(), "{}")
        if first is None or store.swap([Swap(first, second)]) is not Outcome.APPLIED:
            continue
        if store.swap([Swap(first, third)]) is Outcome.APPLIED:
            return _broken(store, "it replaced a row whose attempt was not the expected one")
        row = store.load(key).get(key)
        if row is not None and row.attempt == third.attempt:
            return _broken(store, "it refused a write and applied it")
        store.delete([key])
        return None
    return f"none of {ROUNDS} writes of a test row was applied (for KeeperMap, see sql/4_state_checks.sql)"


def _place(store: StateStore, key: str, new_attempt: Callable[[], str]) -> str | None:
    """The attempt of the row as it stands, made where it is missing; None when it could not be made."""
    row = store.load(key).get(key)
    if row is not None:
        return row.attempt
    made = Row(key, new_attempt(), "{}")
    return made.attempt if store.create([made]) is Outcome.APPLIED else None


def _broken(store: StateStore, what: str) -> PreflightError:
    return PreflightError(
        "CHS-221",
        f"the state store ({store.name}) does not compare and set: {what}",
        "do not run on this store; for KeeperMap, see docs/state-store.md",
    )


def needed_grants(table: str, user: str) -> dict[str, str]:
    """What the user must be allowed to do on the KeeperMap table: privilege → the statement that grants it."""
    return {p: f"GRANT {p} ON {table} TO {user}" for p in ("SELECT", "INSERT", "ALTER UPDATE")}
