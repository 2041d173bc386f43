"""The Python packages of this process, against those that chsink was tested with."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib import metadata

from chsink.findings import Finding, info, warning


def versions() -> Finding:
    """The clients in this process, against the versions that chsink was tested with."""
    wanted: dict[str, str] = {}
    try:
        required: Iterable[str] = metadata.requires("chsink") or ()
    except metadata.PackageNotFoundError:
        required = ()
    for requirement in required:
        name, pinned, version = requirement.partition("==")
        if pinned:
            wanted[name] = version.split(";")[0].strip()
    found = {name: metadata.version(name) for name in wanted}
    return client_versions(
        {**wanted, "python": platform.python_version()}, {**found, "python": platform.python_version()}
    )


def client_versions(wanted: Mapping[str, str], found: Mapping[str, str]) -> Finding:
    """Versions other than those that were tested together."""
    differing = [
        f"{name} {found[name]} (tested: {wanted[name]})" for name in sorted(wanted) if found[name] != wanted[name]
    ]
    if differing:
        return warning("CHS-231", f"not the tested versions: {', '.join(differing)}", "install chsink's own pins")
    return info("CHS-231", ", ".join(f"{name} {version}" for name, version in sorted(found.items())))
