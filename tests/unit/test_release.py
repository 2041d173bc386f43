"""What ``make release`` writes; the release itself takes minutes, and runs by hand."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.utils import canonicalize_name

from chsink.jvm.jars import SPARK_KAFKA, pins
from tests.release import NEEDED, TOOLS, found, with_jars
from tests.unit.test_packaging import CHECKOUT, LOCK, PROJECT


def test_the_list_of_parts_has_the_jars_with_their_checksums() -> None:
    listed = {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [{"name": "pyspark"}],
        "dependencies": [{"ref": "root", "dependsOn": ["pyspark"]}],
    }
    made = with_jars(listed)
    jars = made["components"][1:]
    assert [jar["hashes"][0]["content"] for jar in jars] == [jar.sha256 for jar in pins()[SPARK_KAFKA]]
    assert made["dependencies"][0]["dependsOn"] == ["pyspark", *(jar["bom-ref"] for jar in jars)]
    assert jars[2]["purl"].startswith("pkg:maven/org.apache.spark/spark-sql-kafka-0-10_2.13@4.2.0")


def test_the_release_builds_with_the_setuptools_of_the_tests() -> None:
    assert f"setuptools=={LOCK[canonicalize_name('setuptools')]}" in TOOLS


def test_a_python_is_looked_for_on_path_and_in_pyenv(tmp_path: Path) -> None:
    """A name on PATH may be a shim that ends with an error."""
    shims, name = tmp_path / "shims", f"python{NEEDED}"
    pyenv = tmp_path / "pyenv/versions" / f"{NEEDED}.99/bin"
    for folder, text in ((shims, "exit 127"), (pyenv, f'exec "{sys.executable}" "$@"')):
        folder.mkdir(parents=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    environ = {"PATH": str(shims), "HOME": str(tmp_path)}
    assert found(NEEDED, environ) is None
    assert found(NEEDED, {**environ, "PYENV_ROOT": str(tmp_path / "pyenv")}) == str(pyenv / name)
    assert found(NEEDED, {**environ, "PATH": str(pyenv)}) == str(pyenv / name)


def test_the_changelog_has_the_version() -> None:
    text = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    [newest, *_] = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert newest == PROJECT["version"]
