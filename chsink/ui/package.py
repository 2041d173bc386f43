"""Whether the packages of the extra ``ui`` are installed.  Imports none of them."""

from __future__ import annotations

import importlib.util
import sys

from chsink.errors import preflight

NEEDED = ("starlette", "uvicorn")


def check_installed() -> None:
    """Raises PreflightError CHS-279 if a package is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise preflight.NO_PAGE_PACKAGES(missing=" and ".join(missing), python=sys.executable)
