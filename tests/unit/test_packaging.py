"""What ``pyproject.toml`` declares, against what the source imports and what the lock installs."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.parsed import nodes

CHECKOUT = Path(__file__).parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = {canonicalize_name(r.name): r for r in map(Requirement, PROJECT["dependencies"])}
DEV = {canonicalize_name(r.name): r for r in map(Requirement, PROJECT["optional-dependencies"]["dev"])}
MIRROR = {canonicalize_name(r.name): r for r in map(Requirement, PROJECT["optional-dependencies"]["mirror"])}
PROTOBUF = {canonicalize_name(r.name): r for r in map(Requirement, PROJECT["optional-dependencies"]["protobuf"])}
UI = {canonicalize_name(r.name): r for r in map(Requirement, PROJECT["optional-dependencies"]["ui"])}
OTEL = {canonicalize_name(r.name): r for r in map(Requirement, PROJECT["optional-dependencies"]["otel"])}
DECLARED = PROTOBUF | REQUIRED | DEV | MIRROR | UI | OTEL
LOCK = {
    canonicalize_name(line.split("==")[0]): line.split("==")[1]
    for line in (CHECKOUT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
}

owners_of = cache(metadata.packages_distributions)
COMES_WITH = {"pydantic_core": "pydantic", "py4j": "pyspark"}
"""Modules of distributions that the named one requires: its own version decides theirs."""
NOT_IMPORTED_BY_US = {
    "pandas": "pyspark's mapInArrow imports it",
    "chdb": "the embedded server loads its library without the package",
    "opentelemetry-sdk": "its module is the exporter's, too, which is found first",
}
EXTRAS = {
    "chsink/embedded/clickhouse/": DEV,
    "chsink/mirror/": MIRROR,
    "chsink/observe/traces.py": OTEL,
    "chsink/decode/protobuf/": PROTOBUF,
    "chsink/ui/": UI,
}
"""What the files of a folder may use besides the required ones."""


def imported() -> Iterator[tuple[str, str]]:
    """(file, top-level module) of every import that is neither ours nor the standard library's."""
    for file in [*(CHECKOUT / "chsink").rglob("*.py"), *(CHECKOUT / "statemachine").rglob("*.py")]:
        for node in nodes(file):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            for top in {n.split(".")[0] for n in names} - sys.stdlib_module_names - {"chsink"}:
                yield str(file.relative_to(CHECKOUT)), top


def distribution(module: str) -> str:
    """The distribution that a user has to require for this module."""
    if module in COMES_WITH:
        return COMES_WITH[module]
    owners = sorted({canonicalize_name(name) for name in owners_of()[module]})
    return next((name for name in owners if name in DECLARED), owners[0])


def test_every_import_is_declared() -> None:
    undeclared = {
        (file, module)
        for file, module in imported()
        if not any(distribution(module) in names for folder, names in EXTRAS.items() if file.startswith(folder))
        and distribution(module) not in REQUIRED
    }
    assert undeclared == set()


def test_every_dependency_is_used() -> None:
    used = {distribution(module) for _, module in imported()}
    assert set(DECLARED) - used == set(NOT_IMPORTED_BY_US)


@pytest.mark.parametrize(("module", "owner"), COMES_WITH.items())
def test_a_module_that_comes_with_another_distribution(module: str, owner: str) -> None:
    """Its version is bounded by its owner on both sides: otherwise we would have to say which one we need."""
    needed = {canonicalize_name(r.name): r for r in map(Requirement, metadata.requires(owner) or ())}
    bounds = {s.operator for s in needed[canonicalize_name(owners_of()[module][0])].specifier}
    assert bounds == {"=="} or (bounds & {">=", ">"} and bounds & {"<=", "<"})
    assert module in {top for _, top in imported()}


def test_the_lock_fits_the_ranges() -> None:
    assert {n: LOCK[n] for n, r in DECLARED.items() if not r.specifier.contains(LOCK[n])} == {}


def test_the_lock_fits_what_the_dependencies_require() -> None:
    """With their extras, which ``pip check`` leaves out: otherwise ``pip install -c requirements.lock`` finds no way."""
    todo = [
        Requirement(r) for names in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()) for r in names
    ]
    seen: set[tuple[str, str]] = set()
    conflicts: set[str] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if not requirement.specifier.contains(LOCK.get(name, "0"), prereleases=True):
            conflicts.add(f"{requirement}, but {LOCK.get(name)} is locked")
        for extra in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            needed = map(Requirement, metadata.requires(name) or ())
            todo += [r for r in needed if r.marker is None or r.marker.evaluate({"extra": extra})]
    assert conflicts == set()
    assert len(seen) > 40


def test_ranges_are_no_pins() -> None:
    """Two programs in one environment must be able to agree; requirements.lock holds the exact versions."""
    assert [str(r) for r in DECLARED.values() if any(s.operator == "==" for s in r.specifier)] == []


def test_the_local_server_names_its_extra() -> None:
    from chsink.embedded.clickhouse.service import EXTRA

    assert {canonicalize_name(name) for name in EXTRA} == set(DEV)


def test_the_jars_are_of_the_spark_that_is_allowed() -> None:
    from chsink.jvm.jars import SPARK_KAFKA, pins

    (source,) = (jar for jar in pins()[SPARK_KAFKA] if jar.name.startswith("spark-sql-kafka"))
    pyspark = canonicalize_name("pyspark")
    assert REQUIRED[pyspark].specifier.contains(source.version)
    assert source.version == LOCK[pyspark]


def test_the_license_is_the_whole_text() -> None:
    text = (CHECKOUT / "LICENSE").read_text(encoding="utf-8")
    assert PROJECT["license"] == "Apache-2.0"
    assert re.search(r"Apache License\s+Version 2\.0, January 2004", text)
    assert "END OF TERMS AND CONDITIONS" in text
