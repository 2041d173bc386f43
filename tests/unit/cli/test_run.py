"""What ``chsink run`` refuses before anything is started."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.config.sections import Observe
from chsink.embedded.base.ports import free_port
from chsink.errors import PreflightError
from chsink.observe.metrics import Metrics
from chsink.observe.probes import Probes
from chsink.observe.serve import served
from tests.unit.config.conftest import LEAST

RUN = """
import sys
from typer.testing import CliRunner
from chsink.cli.main import app
result = CliRunner().invoke(app, ["run", "-c", sys.argv[1]])
print(result.exit_code, "pyspark" in sys.modules, result.output)
"""


def test_a_missing_checkpoint_is_said_before_spark_is_loaded(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text(LEAST, encoding="utf-8")

    done = subprocess.run([sys.executable, "-c", RUN, str(job)], check=True, capture_output=True, text=True)

    assert done.stdout.startswith("2 False error CHS-110 sink.checkpoint: it is missing")


def test_kafka_is_asked_before_spark_is_loaded(tmp_path: Path) -> None:
    """It was found to be away only once Spark was up."""
    job = tmp_path / "job.toml"
    nobody = f"127.0.0.1:{free_port()}"
    job.write_text(
        LEAST.replace("localhost:9092", nobody).replace('"flights"\n[kafka]', '"flights"\ncheckpoint = "c"\n[kafka]'),
        encoding="utf-8",
    )

    done = subprocess.run([sys.executable, "-c", RUN, str(job)], check=True, capture_output=True, text=True)

    assert done.stdout.startswith("5 False"), done.stdout
    assert f"CHS-702 Kafka at {nobody} does not answer" in done.stdout
    assert "starting Spark" not in done.stdout + done.stderr


def test_a_metrics_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PreflightError, match="CHS-235") as raised, serving(port):
            pass

    assert f"127.0.0.1 port {port}: Address already in use" in raised.value.message
    assert "observe.metrics_port" in raised.value.hint


def test_metrics_are_served_on_the_given_address_only() -> None:
    """Every address of 127.0.0.0/8 is this machine: where only one is listened on, another one refuses."""
    with serving(0) as port:
        socket.create_connection(("127.0.0.1", port), 5).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), 5)
    assert Observe().metrics_host == "127.0.0.1"


def test_metrics_end_with_the_job() -> None:
    """A program that runs one job after the other finds its port free again."""
    with serving(0) as port:
        socket.create_connection(("127.0.0.1", port), 5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def serving(port: int) -> AbstractContextManager[int | None]:
    return served(Metrics("flights").registry, Probes(), "127.0.0.1", port, structlog.get_logger())


def test_what_json_means_for_a_job() -> None:
    said = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "400"}).stdout

    assert "Print an error as one JSON object." in said
