"""``mirror.enabled``: the one key that turns the mirror on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from chsink.cli.main import app
from chsink.config import load
from chsink.errors import PreflightError
from chsink.mirror.opening import open_mirror
from tests.unit.config.conftest import LEAST

LOADED = "import sys, chsink.spark.job; print(*{'.'.join(m.split('.')[:2]) for m in sys.modules})"


def test_it_is_off_by_default_and_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    """A job without a mirror needs none of its packages."""
    job = tmp_path / "job.toml"
    job.write_text(LEAST, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)

    assert not load(job, environ={}).mirror.enabled
    assert {"chsink.mirror", "pyiceberg.catalog", "pyiceberg.table"} & set(done.stdout.split()) == set()


@pytest.mark.parametrize("command", ["run", "status"])
def test_its_commands_ask_for_it(tmp_path: Path, command: str) -> None:
    job = tmp_path / "job.toml"
    job.write_text(LEAST, encoding="utf-8")
    done = CliRunner().invoke(app, ["mirror", command, "-c", str(job)])

    assert done.exit_code == 2
    assert "CHS-111 mirror.enabled" in done.stderr


def test_validate_says_where_the_mirror_writes(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    route = '[[mirror.route]]\ntopic = "flights"\ntable = "air.flights"'
    job.write_text(f'{LEAST}\n[mirror]\nenabled = true\ncatalog = {{ name = "lake" }}\n{route}', encoding="utf-8")
    done = CliRunner().invoke(app, ["validate", "-c", str(job)])

    assert done.stdout.endswith("state in keepermap, mirrored to 1 Iceberg table\n")


@pytest.mark.parametrize("properties", ['type = "sqll"', 'type = "sql"'])
def test_a_catalog_that_no_restart_opens_is_the_job_files_fault(tmp_path: Path, properties: str) -> None:
    """A supervisor would start it again for ever."""
    job = tmp_path / "job.toml"
    route = '[[mirror.route]]\ntopic = "flights"\ntable = "air.flights"'
    mirror = f'[mirror]\nenabled = true\ncatalog = {{ name = "lake", {properties} }}\n{route}'
    job.write_text(f"{LEAST}\n{mirror}", encoding="utf-8")

    with pytest.raises(PreflightError, match="CHS-264.*lake"):
        open_mirror(load(job, environ={}), cast("Any", SimpleNamespace(topics=list)))


@pytest.mark.parametrize("uri", ["sqlite:///{folder}/catalog.db", "sqlite+pysqlite:///{folder}/catalog.db?mode=rwc"])
def test_a_catalog_file_in_a_missing_folder_is_named_before_a_start(tmp_path: Path, uri: str) -> None:
    """No restart creates the folder: it is no outage."""
    job, folder = tmp_path / "job.toml", tmp_path / "missing"
    route = '[[mirror.route]]\ntopic = "flights"\ntable = "air.flights"'
    catalog = f'catalog = {{ name = "lake", type = "sql", uri = "{uri.format(folder=folder)}" }}'
    job.write_text(f"{LEAST}\n[mirror]\nenabled = true\n{catalog}\n{route}", encoding="utf-8")

    with pytest.raises(PreflightError, match=f"CHS-265.*{folder}"):
        open_mirror(load(job, environ={}), cast("Any", SimpleNamespace(topics=list)))
    shown = CliRunner().invoke(app, ["validate", "-c", str(job)])
    assert shown.exit_code == 2 and "CHS-265" in shown.output
    folder.mkdir()
    assert CliRunner().invoke(app, ["validate", "-c", str(job)]).exit_code == 0
