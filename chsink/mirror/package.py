"""Whether the packages of the extra ``mirror`` are installed.  Imports none of them."""

from __future__ import annotations

import importlib.util
import sys

from chsink.errors import preflight

NEEDED = ("pyiceberg", "fastavro")


def check_installed() -> None:
    """Raises PreflightError CHS-236 if a package is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise preflight.NO_MIRROR_PACKAGES(missing=" and ".join(missing), python=sys.executable)
