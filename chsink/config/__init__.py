"""The job's configuration: one typed, immutable value with the origin of each of its parts.

``load`` reads a job file, ``Config.from_mapping`` a mapping of the same shape.  Either returns a configuration without
contradictions or raises :class:`InvalidConfigError` with every problem found.  Nothing here connects to a service.
"""

from __future__ import annotations

from chsink.config.clickhouse import ClickHouse, Endpoint, Tls
from chsink.config.kafka import Kafka
from chsink.config.load import load
from chsink.config.model import Config
from chsink.config.problems import InvalidConfigError, Problem
from chsink.config.sections import Errors, InDoubt, Observe, Route, Sink, Spark, Trigger
from chsink.config.show import Setting, settings

__all__ = [
    "ClickHouse",
    "Config",
    "Endpoint",
    "Errors",
    "InDoubt",
    "InvalidConfigError",
    "Kafka",
    "Observe",
    "Problem",
    "Route",
    "Setting",
    "Sink",
    "Spark",
    "Tls",
    "Trigger",
    "load",
    "settings",
]
