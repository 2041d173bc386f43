"""Every error a user can meet.

- :mod:`families`: what may be done about an error, and so the exit code;
- :mod:`entry`: one entry of the catalogue: id, family, sentence, fix;
- one file of entries per hundred ids, named after what goes wrong there: :mod:`job_file` (1xx), :mod:`preflight` (2xx),
  :mod:`halts` (3xx), :mod:`shards` (4xx), :mod:`values` (5xx), :mod:`stream` (6xx), :mod:`services` (7xx),
  :mod:`fencing` (8xx), :mod:`local` (9xx);
- :mod:`catalogue`: all of them, by name; :mod:`page`: the pages of ``docs/`` that are generated from it;
- :mod:`redaction`: other people's messages without values.

Raise sites name an entry and give its parameters: ``raise halts.LOG_SHRANK(tp=tp, ...)``.  No sentence for users is
written anywhere else.
"""

from chsink.errors import catalogue  # gives all entries their names
from chsink.errors.families import (
    AlteredError,
    BadValueError,
    CheckFailed,
    ChsinkError,
    ConfigError,
    FencedError,
    HaltError,
    PreflightError,
    UnavailableError,
)
from chsink.errors.redaction import without_values

__all__ = [
    "AlteredError",
    "BadValueError",
    "CheckFailed",
    "ChsinkError",
    "ConfigError",
    "FencedError",
    "HaltError",
    "PreflightError",
    "UnavailableError",
    "catalogue",
    "without_values",
]
