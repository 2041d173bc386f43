"""A sink's state as a crash, an upgrade or an accident leaves it, written by a driver's own ledger; and ``chsink state``."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.clickhouse.landing import present_fingerprint
from chsink.connect import Services, connected
from chsink.driver.ledger import Ledger
from chsink.formats.pipeline import Untouched
from chsink.notation.sql import quote_strings
from chsink.observe.logs import configure
from chsink.state.keepermap import KeeperMapStore
from chsink.statemachine import writes
from chsink.statemachine.parts import Seen, Sending
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey, StateRecord
from tests.support.job import Job, command


def run(job: Job, *arguments: str, stdin: str = "") -> Result:
    """``chsink state …`` with the job's file."""
    return CliRunner().invoke(app, ["state", *arguments, "-c", str(job.file())], input=stdin)


def quietly_connected(job: Job, overrides: Mapping[str, Any] | None = None) -> AbstractContextManager[Services]:
    """The services of the job's file; errors only are logged."""
    configure("console", "error")
    return connected(job.config(overrides))


def announce(job: Job, ranges: Mapping[int, tuple[int, int]]) -> None:
    """By partition (start, end): [0, start) landed, [start, end), if any, was announced; then the driver crashed."""
    with quietly_connected(job) as opened:
        keys = {n: StateKey(job.name, job.topic, n, job.tables[job.topic]) for n in ranges}
        layouts = opened.clickhouse.layouts
        ledger = Ledger(opened.store, job.name, "a test", opened.clock, lambda: uuid.uuid4().hex)
        ledger.claim(keys.values(), layouts)
        said = writes.Announcement(
            opened.kafka.topic_ids([job.topic])[job.topic],
            Sending(
                job.config().clickhouse.chunk_offsets,
                next(iter(layouts)),
                present_fingerprint(opened.clickhouse, (job.topic, job.tables[job.topic]), Untouched("read_committed")),
            ),
            Seen(
                opened.clock.now_ms(),
                opened.clickhouse.window().marks([table := job.tables[job.topic]])[table],
            ),
        )
        for n, (start, end) in ranges.items():
            for planned in filter(lambda r: not r.is_empty, (OffsetRange(0, start), OffsetRange(start, end))):
                before = writes.before(
                    ledger.records[keys[n]],
                    planned,
                    said,
                    epoch=ledger.epoch,
                    attempt=ledger.attempt(),
                    fresh=planned.start == 0,
                )
                ledger.write({keys[n]: before})
                if planned.end == start:
                    ledger.write({keys[n]: writes.after(before, epoch=ledger.epoch, attempt=ledger.attempt())})


def edit(job: Job, *partitions: int, **fields: Any) -> None:
    """Let a driver own the sink, and change its records; without ``partitions``, all of them.

    ``fields`` are those of the record; a mapping changes these fields of that part.
    """

    def changed(record: StateRecord) -> StateRecord:
        parts = {n: replace(getattr(record, n), **of) for n, of in fields.items() if isinstance(of, dict)}
        return replace(record, attempt=attempt, **{**fields, **parts})

    with quietly_connected(job) as opened:
        ledger = Ledger(opened.store, job.name, "a test", opened.clock, lambda: uuid.uuid4().hex)
        ledger.claim([], opened.clickhouse.layouts)
        attempt = ledger.attempt()
        ledger.write({k: changed(r) for k, r in ledger.records.items() if not partitions or k.partition in partitions})


def forget_state(job: Job) -> None:
    """Delete the state, as losing the Keeper would."""
    with quietly_connected(job) as opened:
        store = opened.store
        assert isinstance(store, KeeperMapStore)
        keys = quote_strings(list(store.load(job.name)))
        store.client.command(f"ALTER TABLE {store.table} DELETE WHERE key IN ({keys})", {"mutations_sync": 1})
        assert store.load(job.name) == {}


def insert(job: Job, partition: int, offsets: Iterable[int], ids: Iterable[int] | None = None) -> None:
    """The rows of these offsets, as the job would have landed them, spread over the shards."""
    pairs = list(zip(offsets, ids or offsets, strict=False))
    for number, shard in enumerate(job.shards):
        rows = [
            f"({n}, '{partition}:{n}', '{job.topic}', {partition}, {o})"
            for o, n in pairs
            if n % len(job.shards) == number
        ]
        command(shard, f"INSERT INTO {job.tables[job.topic]} VALUES {', '.join(rows)}")
