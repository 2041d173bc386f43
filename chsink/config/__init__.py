"""The job's configuration: one typed, immutable value that records the origin of each key.

``load`` reads a job file, ``Config.from_mapping`` a mapping of the same shape.  Either returns a configuration without
contradictions or raises :class:`InvalidConfigError` with every problem found.  Nothing here connects to a service.
"""

from __future__ import annotations

from chsink.config.load import load
from chsink.config.model import Config
from chsink.config.problems import InvalidConfigError, Problem
from chsink.config.routes import Route
from chsink.config.sections import Errors
from chsink.config.show import Setting, settings

__all__ = ["Config", "Errors", "InvalidConfigError", "Problem", "Route", "Setting", "load", "settings"]
