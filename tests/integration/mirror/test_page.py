"""``chsink mirror run`` serves the status page, probes and metrics, where there is no ClickHouse at all."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.request
from typing import Any
from urllib.error import URLError

import pytest
from pyspark.sql import SparkSession

from chsink.config import load
from chsink.embedded.base.ports import free_port
from chsink.spark import mirror
from tests.integration.mirror.conftest import MakeBench
from tests.support.watching import Watching

pytestmark = pytest.mark.slow
LIMIT_S = 60


def get(port: int, path: str) -> str:
    """The answer, "" while there is none, or for a status that is no success."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except URLError:
        return ""


def complete(seen: dict[str, Any]) -> bool:
    """Whether this event shows the table with all of its records."""
    return any(table["lag"] == 0 and table["snapshot"] for table in seen["mirror"]["tables"])


@pytest.mark.soak
def test_a_mirror_alone_is_watched_until_its_end(make_bench: MakeBench, spark: SparkSession) -> None:
    bench, page, port = make_bench(), free_port(), free_port()
    bench.produce([1, 2, 3])
    watching, answers = Watching(page), {}

    def operator() -> None:
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and not any(map(complete, watching.seen)):
            time.sleep(0.1)
        answers.update({path: get(port, path) for path in ("/healthz", "/readyz", "/metrics")})
        os.kill(os.getpid(), signal.SIGTERM)

    observe = {"observe.ui": f"127.0.0.1:{page}", "observe.ui_interval_s": 1.0, "observe.metrics_port": port}
    config = load(bench.job_file(), overrides={"trigger.mode": "processing_time", "mirror.interval_s": 1, **observe})
    person = threading.Thread(target=operator)
    person.start()
    mirror.run(config, spark)
    person.join()

    last = watching.last()
    assert (last["beside"], last["ended"], last["sums"], last["problems"]) == (True, True, None, [])
    [table] = last["mirror"]["tables"]
    assert (table["table"], table["lag"], table["halted"]) == ("shop.orders", 0, False)
    assert (answers["/healthz"], answers["/readyz"]) == ("alive\n", "ready\n")
    assert "chsink_mirror_running{" in answers["/metrics"]
