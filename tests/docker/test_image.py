"""The image, built, with the job of ``docker/compose.yaml`` in it."""

from __future__ import annotations

import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from chsink.embedded.base.ports import free_port
from tests.conftest import CHECKOUT
from tests.docker.conftest import missing

pytestmark = pytest.mark.docker

BUILD_S, START_S, STOP_S = 1_800, 300, 300


class Compose:
    """``docker compose`` with the profile ``job``, on free ports, in a project of its own."""

    def __init__(self, folder: Path) -> None:
        self.metrics = free_port()
        ports = {"KAFKA_PORT": free_port(), "CLICKHOUSE_1_PORT": free_port(), "CLICKHOUSE_2_PORT": free_port()}
        env = folder / "ports.env"
        env.write_text("".join(f"{k}={v}\n" for k, v in {**ports, "METRICS_PORT": self.metrics}.items()))
        project = f"chsink-tests-{uuid.uuid4().hex[:8]}"
        self._argv = ["docker", "compose", "-p", project, "-f", str(CHECKOUT / "docker" / "compose.yaml")]
        self._argv += ["--env-file", str(env), "--profile", "job"]

    def __call__(self, *words: str, limit_s: float = START_S) -> str:
        done = subprocess.run([*self._argv, *words], capture_output=True, text=True, check=False, timeout=limit_s)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    if reason := missing():
        pytest.skip(reason)
    made = Compose(tmp_path_factory.mktemp("compose"))
    try:
        made("build", "job", limit_s=BUILD_S)
        yield made
    finally:
        made("down", "--volumes")


@pytest.mark.timeout(BUILD_S + 2 * START_S)
def test_the_job_lands_its_records_and_ends_well(compose: Compose) -> None:
    compose("up", "--detach", "job")
    until = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{compose.metrics}/readyz", timeout=5) as answer:
                assert answer.read() == b"ready\n"
                break
        except OSError:
            assert time.monotonic() < until, compose("logs", "job")
            time.sleep(1)
    count = ("exec", "-T", "clickhouse-1", "clickhouse-client", "--query", "SELECT count() FROM flights")
    while compose(*count).strip() != "6":
        assert time.monotonic() < until, compose("logs", "job")
        time.sleep(1)
    compose("stop", "job", limit_s=STOP_S)
    assert '"event": "ended"' in compose("logs", "job")


def test_it_is_small_enough_and_nobodys_root(compose: Compose) -> None:
    said = compose("run", "--rm", "--no-deps", "--entrypoint", "id", "job", "-u")
    assert said.strip() == "10001"
    said = compose("run", "--rm", "--no-deps", "job", "doctor", "--system", "--json")
    assert '"error": 0' in said
