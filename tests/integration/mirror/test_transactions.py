"""Transactions that do not end, and brokers that do not answer, on the real broker."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from chsink import failpoints
from chsink.batch.model import Ack
from chsink.mirror.control import ControlUnanswered
from chsink.mirror.coordinator import HANGS_AFTER_MS
from chsink.mirror.events import Event, StartCommit, encode
from chsink.mirror.failures import as_error
from chsink.mirror.lander import MirrorLander
from chsink.mirror.stop_reasons import Halted, Hanging
from chsink.mirror.task import Share
from chsink.mirror.trail import all_events
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import OffsetRange
from tests.integration.mirror.bench import Bench

pytestmark = pytest.mark.slow
MakeBench = Callable[..., Bench]


def hanging(bench: Bench) -> Producer:
    """The producer of a transaction that is open on each partition of the control topic."""
    hangs = Producer({**bench.names.options, "transactional.id": f"hangs-{uuid.uuid4()}"})
    hangs.init_transactions(20)
    hangs.begin_transaction()
    event = encode(Event(uuid.uuid4(), datetime.now(UTC), bench.group, StartCommit(uuid.uuid4())))
    for partition in range(2):
        hangs.produce(bench.control_topic, event, str(bench.tp()), partition)
    assert hangs.flush(20) == 0
    return hangs


@pytest.mark.soak
def test_a_transaction_that_hangs_is_named_and_holds_nothing_up_once_it_is_aborted(make_bench: MakeBench) -> None:
    """⚑ T-8: hand-overs go on, tables wait, and after a bound the error says whose transaction it is."""
    bench = make_bench()
    coordinator = bench.coordinator()
    hangs = hanging(bench)
    start, end = bench.produce([1, 2, 3])
    bench.hand_over(start, end)
    bench.round(coordinator)
    assert bench.group_at() == end and bench.snapshots() == 0

    bench.clock.ms += HANGS_AFTER_MS
    with pytest.raises(Hanging) as raised:
        coordinator.tick(0.1)
    error = as_error(raised.value, bench.names)
    assert error is not None and (error.id, error.exit_code) == ("CHS-719", 5)
    assert f"{bench.group}/{bench.topic}/0 " in error.message
    assert f"--topic {bench.control_topic} --partition 0 --start-offset {raised.value.offset};" in error.hint

    hangs.abort_transaction(20)
    later = bench.coordinator()
    bench.rounds(later, 2)
    assert bench.landed() == bench.sent()


@pytest.mark.soak
def test_a_transaction_that_hangs_is_named_at_a_start_that_commits_first(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ The topic was created again: each start ended with CHS-716, which names nobody; so did commands."""
    monkeypatch.setattr("chsink.mirror.trail.STALLED_S", 2.0)
    bench = make_bench()
    bench.coordinator().close()
    hangs = hanging(bench)
    bench.hand_over(*bench.produce([1, 2, 3]))
    landed = bench.sent()
    bench.kafka.delete_topic(bench.topic)
    bench.kafka.create_topic(bench.topic, 1)
    for step in (bench.coordinator, lambda: list(all_events(bench.names))):
        with pytest.raises(Hanging) as raised:
            step()
        assert f"{bench.group}/{bench.topic}/0 " in raised.value.producer

    hangs.abort_transaction(20)
    with pytest.raises(Halted) as halted:
        bench.coordinator()
    assert halted.value.why is CommitHalt.TOPIC_RECREATED and bench.landed() == landed


def test_an_empty_range_moves_no_offset_while_the_broker_does_not_answer(make_bench: MakeBench) -> None:
    """⚑ T-7: there is nothing to report, and the broker has to answer all the same."""
    bench = make_bench()
    bench.coordinator()
    start, end = bench.produce([1, 2])
    worker = bench.worker()

    def frozen(_: OffsetRange) -> Iterable[pa.RecordBatch]:
        os.kill(bench.kafka.pid, signal.SIGSTOP)
        return ()

    try:
        with pytest.raises(ControlUnanswered):
            replace(worker, names=replace(worker.names, timeout_s=2)).run(OffsetRange(start, end), frozen)
    finally:
        os.kill(bench.kafka.pid, signal.SIGCONT)
    assert worker.run(OffsetRange(start, end), lambda _: ()).decision.because == "NEXT"
    assert bench.group_at() == end


def test_ranges_without_records_are_handed_over_together(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for Kafka: one after the other, a job of many idle partitions would fall behind."""
    bench = make_bench(partitions=3)
    bench.coordinator()
    together = threading.Barrier(3)

    def reach(name: str) -> None:
        if name == "worker.before_transaction":
            together.wait(30)

    monkeypatch.setattr(failpoints, "reach", reach)
    lander = MirrorLander(bench.started)
    shares = [Share(bench.tp(n), OffsetRange(0, 5)) for n in range(3)]
    lander._confirmed(shares, [Ack(n, None, None) for n in range(3)])
    lander.close()
    assert [bench.group_at(n) for n in range(3)] == [5, 5, 5]
