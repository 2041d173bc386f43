"""The wheel in a clean environment: everything that the README promises after ``pip install``.

The environment holds the wheel, installed by pip, and of all other packages exactly those that its metadata requires,
directly or through others, linked from the environment of the tests.  So nothing is downloaded, and a package that the
wheel forgets to require is missing there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import clickhouse_connect
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from chsink.embedded.clickhouse import EmbeddedClickHouse
from chsink.embedded.kafka import EmbeddedKafka
from tests.conftest import CHECKOUT, MakeTopic
from tests.support.kafka import produce
from tests.support.told import pip_of, setting_of

pytestmark = pytest.mark.slow

JOB = """
[sink]
name = "wheel"
checkpoint = "{folder}/checkpoint"
[kafka]
bootstrap = "{kafka}"
[[route]]
topic = "{topic}"
table = "landed"
[clickhouse]
endpoints = ["{clickhouse}"]
database = "wheel"
[spark]
master = "local[1]"
[trigger]
mode = "available_now"
"""
MIRRORED = """
[mirror]
enabled = true
catalog = {{ name = "lake", type = "sql", uri = "sqlite:///{folder}/catalog.db", warehouse = "file://{folder}" }}
[[mirror.route]]
topic = "t"
table = "shop.orders"
"""
PROGRAM = """
from pyspark.sql import DataFrame, SparkSession
from chsink import Config, Sink, load, spark_jars

config: Config = load("job.toml")
spark = SparkSession.builder.master("local[1]").config("spark.jars", spark_jars()).getOrCreate()
sink = Sink(config)
stream: DataFrame = sink.stream(spark)
sink.start(stream.where("offset % 2 = 0")).awaitTermination()
sink.close()
spark.stop()
"""
MIRROR = """
import importlib, pkgutil
import chsink.mirror
import pyarrow as pa
from pyiceberg.transforms import parse_transform
from pyiceberg.types import StringType, TimestamptzType

for module in pkgutil.walk_packages(chsink.mirror.__path__, "chsink.mirror."):
    importlib.import_module(module.name)
times, texts = pa.array([0], pa.timestamp("us", "UTC")), pa.array(["x"])
for name in ("year", "month", "day", "hour"):
    parse_transform(name).pyarrow_transform(TimestamptzType())(times)
for name in ("identity", "bucket[4]", "truncate[2]", "void"):
    parse_transform(name).pyarrow_transform(StringType())(texts)
"""
WRONG = 'from chsink import load\n\nname: int = load("job.toml").sink.name\n'


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel."""

    folder: Path
    wheel: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        return Path(next((self.folder / "lib").glob("python3.*/site-packages")))

    def run(self, *argv: str | Path, cwd: Path, code: int = 0) -> str:
        """A command of the environment, seeing nothing of the checkout; its output."""
        environment = clean_environment()
        environment["PATH"] = f"{self.folder / 'bin'}:{environment['PATH']}"
        done = subprocess.run(
            [*map(str, argv)],
            cwd=cwd,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def clean_environment() -> dict[str, str]:
    """The variables of this process without those by which Python would find the checkout."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "VIRTUAL_ENV"))}


def pip(*words: str | Path) -> None:
    """Run pip of the tests' environment."""
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, words)]
    subprocess.run(argv, env=clean_environment(), check=True, timeout=120)


def required(roots: Iterable[Requirement], extra: str = "") -> dict[str, metadata.Distribution]:
    """The distributions that these need, with all that those need."""
    found: dict[str, metadata.Distribution] = {}
    todo = [r for r in roots if r.marker is None or r.marker.evaluate({"extra": extra})]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        distribution = found[name] = metadata.distribution(name)
        for needed in map(Requirement, distribution.requires or ()):
            extras = ("", *requirement.extras)
            wanted = needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in extras)
            if wanted and canonicalize_name(needed.name) not in found:
                todo.append(needed)
    return found


def link(distribution: metadata.Distribution, packages: Path) -> None:
    """Make the files of a distribution appear in another environment; its byte code too, as far as there is any."""
    for file in distribution.files or ():
        source, target = Path(str(distribution.locate_file(file))), packages / file
        if ".." in file.parts or ("__pycache__" in file.parts and not source.exists()):
            continue
        if target.exists():  # two distributions may hold one file: chdb and chdb-core
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)


