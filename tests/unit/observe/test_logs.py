"""One form of log for everything that the driver says."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from chsink.observe.logs import _REPEATS, OncePerMinute, configure


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_loggers_of_the_standard_library_write_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    """Retries are logged where no structlog is: their lines would break a collector of JSON."""
    configure("json", "info")
    configure("json", "info")
    logging.getLogger("chsink.clickhouse.retry").warning("%s failed (attempt %d)", "an insert", 2)
    logging.getLogger("another.library").warning("not shown")
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("another.library").exception("it failed")

    retry, error = map(json.loads, capsys.readouterr().err.splitlines())
    assert (retry["event"], retry["level"]) == ("an insert failed (attempt 2)", "warning")
    assert retry["logger"] == "chsink.clickhouse.retry"
    assert (error["event"], error["level"]) == ("it failed", "error")
    assert "ValueError: why" in error["exception"]


def test_a_statement_can_be_copied_from_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """⚑ with its quotes as they are, whatever others the line has."""
    fix = """run DELETE FROM t WHERE topic = 'a b'; then set kafka.starting_offsets = "earliest\""""
    forms: list[tuple[Literal["console", "json"], str]] = [("console", fix), ("json", json.dumps(fix))]
    for form, shown in forms:
        configure(form, "info")
        structlog.get_logger().warning("empty", fix=fix, rows=3)
        assert shown in capsys.readouterr().err


def test_librdkafka_repeats_nothing_within_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes one line for each attempt to connect, and each has another number of milliseconds."""
    configure("console", "error")
    now = 1000.0
    monkeypatch.setattr("chsink.observe.logs.time.monotonic", lambda: now)
    monkeypatch.setattr("chsink.observe.logs._REPEATS._last", {})
    log = logging.getLogger("chsink.librdkafka")
    assert sum(isinstance(one, OncePerMinute) for one in log.filters) == 1
    for attempt in range(5):
        log.error("[rdkafka#consumer-%d] a:9092 refused (after %dms)", attempt, attempt)
        log.error("b:9092 refused (after %dms)", attempt)
    assert len(caplog.records) == 2
    now += 60
    log.error("b:9092 refused (after 7ms)")
    assert len(caplog.records) == 3
    assert len(_REPEATS._last) == 1, "what is older than a minute is forgotten"
