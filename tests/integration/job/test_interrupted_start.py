"""A start that is interrupted ends at once, with the signal's exit code and without a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chsink.embedded.ports import free_port

pytestmark = pytest.mark.slow

JOB = """
[sink]
name = "s"
checkpoint = "{folder}/checkpoint"
[kafka]
bootstrap = "127.0.0.1:{port}"
[[route]]
topic = "t"
table = "t"
[clickhouse]
endpoints = ["http://127.0.0.1:{port}"]
[observe]
log_format = "json"
[spark]
master = "local[1]"
conf = {{ "spark.ui.enabled" = "false" }}
"""


@pytest.mark.parametrize(
    ("at", "number"), [("incubator modules", signal.SIGINT), ("Setting default log level", signal.SIGTERM)]
)
def test_no_traceback(tmp_path: Path, at: str, number: signal.Signals) -> None:
    """While Java starts, and while the started session waits for services that do not answer."""
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(folder=tmp_path, port=free_port()))
    command = [sys.executable, "-m", "chsink.cli.main", "run", "-c", str(job)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stderr is not None
        said = b""
        while at.encode() not in said:
            more = os.read(process.stderr.fileno(), 4096)
            assert more, said.decode()
            said += more
        process.send_signal(number)
        said += process.stderr.read()

    assert process.returncode in {128 + number, -number}, said.decode()
    assert b"Traceback" not in said, said.decode()
    first = next(json.loads(line) for line in said.splitlines() if line.startswith(b"{"))
    assert (first["event"], first["sink"], first["job"]) == ("starting Spark", "s", str(job))
    assert first.keys() >= {"chsink", "pyspark", "python"}
