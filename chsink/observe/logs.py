"""Logging, set up once per process: lines for people on a terminal, JSON for a collector.

Rule: no record's value and no credential is ever logged.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import time
from typing import Any, Final, Literal, TextIO, cast

import structlog

from chsink.as_typed import as_typed
from chsink.errors import ChsinkError, HaltError

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

KAFKA_LOGGERS: Final = ("chsink.librdkafka", "chsink.librdkafka.dead_letters")
_VARYING: Final = re.compile(r"\d+ms|#\w+-\d+")
"""The parts that differ between two reports of one failure: an attempt's duration, and the client's number."""


class OncePerMinute(logging.Filter):
    """Drops repeated lines: librdkafka writes one for each attempt to connect, several a second."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this line was not written in the last 60 seconds."""
        line, now = _VARYING.sub("", record.getMessage()), time.monotonic()
        self._last = {known: at for known, at in self._last.items() if now - at < 60}
        if line in self._last:
            return False
        self._last[line] = now
        return True


_REPEATS: Final = OncePerMinute()


class _Stderr(io.TextIOBase):
    """What standard error is when a line is written: progress may be drawn below it (``chsink.observe.progress``)."""

    def write(self, text: str, /) -> int:
        """As any text file."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """As any text file."""
        sys.stderr.flush()


_STDERR: Final = cast(TextIO, _Stderr())


def configure(log_format: Literal["console", "json"], level: str) -> None:
    """Send structlog's lines to standard error, in the given form.  Loggers of libraries log errors only."""
    renderers: list[structlog.typing.Processor] = (
        [structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [_as_written, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=28)]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _typed,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(file=_STDERR),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.setLevel(logging.ERROR)
    if not any(isinstance(handler, _Through) for handler in root.handlers):
        root.addHandler(_Through())
    logging.getLogger("chsink").setLevel(LEVELS[level])  # retries of inserts and queries
    for library in ("kazoo", "urllib3", "chsink.librdkafka"):
        logging.getLogger(library).setLevel(logging.ERROR)
    for library in KAFKA_LOGGERS:
        logging.getLogger(library).addFilter(_REPEATS)  # the same filter is added once
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it repeats the sink's errors with a stack trace


class _AsWritten(str):
    """Text that is shown without escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _as_written(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Show statements and commands so that a person can copy them: Python would escape one kind of their quotes."""
    return {name: _AsWritten(v) if isinstance(v, str) and {"'", '"'} <= {*v} else v for name, v in event.items()}


def _typed(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Commands of a fix are for this job's file."""
    return {**event, "fix": as_typed(event["fix"])} if "fix" in event else event


class _Through(logging.Handler):
    """Passes lines of the standard library's loggers to structlog, so that a collector gets one format."""

    def emit(self, record: logging.LogRecord) -> None:
        """Hand one record on."""
        structlog.get_logger().log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info or None
        )


def log_end(log: structlog.typing.FilteringBoundLogger, side: str, error: ChsinkError, **more: Any) -> None:
    """Log that one side of the job halted (a person decides) or stopped, why, and what to do."""
    word = "halted" if isinstance(error, HaltError) else "stopped"
    event = f"{side} {word}"
    log.error(event, id=error.id, reason=error.message, fix=error.hint, **more)


def logger(sink: str) -> structlog.typing.FilteringBoundLogger:
    """The sink's logger."""
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind(sink=sink)
    return bound
