"""Which versions of Kafka's requests the brokers know that the mirror talks to.

The client has no call for it.  It logs what a broker says when it connects, in whatever way it is secured.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from chsink.errors import halts
from chsink.findings import Finding, Severity, found, passed
from chsink.mirror.control import Names

NEEDED: Final = {"OffsetFetch": 7, "TxnOffsetCommit": 3}
"""Versions that came with Kafka 2.5.  From them on, whoever asks for a group's offsets waits for transactions that move
them.  The client uses older versions without a word, and their answers may be those from before a transaction.
"""
LOGGED: Final = re.compile(r"\[thrd:\S+?\]: (\S+?)/\w+:\s+ApiKey (\w+) \(\d+\) Versions \d+\.\.(\d+)")
POLL_S: Final = 0.1


def api_versions(names: Names) -> dict[str, dict[str, int]]:
    """By broker, the newest version of each of ``NEEDED``: of those that hold the mirror's groups, and of the one that
    answered first.  Raises KafkaException if none answers.
    """
    log = _Lines()
    admin = AdminClient({**names.options, "debug": "feature", "log_level": "7"}, logger=log.logger)
    admin.list_topics(timeout=names.timeout_s)
    asked = admin.describe_consumer_groups(list(names.groups), request_timeout=names.timeout_s)
    for answer in asked.values():
        with suppress(KafkaException):  # such a group need not exist; the client has connected to its broker
            answer.result()
    admin.poll(POLL_S)  # hands over what was logged
    return versions_in(log.lines)


def versions_in(lines: Iterable[str]) -> dict[str, dict[str, int]]:
    """What the client's log says, by broker."""
    brokers: dict[str, dict[str, int]] = {}
    for line in lines:
        if (match := LOGGED.search(line)) and match[2] in NEEDED:
            brokers.setdefault(match[1], {})[match[2]] = int(match[3])
    return brokers


def version_findings(brokers: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    """An error for each broker that is too old."""
    old = {}
    for broker, versions in sorted(brokers.items()):
        for api, needed in NEEDED.items():
            if versions.get(api, needed) < needed and broker not in old:
                known = {"api": api, "found": versions[api], "needed": needed}
                old[broker] = found(Severity.ERROR, halts.MIRROR_OLD_BROKER, broker=broker, **known)
    yield from old.values()
    if brokers and not old:
        yield passed(halts.MIRROR_OLD_BROKER)


class _Lines(logging.Handler):
    """Keeps what the client logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.logger = logging.Logger("chsink.librdkafka.versions")  # noqa: LOG001 - nobody else shall see these lines
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(record.getMessage())
