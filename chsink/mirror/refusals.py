"""Turns a refusal of Kafka into an error of the catalogue that names the missing ACL or setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from chsink.errors import ChsinkError, preflight
from chsink.kafka.transactions import while_loading
from chsink.mirror.control import Names

RIGHTS = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "use transactional ids that begin with {group}",
        "--operation Write --operation Describe --transactional-id {group} --resource-pattern-type prefixed",
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: (
        "use groups that begin with {group}",
        "--operation Read --operation Describe --group {group} --resource-pattern-type prefixed",
    ),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "read and write the control topic {topic}",
        "--operation Read --operation Write --operation Describe --topic {topic}",
    ),
}
"""By the broker's answer: what is not allowed, and the ACL that allows it."""
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


def refused(error: Exception, names: Names) -> ChsinkError | None:
    """The error for a missing ACL, or for an event that is too large for Kafka; None for anything else."""
    cause = error.__cause__
    code = cause.args[0].code() if isinstance(cause, KafkaException) else None
    if code in TOO_LARGE:
        return preflight.MIRROR_EVENT_TOO_LARGE(topic=names.topic)
    return None if code is None else right_missing(code, names)


def right_missing(code: int, names: Names) -> ChsinkError | None:
    """The error that names the missing ACL; None for any other answer of Kafka."""
    if code not in RIGHTS:
        return None
    what, acl = (text.format(group=names.group, topic=names.topic) for text in RIGHTS[code])
    return preflight.MIRROR_RIGHT_MISSING(what=what, acl=acl)


def one_answer(
    ask: Callable[[], Mapping[Any, Any]], names: Names, unanswered: Callable[[KafkaException], Exception]
) -> Any:
    """The answer to a question about one thing; None where there is no such group."""

    def answer() -> Any:
        [future] = ask().values()
        return future.result()

    try:
        return while_loading(answer, names.timeout_s)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.GROUP_ID_NOT_FOUND:
            return None
        raise right_missing(code, names) or unanswered(error) from error
