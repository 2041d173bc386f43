"""Traces: one for a batch, sent to a real receiver; and none where nobody asked."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from time import monotonic

import pytest
from structlog.testing import capture_logs

from chsink.batch.model import Ack, ChunkAck, PlannedBatch
from chsink.clock import SystemClock
from chsink.errors import halts
from chsink.observe.logs import logger
from chsink.observe.metrics import Metrics
from chsink.observe.observer import JobObserver, SparksCommit
from chsink.observe.traces import TracedObserver, exporters, job_observer
from chsink.statemachine.parts import Sending
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord
from chsink.statemachine.table import Decision
from tests.support.otlp import Received, Receiver, receiver

TP = TopicPartition("t", 3)
KEY = StateKey("s", "t", 3, "db.a")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def batch(number: int) -> PlannedBatch:
    return PlannedBatch(number, {TP: OffsetRange(10, 20)})


def observed() -> JobObserver:
    return job_observer(logger("s"), Metrics("s"), SystemClock(), "never")


def plan(observer: JobObserver, number: int) -> None:
    with observer.phase("plan"):
        observer.decided(batch(number), {KEY: Decision("NEW/x")})


def land(observer: JobObserver, number: int) -> None:
    plan(observer, number)
    for phase in ("before", "insert", "after"):
        with observer.phase(phase):
            pass
    observer.landed({"db.a": [Ack(0, "t", 3, (ChunkAck(10, 20, 10, 8),))]})
    observer.state({KEY: StateRecord(Phase.AFTER, 6, "a", 10, 20, sent=Sending(5))})
    observer.finished(batch(number), {TP: 20}, [("t", "db.a")])


def shape(trace: list[Received]) -> list[str]:
    """The names of a trace's spans; all but the first are below the first."""
    root, *rest = trace
    assert not root.parent and {span.parent for span in rest} <= {root.id}
    return [span.name for span in trace]


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as made:
        monkeypatch.setenv(ENDPOINT, made.url)
        yield made


def test_each_batch_is_a_trace(received: Receiver) -> None:
    observer = observed()
    observer.follows({7: SparksCommit(4_000_000_000_000, 250)}.get)
    land(observer, 7)
    observer.follows(lambda _: None)
    land(observer, 8)
    observer.close()

    first, second = received.traces()
    assert shape(first) == ["batch", "plan", "before", "insert", "after", "commit"]
    assert shape(second) == ["batch", "plan", "before", "insert", "after"]
    assert first[0].attributes == {
        "chsink.sink": "s",
        "chsink.batch_id": 7,
        "chsink.topic_partitions": 1,
        "chsink.offsets": 10,
        "chsink.rows": 8,
        "chsink.epoch": 6,
    }
    assert (first[-1].start, first[-1].end) == (3_999_999_999_750_000_000, 4_000_000_000_000_000_000)
    assert {span.service for span in received.spans()} == {"chsink"}
    assert {*received.paths} == {"/v1/traces"}


def test_what_a_start_settles_is_a_trace_of_its_own(received: Receiver) -> None:
    observer = observed()
    with observer.phase("settle"):
        pass
    land(observer, 7)
    observer.close()

    assert [shape(trace)[0] for trace in received.traces()] == ["settle", "batch"]


def test_a_failure_is_named_and_nothing_of_the_record_is_told(received: Receiver) -> None:
    observer, error = observed(), halts.NOT_ROUTED(tp=TP, table="secret")
    with pytest.raises(type(error)), observer.phase("plan"):
        raise error
    observer.failed(error)
    land(observer, 7)
    observer.close()

    failed, well = received.traces()
    assert shape(failed) == ["batch", "plan"]
    assert all(span.failed and span.attributes["error.type"] == error.id for span in failed)
    assert not any(span.failed for span in well)
    assert not any(b"secret" in body for body in received.raw)


def test_a_batch_in_two_rounds_and_again_after_an_altered_table_is_one_trace(received: Receiver) -> None:
    observer = observed()
    plan(observer, 7)
    with observer.phase("insert"):
        pass
    land(observer, 7)
    observer.close()

    [trace] = received.traces()
    assert shape(trace) == ["batch", "plan", "insert", "plan", "before", "insert", "after"]


def test_a_commit_that_spark_cannot_tell_of_fails_nothing(received: Receiver) -> None:
    def gone(_: int) -> SparksCommit | None:
        raise ConnectionError

    observer = observed()
    observer.follows(gone)
    land(observer, 7)
    observer.close()

    assert "commit" not in [span.name for span in received.spans()]


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, []),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, []),
        ({ENDPOINT: "http://c:4318"}, ["otlp_proto_http"]),
        ({ENDPOINT: "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, []),
        ({ENDPOINT: "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, []),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/t"}, ["otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": "otlp, console"}, ["otlp_proto_http", "console"]),
        ({ENDPOINT: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["otlp_proto_grpc"]),
        ({ENDPOINT: "http://c:4317", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, ["otlp (http/json)"]),
    ],
)
def test_the_environment_decides(environ: dict[str, str], wanted: list[str]) -> None:
    assert exporters(environ) == wanted


def test_without_an_exporter_the_log_says_so_and_the_job_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier pigeon")
    with capture_logs() as lines:
        observer = observed()

    assert type(observer) is JobObserver
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("traces are off", "no exporter otlp (carrier pigeon) is installed")
    ]


def test_a_receiver_that_does_not_answer_holds_the_end_up_for_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chsink.observe.traces.LAST_SEND_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, capture_logs() as lines:
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        observer = observed()
        assert isinstance(observer, TracedObserver)
        land(observer, 7)
        began = monotonic()
        observer.close()
        assert monotonic() - began < 10
        [last] = [thread for thread in threading.enumerate() if thread.name == "last traces"]
        last.join()

    assert "the last traces were not sent" in [line["event"] for line in lines]


def test_without_a_word_in_the_environment_nothing_is_imported() -> None:
    program = """if True:
        import sys
        from chsink.clock import SystemClock
        from chsink.observe.logs import logger
        from chsink.observe.metrics import Metrics
        from chsink.observe.traces import job_observer
        job_observer(logger("s"), Metrics("s"), SystemClock(), "never")
        print([name for name in sys.modules if name.startswith("opentelemetry")])
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env={})
    assert done.stdout == "[]\n"
