"""The container image, where there is no Docker: whatever its files name exists, and they agree with the code.

``tests/docker/test_image.py`` builds and runs it.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from chsink.config import load
from chsink.config.sections import Observe
from chsink.jvm.jars import spark_jars_folder
from chsink.jvm.java import SUPPORTED
from chsink.stop import END_S
from tests.conftest import CHECKOUT

DOCKER = CHECKOUT / "docker"
TEXT = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions() -> Iterator[tuple[str, str]]:
    """(keyword, the rest of its logical line), in order."""
    joined = re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, map(str.strip, joined.splitlines())):
        keyword, _, rest = line.partition(" ")
        yield keyword, rest.strip()


def rest_of(keyword: str) -> list[str]:
    return [rest for found, rest in instructions() if found == keyword]


def environment() -> dict[str, str]:
    return dict(word.split("=", 1) for rest in rest_of("ENV") for word in shlex.split(rest))


def copied() -> list[str]:
    """What comes from the checkout."""
    return [source for rest in rest_of("COPY") if "--from" not in rest for source in rest.split()[:-1]]


def test_what_is_copied_exists_and_reaches_the_build() -> None:
    rules = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    assert "*" in rules
    assert set(copied()) == kept
    assert [name for name in copied() if not (CHECKOUT / name).exists()] == []


def test_all_that_the_build_reads_is_copied() -> None:
    """The links of the package, what ``pyproject.toml`` names, and the lock."""
    links = {
        link.resolve().relative_to(CHECKOUT).as_posix() for link in (CHECKOUT / "chsink").iterdir() if link.is_symlink()
    }
    named = {"requirements.lock", "pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], "chsink"}
    assert links | named <= set(copied())


def test_python_and_java_are_those_that_the_tests_run_with() -> None:
    """Debian's release decides both: 12, "bookworm", has these."""
    assert rest_of("ARG") == ["BASE=debian:bookworm-slim"]
    java = {int(version) for version in re.findall(r"openjdk-(\d+)-jre-headless", TEXT)}
    assert java and java <= set(SUPPORTED)
    [python] = set(re.findall(r"python(3\.\d+)/", TEXT))
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def test_every_extra_that_a_job_may_need_is_installed() -> None:
    [extras] = re.findall(r'"\.\[([^]]+)\]"', TEXT)
    assert set(extras.split(",")) == set(PROJECT["optional-dependencies"]) - {"dev"}


def test_the_version_is_that_of_the_package() -> None:
    assert f'image.version="{PROJECT["version"]}"' in TEXT
    assert f"chsink:{PROJECT['version']}" in TEXT
    assert f"image: chsink:{PROJECT['version']}" in (DOCKER / "compose.yaml").read_text(encoding="utf-8")


def test_links_of_the_image_lead_to_files_of_the_packages() -> None:
    targets = re.findall(r"ln -s python3\.\d+/site-packages/(\S+)", TEXT)
    assert targets == ["pyspark", "chsink/cli/submit.py"]
    assert (spark_jars_folder().parent / "bin" / "spark-submit").is_file()
    assert (CHECKOUT / targets[1]).is_file()


def test_the_image_sets_keys_that_exist() -> None:
    chosen = {name: value for name, value in environment().items() if name.startswith("CHSINK__")}
    config = load(DOCKER / "job.toml", environ=chosen)
    assert (config.observe.metrics_host, config.observe.log_format, config.observe.progress) == (
        "0.0.0.0",
        "json",
        "never",
    )
    assert f"{config.observe.metrics_port}" in rest_of("EXPOSE")
    assert {name.removeprefix("CHSINK__OBSERVE__").lower() for name in chosen} <= set(Observe.model_fields)


def test_it_runs_as_a_user_of_its_own_who_owns_the_checkpoint() -> None:
    [user] = rest_of("USER")
    number, _, group = user.partition(":")
    assert number == group and int(number) > 1_000
    assert f"--uid {number}" in TEXT
    [volume] = rest_of("VOLUME")
    assert json.loads(volume) == ["/var/lib/chsink"]
    assert load(DOCKER / "job.toml").required_checkpoint().startswith("/var/lib/chsink/")


def test_its_commands_are_lists_and_its_health_is_the_probes() -> None:
    """A list is not run by a shell, which would keep SIGTERM to itself."""
    assert json.loads(rest_of("ENTRYPOINT")[0])[:2] == ["tini", "--"]
    assert json.loads(rest_of("CMD")[0])[0] == "run"
    [health] = rest_of("HEALTHCHECK")
    program = json.loads(health[health.index("[") :])
    compile(program[2], "healthcheck", "exec")
    assert "/healthz" in program[2]


def test_the_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_apt_leaves_no_lists_behind() -> None:
    for rest in rest_of("RUN"):
        assert ("apt-get update" in rest) is ("rm -rf /var/lib/apt/lists/*" in rest)
        assert "apt-get" not in rest or "--no-install-recommends" in rest


# --- what Spark on Kubernetes starts -----------------------------------------------------------------------------------

SHOW = '#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@"\n'


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Programs of these names, which print their arguments."""
    for name in ("chsink", "java", "bin/spark-submit"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(SHOW, encoding="utf-8")
        file.chmod(0o755)
    return tmp_path


def started(programs: Path, *words: str, **variables: str) -> list[str]:
    env = {"PATH": f"{programs}:/bin:/usr/bin", "SPARK_HOME": str(programs), **variables}
    argv = [str(DOCKER / "entrypoint.sh"), *words]
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout.splitlines()


def test_a_command_of_chsink(programs: Path) -> None:
    assert started(programs, "run", "-c", "/etc/chsink/job.toml") == ["chsink", "run", "-c", "/etc/chsink/job.toml"]
    assert started(programs) == ["chsink"]


def test_a_driver(programs: Path) -> None:
    said = started(programs, "driver", "--class", "x y", SPARK_DRIVER_BIND_ADDRESS="10.0.0.1")
    conf = ["--conf", "spark.driver.bindAddress=10.0.0.1"]
    assert said == ["spark-submit", "--deploy-mode", "client", *conf, "--class", "x y"]


def test_an_executor(programs: Path) -> None:
    given = {
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Dspark.a=b c",
        "SPARK_JAVA_OPT_1": "-Dx",
    }
    said = started(programs, "executor", **given)
    assert said[:5] == ["java", "-Dspark.a=b c", "-Dx", "-Xms512m", "-Xmx512m"]
    options = dict(zip(said[8::2], said[9::2], strict=True))
    assert options["--driver-url"] == "spark://driver"
    assert options["--podName"] == "pod"
    assert len(options) == 7


# --- docker/compose.yaml -----------------------------------------------------------------------------------------------


def test_compose_mounts_files_that_exist() -> None:
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    mounted = re.findall(r"(\.\.?/[\w./-]+):/", text)
    assert len(mounted) == 5
    assert [path for path in mounted if not (DOCKER / path).is_file()] == []
    [minutes] = re.findall(r"stop_grace_period: (\d+)m", text)
    assert int(minutes) * 60 > END_S


def test_the_job_of_compose_names_its_services() -> None:
    config = load(DOCKER / "job.toml")
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    assert f"//{config.kafka.bootstrap}" in text
    hosts = {url.split("//")[1].split(":")[0] for endpoint in config.clickhouse.endpoints for url in endpoint.urls}
    assert all(f"hostname: {host}\n" in text for host in hosts)
