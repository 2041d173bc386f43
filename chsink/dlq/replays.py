"""What replays of a sink's dead letters left in doubt."""

from __future__ import annotations

from chsink.dlq.place import replay_sink
from chsink.driver.ledger import read_records
from chsink.ports import StateStore
from chsink.statemachine.records import StateKey, StateRecord


def replays_in_doubt(store: StateStore, sink: str) -> dict[StateKey, StateRecord]:
    """Lists of dead letters that were announced and not confirmed, in the order of their keys."""
    return {key: record for key, record in sorted(read_records(store, replay_sink(sink)).items()) if record.in_doubt}
