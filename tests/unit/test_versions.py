"""Packages that are missing, or of versions that chsink does not support, and a Python without assertions."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib import metadata

import pytest

from chsink.findings import Severity
from chsink.versions import package_findings


def test_packages_are_complete_here() -> None:
    finding = next(package_findings())
    assert (finding.id, finding.severity) == ("CHS-231", Severity.OK)
    assert "pyspark 4." in finding.sentence


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pandas" else real(name))
    finding = next(package_findings())
    assert (finding.id, finding.error().exit_code) == ("CHS-236", 2)
    assert "install pandas" in finding.fix


def test_packages_of_the_extras_that_a_job_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """⚑ They were not listed; and where several are missing, one command installs all of them."""
    listed = next(package_findings(["mirror", "json"])).sentence
    assert "fastavro 1." in listed and "pyiceberg 0." in listed and "starlette" not in listed
    assert "fastavro" not in next(package_findings()).sentence
    real = metadata.version

    def version(name: str) -> str:
        if name in {"fastavro", "pyiceberg"}:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    finding = next(package_findings(["mirror"]))
    assert (finding.id, finding.severity) == ("CHS-236", Severity.ERROR)
    assert finding.sentence.endswith(": fastavro, pyiceberg")
    assert "pip install 'fastavro<2,>=1.10' 'pyiceberg[pyiceberg-core,sql-sqlite]<" in finding.fix


def test_a_version_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1.0" if name == "numpy" else real(name))
    finding = next(package_findings())
    assert (finding.id, finding.severity) == ("CHS-231", Severity.WARNING)
    assert "numpy 1.0 (supported: " in finding.sentence


@pytest.mark.parametrize("how", [["-O"], []], ids=["option", "environment"])
def test_a_start_without_assertions_is_refused(how: list[str]) -> None:
    environment = os.environ | ({} if how else {"PYTHONOPTIMIZE": "1"})

    done = subprocess.run(
        [sys.executable, *how, "-c", "import chsink"], env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.endswith("start Python without -O, and unset PYTHONOPTIMIZE\n")
