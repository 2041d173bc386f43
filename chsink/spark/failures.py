"""What a failure of Spark means for the user."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JJavaError

from chsink.errors import ChsinkError, halts, preflight, services, without_values

NO_ANSWER = (Py4JError, ConnectionError)
ADVICE = re.compile(r" Consider setting .*|\s*SQLSTATE: .*")
LONGEST_REASON = 500
DATA_LOSS = ("KAFKA_DATA_LOSS", "failOnDataLoss", "data may have been")
SHARED = ("concurrently using", "CONCURRENT_STREAM_LOG_UPDATE")
"""Words for a second process on one checkpoint: Spark then ends either of the two."""
PERMANENT = {
    ("ModuleNotFoundError:", "PACKAGE_NOT_INSTALLED", "UNSUPPORTED_PACKAGE_VERSION"): preflight.WORKER_LACKS_PACKAGE,
    ("SaslAuthenticationException:",): preflight.KAFKA_LOGIN_REFUSED,
    ("SslAuthenticationException:",): preflight.KAFKA_TLS_REFUSED,
    ("TopicAuthorizationException:", "GroupAuthorizationException:"): preflight.KAFKA_READ_FORBIDDEN,
    ("ClassNotFoundException", "NoClassDefFoundError", "Failed to find data source: kafka"): preflight.SPARK_JARS,
}
"""Words in Spark's message for faults that every restart meets again."""


def stopped(error: Exception) -> ChsinkError:
    """The error of the catalogue."""
    if any(mark in str(error) for mark in DATA_LOSS):
        return halts.SOURCE_MISSES_OFFSETS(reason=reason_of(error))
    if any(mark in str(error) for mark in SHARED):
        return services.CHECKPOINT_IN_USE(reason=reason_of(error))
    for marks, entry in PERMANENT.items():
        if line := next((line for line in str(error).splitlines() if any(m in line for m in marks)), ""):
            return entry(reason=without_values(line.strip()))
    return services.SPARK_STOPPED(reason=reason_of(error))


def reason_of(error: Exception) -> str:
    """Why, in one line."""
    if isinstance(error, NO_ANSWER) and not isinstance(error, Py4JJavaError):
        return "its Java process ended, or does not answer"
    return reason_in(str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error))


def reason_in(text: str) -> str:
    """One line of Spark's message that says why: of the Java exception, or behind ``Reason:``; else the first one."""
    lines = [line.strip() for line in text.partition("=== Streaming Query ===")[0].splitlines()] or [""]
    said = [line.removeprefix(":").strip() for line in lines if line.startswith((": ", "Reason: "))]
    reason = ADVICE.sub("", (said or lines)[0].removeprefix("Reason: "))
    return without_values(reason)[:LONGEST_REASON]
