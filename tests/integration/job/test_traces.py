"""Traces of a real job, sent to a receiver over a socket."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from chsink.errors import HaltError
from chsink.status.reader import read_status
from tests.integration.job.conftest import MakeJob
from tests.support.otlp import receiver

PHASES = ["batch", "plan", "before", "insert", "after", "commit"]


def test_a_job_sends_one_trace_for_each_batch(
    make_job: MakeJob, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(partitions=2)
    job.settings = {"kafka.max_offsets_per_trigger": 20}
    job.send(0, 20)
    job.send(1, 20)
    with receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hidden")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=flights,deployment.environment=test")
        job.drain(spark)
        traces = received.traces()
        [epoch] = {p.epoch for p in read_status(job.config()).partitions}

        job.send_values(0, [b"no JSON, hidden"])
        with pytest.raises(HaltError) as halted:
            job.drain(spark)
        *_, last = received.traces()

    assert [[span.name for span in trace] for trace in traces] == [PHASES, PHASES]
    for number, (root, *children) in enumerate(traces):
        assert root.attributes == {
            "chsink.sink": job.name,
            "chsink.batch_id": number,
            "chsink.topic_partitions": 2,
            "chsink.offsets": 20,
            "chsink.rows": 20,
            "chsink.epoch": epoch,
        }
        assert not root.parent and {span.parent for span in children} == {root.id}
        *phases, commit = children
        assert all(root.start <= span.start <= span.end <= root.end for span in phases)
        assert root.end - 1_000_000 <= commit.end and commit.start <= commit.end <= root.end + 60_000_000_000
    assert {span.service for trace in traces for span in trace} == {"flights"}
    assert last[0].failed and last[0].attributes["error.type"] == halted.value.id
    assert not any(b"hidden" in body for body in received.raw)
