"""What ``make release`` writes; the release itself takes minutes, and runs by hand."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from chsink.jvm.jars import SPARK_KAFKA, pins
from tests.release import TOOLS, with_jars
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


def test_the_changelog_has_the_version() -> None:
    text = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    [newest, *_] = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert newest == PROJECT["version"]
