"""Why Kafka does not let this job in, read from what librdkafka says.

None of it passes by itself, so it is not the silence of a service: whoever starts the job again meets it again.
"""

from __future__ import annotations

import re
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from chsink.errors import ChsinkError, preflight, services, without_values
from chsink.statemachine.ranges import TopicPartition

_CONNECTION: Final = (
    (
        re.compile(r"(?s)OAUTHBEARER token.*(invalid_\w+|unauthorized_client|access_denied)"),  # RFC 6749, 5.2
        preflight.KAFKA_TOKEN_REFUSED,
    ),
    (re.compile(r"SASL authentication error|Unsupported SASL mechanism"), preflight.KAFKA_LOGIN_REFUSED),
    (re.compile(r"certificate verify failed"), preflight.KAFKA_SERVER_NOT_TRUSTED),
    (re.compile(r"alert (?:bad certificate|certificate|unknown ca)"), preflight.KAFKA_CLIENT_NOT_TRUSTED),
)
_FORBIDDEN: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topics",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "consumer groups",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional ids",
}
NO_ANSWER: Final = frozenset({services.KAFKA_UNAVAILABLE.id, preflight.KAFKA_LOGIN_REFUSED.id})
"""Ids of errors after which no other question is answered either."""


def not_admitted(failure: str) -> ChsinkError | None:
    """The error for the failure of a connection, if Kafka, or this side, refused the other; None for others."""
    for pattern, entry in _CONNECTION:
        if found := pattern.search(failure):
            return entry(reason=found[1] if found.groups() else without_values(failure))
    return None


def forbidden(error: KafkaError, what: str) -> ChsinkError | None:
    """The error for a right that is missing; None for others.  ``what`` was asked about, "" if that is not known."""
    kind = _FORBIDDEN.get(error.code())
    return None if kind is None else preflight.KAFKA_RIGHT_MISSING(what=what or kind, reason=error.str())


def unanswered(error: KafkaException, bootstrap: str) -> ChsinkError:
    """The error for a request that failed."""
    said: KafkaError = error.args[0]
    return forbidden(said, "") or services.KAFKA_UNAVAILABLE(bootstrap=bootstrap, reason=said.str())


def unreadable(error: KafkaError, tp: TopicPartition) -> ChsinkError:
    """The error for a topic-partition that a consumer cannot read."""
    return forbidden(error, "") or services.KAFKA_UNREADABLE(tp=tp, reason=error.str())


def unusable(error: KafkaError) -> ChsinkError:
    """The error for options with which no client can be made: a file that is missing, a wrong password of a store."""
    return preflight.KAFKA_OPTIONS_UNUSABLE(reason=without_values(error.str()))
