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
INSERT_UNANSWERED = Entry(
    "INSERT_UNANSWERED",
    "CHS-704",
    UnavailableError,
    "{url} did not acknowledge an insert into {table} within {seconds} s: {reason}",
    "bring the server back, then start again: the range is in doubt and chsink will settle it",
)
INSERT_OVERLOADED = Entry(
    "INSERT_OVERLOADED",
    "CHS-704",
    UnavailableError,
    "{url} kept refusing an insert into {table} for {seconds} s with code {code}: {reason}",
    "reduce the load on the server, then start again: the range is in doubt and chsink will settle it",
)
PIECE_TOO_LATE = Entry(
    "PIECE_TOO_LATE",
    "CHS-705",
    UnavailableError,
    "the deduplication window of piece {token} has ended, so chsink does not send it",
    "start again: the range is in doubt and chsink will look for its rows in the table",
)
TOKEN_DOUBTFUL = Entry(
    "TOKEN_DOUBTFUL",
    "CHS-707",
    UnavailableError,
    "{url} may have forgotten the deduplication token of piece {token}, so chsink does not send it: {reason}",
    "start again: the range is in doubt, and chsink looks for its rows before it sends them; if a single batch fills "
    "the deduplication window, enlarge the window or lower kafka.max_offsets_per_trigger",
)
STILL_INSERTING = Entry(
    "STILL_INSERTING",
    "CHS-710",
    UnavailableError,
    "{url} is still running an insert of {tp} {range}",
    "wait until it ends, or find it in system.processes and kill it there; then start again",
)
