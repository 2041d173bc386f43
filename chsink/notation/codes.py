"""ClickHouse's error codes to which chsink reacts, in groups with a common meaning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

UNKNOWN_IDENTIFIER = 47
UNKNOWN_TABLE = 60
SYNTAX_ERROR = 62
UNKNOWN_DATABASE = 81
UNKNOWN_SETTING = 115
READONLY = 164
TOO_MANY_PARTS = 252
SETTING_CONSTRAINT_VIOLATION = 452
ACCESS_DENIED = 497
KEEPER_EXCEPTION = 999

AUTH = frozenset((192, 193, 194, 516))
"""The login was refused: unknown user, wrong or missing password."""
SETTINGS = frozenset((UNKNOWN_SETTING, READONLY, SETTING_CONSTRAINT_VIOLATION))
"""A setting was refused: unknown, or the user may not change it."""
LIMITS = frozenset((158, 161, 191, 277, 290, 307, 396))
"""A query would read more than a limit of the user's profile allows, or without an index: so would a retry."""
REFUSED = frozenset((UNKNOWN_TABLE, UNKNOWN_DATABASE, ACCESS_DENIED, SYNTAX_ERROR, *SETTINGS, *AUTH))
"""A statement was refused because of its text or its user: a retry gets the same answer."""
TRANSIENT: Mapping[int, str] = MappingProxyType(
    {
        3: "UNEXPECTED_END_OF_FILE",
        32: "ATTEMPT_TO_READ_AFTER_EOF",
        159: "TIMEOUT_EXCEEDED",
        160: "TOO_SLOW",
        202: "TOO_MANY_SIMULTANEOUS_QUERIES",
        203: "NO_FREE_CONNECTION",
        209: "SOCKET_TIMEOUT",
        210: "NETWORK_ERROR",
        236: "ABORTED",
        241: "MEMORY_LIMIT_EXCEEDED",
        242: "TABLE_IS_READ_ONLY",
        243: "NOT_ENOUGH_SPACE",
        TOO_MANY_PARTS: "TOO_MANY_PARTS",
        279: "ALL_CONNECTION_TRIES_FAILED",
        285: "TOO_FEW_LIVE_REPLICAS",
        286: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE",
        289: "REPLICA_IS_NOT_IN_QUORUM",
        319: "UNKNOWN_STATUS_OF_INSERT",
        394: "QUERY_WAS_CANCELLED",
        425: "SYSTEM_ERROR",
        439: "CANNOT_SCHEDULE_TASK",
        473: "DEADLOCK_AVOIDED",
        KEEPER_EXCEPTION: "KEEPER_EXCEPTION",
    }
)
"""A retry may succeed: overload, memory, timeouts, disk space, read-only replicas, Keeper."""
