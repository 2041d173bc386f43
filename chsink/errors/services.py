"""7xx: a service does not answer."""

from __future__ import annotations

from chsink.errors.entry import Entry
from chsink.errors.families import UnavailableError

STATE_STORE_UNAVAILABLE = Entry(
    "STATE_STORE_UNAVAILABLE",
    "CHS-701",
    UnavailableError,
    "the state store ({store}) does not respond: {reason}",
    "bring the state store back, then start the job again",
)
