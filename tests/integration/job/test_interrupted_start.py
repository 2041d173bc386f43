"""A start that is interrupted ends at once, with the signal's exit code and without a traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chsink.embedded.base.ports import free_port
from chsink.embedded.kafka import EmbeddedKafka
from tests.conftest import MakeTopic

pytestmark = pytest.mark.slow

JOB = """
[sink]
name = "s"
checkpoint = "{folder}/checkpoint"
[kafka]
bootstrap = "{kafka}"
[[route]]
topic = "{topic}"
table = "t"
[clickhouse]
endpoints = ["http://127.0.0.1:{port}"]
[observe]
log_format = "json"
[spark]
master = "local[1]"
conf = {{ "spark.ui.enabled" = "false" }}
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("at", "number"), [("Setting default log level", signal.SIGTERM), ("incubator modules", signal.SIGINT)]
)
def test_no_traceback(kafka: EmbeddedKafka, topic: MakeTopic, tmp_path: Path, at: str, number: signal.Signals) -> None:
    """While Java starts, and while the started session waits for a ClickHouse that does not answer."""
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(folder=tmp_path, port=free_port(), kafka=kafka.bootstrap, topic=topic(1)))
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
    assert (first["event"], first["sink"], first["job"]) == ("starting", "s", str(job))
    assert first.keys() >= {"chsink", "pyspark", "python"}


@pytest.mark.soak
def test_while_kafka_is_asked(tmp_path: Path) -> None:
    """Before Java starts, by a Kafka that accepts connections and says nothing."""
    job = tmp_path / "job.toml"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        job.write_text(JOB.format(folder=tmp_path, port=free_port(), kafka=address, topic="t"))
        command = [sys.executable, "-m", "chsink.cli.main", "run", "-c", str(job)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path) as process:
            assert process.stderr is not None
            accepted = [silent.accept() for _ in range(2)]  # whether it is there; then the question
            process.send_signal(signal.SIGTERM)
            said = process.stderr.read()
    for connection, _ in accepted:
        connection.close()
    assert process.returncode == 128 + signal.SIGTERM, said.decode()
    assert b"Traceback" not in said, said.decode()
    assert b"starting Spark" not in said
