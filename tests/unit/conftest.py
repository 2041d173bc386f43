"""Unit tests leave logging as they found it: the command line sets it up for its whole process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

LOGGERS = ("", "chsink", "chsink.librdkafka", "kazoo", "urllib3", "py4j")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    yield
    structlog.reset_defaults()
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
