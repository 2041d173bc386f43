"""What Kubernetes sees of a job: ready once it owns the sink, and alive after a halt, which a person has to resolve.

As in ``test_exit_codes.py``, the command runs in this process, in the session of all tests.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.error import HTTPError, URLError

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from chsink.cli.main import app
from chsink.embedded.base.ports import free_port
from tests.integration.job.conftest import MakeJob
from tests.support.job import Job

LIMIT_S = 60


@dataclass
class Kubelet:
    """Asks a job's probes until each step was seen, does what belongs to it, then sends SIGTERM."""

    port: int
    steps: list[tuple[str, Callable[[], object]]]
    seen: list[str] = field(default_factory=list)
    metrics: str = ""

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
        except URLError:
            return 0, ""

    def _run(self) -> None:
        until = time.monotonic() + LIMIT_S
        for awaited, then in self.steps:
            while time.monotonic() < until:
                status, text = self.get("/readyz")
                if text.startswith(awaited):
                    self.seen.append(f"{status} {awaited}")
                    break
                time.sleep(0.1)
            then()
        self.seen.append(f"{self.get('/healthz')[0]} alive")
        self.metrics = self.get("/metrics")[1]
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """When Spark was told to stop; the session of all tests goes on."""
    calls: list[str] = []
    monkeypatch.setattr(SparkSession, "stop", lambda _: calls.append("stop"))
    return calls


def run(job: Job, port: int, *more: str) -> Result:
    chosen = {**job.settings, "trigger.mode": "processing_time", "trigger.interval": "200 milliseconds"}
    sets = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    line = ["run", "-c", str(job.file()), *sets, "--set", f"observe.metrics_port={port}", *more]
    return CliRunner().invoke(app, line)


def test_a_halted_job_stays_and_says_why(make_job: MakeJob, stopped: list[str], spark: SparkSession) -> None:
    del spark
    job, port = make_job(partitions=1), free_port()
    kubelet = Kubelet(
        port,
        [
            ("ready", lambda: job.send_values(0, [{"id": "none of your business", "text": "x"}])),
            ("halted: CHS-501", lambda: None),
        ],
    )

    result = run(job, port, "--set", "observe.stay_after_halt=true")

    kubelet.thread.join()
    assert kubelet.seen == ["200 ready", "503 halted: CHS-501", "200 alive"], result.output
    assert "chsink_halts_total" in kubelet.metrics and f'{{sink="{job.name}"}} 1.0' in kubelet.metrics
    assert stopped == ["stop", "stop"], "Spark ends before the wait"
    assert result.exit_code == 3
    assert "staying until a signal" in result.output


def test_a_signal_ends_a_job_that_would_stay(make_job: MakeJob, stopped: list[str], spark: SparkSession) -> None:
    del spark
    job, port = make_job(partitions=1), free_port()
    job.send(0, 3)
    kubelet = Kubelet(port, [("ready", lambda: None)])

    result = run(job, port, "--set", "observe.stay_after_halt=true")

    kubelet.thread.join()
    assert (result.exit_code, kubelet.seen) == (0, ["200 ready", "200 alive"]), result.output
    assert stopped == ["stop"]