def wheel_in(root: Path) -> Path:
    """The wheel of this checkout, built outside of it."""
    source = root / "source"
    shutil.copytree(CHECKOUT / "chsink", source / "chsink", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", root, source)
    (wheel,) = root.glob("chsink-*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, installed alone."""
    root = tmp_path_factory.mktemp("wheel")
    wheel = wheel_in(root)
    venv.create(root / "venv", symlinks=True)
    here = Installed(root / "venv", wheel)
    pip("--python", here.python, "install", "--no-index", "--no-deps", wheel)
    (own,) = metadata.distributions(name="chsink", path=[str(here.packages)])
    for distribution in required(map(Requirement, own.requires or ())).values():
        link(distribution, here.packages)
    return here


def test_what_the_wheel_holds(installed: Installed) -> None:
    """All files, the data files too, and no other name: ``statemachine`` belongs to another distribution."""
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    assert {name.split("/")[0].split("-")[0] for name in names} == {"chsink"}
    files = [p for room in ("chsink", "statemachine") for p in (CHECKOUT / room).rglob("*") if p.is_file()]
    paths = {str(p.relative_to(CHECKOUT)) for p in files if "__pycache__" not in p.parts}
    assert {p if p.startswith("chsink/") else f"chsink/{p}" for p in paths} - names == set()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_environment_is_complete(installed: Installed, tmp_path: Path) -> None:
    """Pip finds nothing missing, and the module that python-statemachine installs stays its own."""
    pip("--python", installed.python, "check")
    other = tmp_path / "other" / "statemachine"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("class StateMachine: ...\n")
    code = (
        f"import sys; sys.path.append({str(other.parent)!r})\n"
        "from statemachine import StateMachine\n"
        "from chsink.statemachine import tokens\n"
        "import chsink; print(chsink.__file__, tokens.__name__)"
    )
    said = installed.run(installed.python, "-c", code, cwd=tmp_path)
    assert "chsink.statemachine.tokens" in said
    assert str(installed.packages) in said


def test_commands(installed: Installed, tmp_path: Path) -> None:
    """The first ones that somebody types; the local services name the extra that they need."""
    (tmp_path / "job.toml").write_text(JOB.format(folder=tmp_path, kafka="k:1", topic="t", clickhouse="http://c:1"))
    assert metadata.version("chsink") in installed.run("chsink", "--version", cwd=tmp_path)
    installed.run("chsink", "validate", cwd=tmp_path)
    jars = json.loads(installed.run("chsink", "jars", "--no-archive", "--json", cwd=tmp_path))["jars"]
    assert installed.run("chsink", "jars", "--no-archive", cwd=tmp_path).strip() == ",".join(
        jar["path"] for jar in jars
    )
    assert all(Path(jar["path"]).is_file() for jar in jars)
    said = installed.run("chsink", "dev", "up", cwd=tmp_path, code=2)
    assert "CHS-911" in said
    assert "-m pip install chdb" in said


@pytest.mark.soak
@pytest.mark.exit_of("NO_MIRROR_PACKAGES")
def test_the_extra_of_the_mirror_is_enough_for_partitioned_tables(installed: Installed, tmp_path: Path) -> None:
    """⚑ pyiceberg computes partition values in a package of its own, which it asks for only then."""
    job = JOB.format(folder=tmp_path, kafka="127.0.0.1:1", topic="t", clickhouse="http://127.0.0.1:1")
    (tmp_path / "job.toml").write_text(job + MIRRORED.format(folder=tmp_path))
    status = ["chsink", "mirror", "status", "--set", "kafka.timeout_s=1"]
    said = installed.run(*status, cwd=tmp_path, code=2)
    assert "CHS-236" in said
    off = [f"--set={name}={value}" for name, value in setting_of(said, "mirror.enabled").items()]
    assert "CHS-236" not in installed.run("chsink", "doctor", "--set=kafka.timeout_s=1", *off, cwd=tmp_path, code=1)

    python, [wanted] = pip_of(said)
    [extra] = Requirement(wanted).extras
    (own,) = metadata.distributions(name="chsink", path=[str(installed.packages)])
    for distribution in required(map(Requirement, own.requires or ()), extra).values():
        link(distribution, installed.packages)
    pip("--python", python, "install", "--no-index", wanted)  # nothing is left to install
    installed.run(python, "-c", MIRROR, cwd=tmp_path)
    assert "CHS-265" in installed.run(*status, cwd=tmp_path, code=2), "it goes on, and misses the catalog"


@pytest.mark.soak
def test_records_land(
    installed: Installed, tmp_path: Path, kafka: EmbeddedKafka, clickhouse: list[EmbeddedClickHouse], topic: MakeTopic
) -> None:
    """``chsink run``, then a program of one's own that takes every second record."""
    server, name = clickhouse[0], topic()
    client = clickhouse_connect.get_client(host=server.host, port=server.port)
    client.command("CREATE DATABASE IF NOT EXISTS wheel")
    client.command(
        "CREATE TABLE wheel.landed (id UInt64, _kafka_topic String, _kafka_partition UInt32, _kafka_offset UInt64) "
        "ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 1000"
    )
    (tmp_path / "job.toml").write_text(
        JOB.format(folder=tmp_path, kafka=kafka.bootstrap, topic=name, clickhouse=server.url)
    )
    produce(kafka.bootstrap, name, 0, [b'{"id": 1}', b'{"id": 2}'])
    installed.run("chsink", "run", cwd=tmp_path)
    assert client.query("SELECT id FROM wheel.landed ORDER BY id").result_rows == [(1,), (2,)]

    produce(kafka.bootstrap, name, 0, [b'{"id": 3}', b'{"id": 4}'])
    (tmp_path / "program.py").write_text(PROGRAM)
    installed.run(installed.python, "program.py", cwd=tmp_path)
    assert client.query("SELECT id FROM wheel.landed ORDER BY id").result_rows == [(1,), (2,), (3,)]


@pytest.mark.soak
def test_a_users_program_is_type_checked(installed: Installed, tmp_path: Path) -> None:
    """py.typed: mypy sees chsink's types from outside, and refuses what they forbid."""
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--python-executable",
        str(installed.python),
    ]
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(WRONG)
    argv = [*mypy, "program.py", "wrong.py"]
    done = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300)
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("wrong.py:3: error: Incompatible types in assignment"), done.stdout
    assert last == "Found 1 error in 1 file (checked 2 source files)", done.stdout
