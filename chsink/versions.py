"""Checks that the Python packages of this process are complete, and of versions that chsink supports."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Collection, Iterator
from importlib import metadata

from packaging.requirements import Requirement

from chsink.errors import preflight
from chsink.findings import Finding, Severity, found, passed

WORKERS_IMPORT = ("pandas", "pyarrow")
"""Packages that Spark's Python workers import for ``mapInArrow``, although pyspark does not require them."""


def package_findings(extras: Collection[str] = ()) -> Iterator[Finding]:
    """Compares the installed packages with the version ranges that chsink declares, also for these of its extras."""
    versions, differing, supported = {"python": platform.python_version()}, [], []
    missing = {name: name for name in WORKERS_IMPORT if importlib.util.find_spec(name) is None}
    for requirement in _requirements(extras):
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            missing[requirement.name] = f"'{requirement}'"
            continue
        versions[requirement.name] = version
        if not requirement.specifier.contains(version, prereleases=True):
            differing.append(f"{requirement.name} {version} (supported: {requirement.specifier})")
            supported.append(f"'{requirement.name}{requirement.specifier}'")
    if missing:
        names, needed = ", ".join(sorted(missing)), " ".join(missing[name] for name in sorted(missing))
        yield found(Severity.ERROR, preflight.PACKAGES_MISSING, missing=names, needed=needed, python=sys.executable)
    if differing:
        yield found(
            Severity.WARNING,
            preflight.PACKAGE_VERSIONS,
            differing=", ".join(sorted(differing)),
            supported=" ".join(sorted(supported)),
            python=sys.executable,
        )
    elif not missing:
        listed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        yield passed(preflight.PACKAGE_VERSIONS, versions=listed)


def _requirements(extras: Collection[str]) -> Iterator[Requirement]:
    """The requirements of chsink with these extras; none if chsink's metadata is not installed."""
    try:
        declared = metadata.requires("chsink") or []
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, declared):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in ("", *extras)):
            requirement.marker = None
            yield requirement
