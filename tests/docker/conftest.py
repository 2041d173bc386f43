"""The real servers of ``docker/compose.yaml``, on free ports, for the length of the run; skipped without Docker."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from chsink.embedded.base.ports import HOST, free_port
from tests.conftest import CHECKOUT


@dataclass(frozen=True, slots=True)
class Servers:
    """Kafka's ``host:port`` and the URLs of two ClickHouse servers on one Keeper."""

    bootstrap: str
    clickhouse: tuple[str, str]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Started with the first test that asks, healthy, and removed with their data at the end."""
    if reason := missing():
        pytest.skip(reason)
    from testcontainers.compose import DockerCompose

    kafka, first, second = free_port(), free_port(), free_port()
    environment = tmp_path_factory.mktemp("compose") / "ports.env"
    environment.write_text(
        f"COMPOSE_PROJECT_NAME=chsink-tests-{uuid.uuid4().hex[:8]}\n"
        f"KAFKA_PORT={kafka}\nCLICKHOUSE_1_PORT={first}\nCLICKHOUSE_2_PORT={second}\n",
        encoding="utf-8",
    )
    with DockerCompose(CHECKOUT / "docker", compose_file_name="compose.yaml", env_file=str(environment)):
        yield Servers(f"{HOST}:{kafka}", (f"http://{HOST}:{first}", f"http://{HOST}:{second}"))


def missing() -> str:
    """Why these tests cannot run here; empty where they can."""
    if shutil.which("docker") is None:
        return "needs Docker: there is no docker command"
    if subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60).returncode:
        return "needs Docker: no daemon answers `docker info`"
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False, timeout=60).returncode:
        return "needs Docker: `docker compose` is not installed"
    return ""
