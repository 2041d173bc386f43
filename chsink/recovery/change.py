"""Changing state manually: find the records, show the change, claim the sink, write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.landing import new_ledger
from chsink.driver.ledger import Ledger, catch_up, read_owner, read_records
from chsink.driver_name import driver_name
from chsink.errors import halts
from chsink.ports import StateStore
from chsink.recovery.replays import stop_replays
from chsink.statemachine.records import StateKey, StateRecord

Make = Callable[[StateRecord, int, str], StateRecord]
"""(record as claimed, epoch, attempt) → the record to write."""


@dataclass(frozen=True, slots=True)
class Change:
    """A planned change of some records.  ``found`` holds them as they were shown; ``says`` is what will be done.
    ``resets``: it lets the job land records again.
    """

    found: Mapping[StateKey, StateRecord]
    says: tuple[str, ...]
    make: Mapping[StateKey, Make]
    resets: bool = False


def carry_out(clickhouse: Cluster, store: StateStore, change: Change, command: str) -> dict[StateKey, StateRecord]:
    """Claim the sink and write.  Returns the new records.

    Raises FencedError when somebody else claims meanwhile, PreflightError CHS-323 when a record is not the shown one,
    and CHS-338 when a replay of it is in doubt.
    """
    replays = stop_replays(clickhouse, store, change.found) if change.resets else None
    taken = [key for key, shown in change.found.items() if not shown.table_by.left]  # a start comes back to the others
    ledger = claim(clickhouse, store, command, taken, resets=change.resets)
    for key, shown in change.found.items():
        check_unchanged(key, shown, ledger.records[key])
    if replays is not None:
        replays.check_owned()
    attempt = ledger.attempt()
    written = {key: make(ledger.records[key], ledger.epoch, attempt) for key, make in change.make.items()}
    ledger.write(written)
    return written


def claim(
    clickhouse: Cluster, store: StateStore, command: str, keys: Iterable[StateKey], *, resets: bool = False
) -> Ledger:
    """Own the sink, with a row for every key, under a name that a fenced driver will show.  No table joins others."""
    name = f"`chsink state {command}` on {driver_name()}"
    ledger = replace(new_ledger(clickhouse, store, name, resets=resets), chosen=())
    ledger.claim(keys, clickhouse.layouts)
    return ledger


def find(
    store: StateStore, sink: str, topic: str | None, partitions: Collection[int], table: str | None = None
) -> dict[StateKey, StateRecord]:
    """The records of a topic, or of these partitions; without ``topic``, of all.  PreflightError CHS-320 when one has
    none.
    """
    catch_up(store, sink)
    if read_owner(store, sink) is None:
        raise halts.NO_STATE(sink=sink)
    found = {
        k: r
        for k, r in sorted(read_records(store, sink).items())
        if topic in (None, k.topic) and (not partitions or k.partition in partitions) and table in (None, k.table)
    }
    missing = sorted(set(partitions) - {k.partition for k in found})
    if missing or not found:
        named = f" partition {', '.join(map(str, missing))}" if missing else ""
        raise halts.NO_STATE_OF(sink=sink, what=f"{topic or table}{named}")
    return found


def in_words(record: StateRecord) -> str:
    """The record in a few words."""
    if record.range.is_empty:
        return f"{record.phase}, incarnation {record.life.incarnation}"
    gaps = f", gaps {', '.join(map(str, record.gaps))}" if record.gaps else ""
    return f"{record.phase} {record.range}, first {record.life.first}{gaps}, incarnation {record.life.incarnation}"


def check_unchanged(key: StateKey, shown: StateRecord, now: StateRecord) -> None:
    """PreflightError CHS-323 when the record is not the one that was shown; who wrote it last does not count."""
    if _content(now) != _content(shown):
        raise halts.CHANGED_MEANWHILE(key=key, state=in_words(now))


def _content(record: StateRecord) -> StateRecord:
    """The record without who wrote it last."""
    return replace(record, epoch=0, attempt="-")
