"""Changing state by hand: find the records, show the change, claim the sink, write."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chsink.batch.ledger import Ledger, read_owner, read_records
from chsink.clickhouse.identifiers import plain_or_quoted
from chsink.errors import PreflightError
from statemachine.records import StateKey, StateRecord

if TYPE_CHECKING:
    from chsink.wiring import Wiring

Make = Callable[[StateRecord, int, str], StateRecord]
"""(record as claimed, epoch, attempt) → the record to write."""


@dataclass(frozen=True, slots=True)
class Change:
    """What shall become of some records.  ``found`` holds them as they were shown; ``says`` is what will be done."""

    found: Mapping[StateKey, StateRecord]
    says: tuple[str, ...]
    make: Mapping[StateKey, Make]


def carry_out(wiring: Wiring, change: Change, command: str) -> dict[StateKey, StateRecord]:
    """Claim the sink and write.  Returns the new records.

    Raises FencedError when somebody else claims meanwhile, PreflightError CHS-323 when a record is not the shown one.
    """
    ledger = claim(wiring, command, change.found)
    for key, shown in change.found.items():
        if _content(ledger.records[key]) != _content(shown):
            raise PreflightError(
                "CHS-323",
                f"{key} changed between looking and deciding: it is {describe(ledger.records[key])} now",
                "nothing was written; stop the running job, then look again",
            )
    attempt = ledger.attempt()
    written = {key: make(ledger.records[key], ledger.epoch, attempt) for key, make in change.make.items()}
    ledger.write(written)
    return written


def claim(wiring: Wiring, command: str, keys: Iterable[StateKey]) -> Ledger:
    """Own the sink, with a row for every key, under a name that a fenced driver will show."""
    from chsink.wiring import driver_name

    ledger = Ledger(
        wiring.store,
        wiring.config.sink.name,
        f"`chsink state {command}` on {driver_name()}",
        wiring.clock,
        lambda: uuid.uuid4().hex,
        int(wiring.config.state.timeout_s * 1000),
    )
    layouts = (wiring.layout(r) for r in wiring.config.routes)
    ledger.claim(keys, {layout.fingerprint(): layout.to_json() for layout in layouts})
    return ledger


def find(wiring: Wiring, topic: str, partition: int | None, table: str | None = None) -> dict[StateKey, StateRecord]:
    """The records of a topic, or of one partition.  PreflightError CHS-320 when there is none."""
    sink = wiring.config.sink.name
    if read_owner(wiring.store, sink) is None:
        raise PreflightError(
            "CHS-320", f"the sink {sink!r} has no state", "check sink.name and [state] in the job file"
        )
    found = {
        k: r
        for k, r in sorted(read_records(wiring.store, sink).items())
        if k.topic == topic and partition in (None, k.partition) and table in (None, k.table)
    }
    if not found:
        what = topic if partition is None else f"{topic} partition {partition}"
        raise PreflightError("CHS-320", f"the sink {sink!r} has no state of {what}", "see `chsink state show`")
    return found


def is_routed(wiring: Wiring, key: StateKey) -> bool:
    """Whether a route leads the record's topic to its table still."""
    if key.topic not in wiring.config.topics:
        return False
    name = wiring.config.table_of(wiring.config.route_of(key.topic))
    assert name.database is not None
    return plain_or_quoted(name.database, name.table) == key.table


def describe(record: StateRecord) -> str:
    """The record in a few words."""
    if record.range.is_empty:
        return f"{record.phase}, incarnation {record.incarnation}"
    gaps = f", gaps {', '.join(map(str, record.gaps))}" if record.gaps else ""
    return f"{record.phase} {record.range}, first {record.first}{gaps}, incarnation {record.incarnation}"


def _content(record: StateRecord) -> StateRecord:
    """The record without who wrote it last."""
    return replace(record, epoch=0, attempt="-")
