"""What a failure of the mirror's parts means to a user: the only place that makes it an error of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from chsink.errors import ChsinkError, halts, preflight, services
from chsink.errors.entry import Entry
from chsink.mirror.control import Fenced, Names, NotSent, Unanswered
from chsink.mirror.coordinator import Halted, Stuck
from chsink.mirror.tables import CatalogFailed
from chsink.statemachine.commit.rules import CommitHalt

HALTS: dict[CommitHalt, Entry] = {
    CommitHalt.CHAIN_DAMAGED: halts.MIRROR_CHAIN_DAMAGED,
    CommitHalt.CHAIN_MISSING: halts.MIRROR_CHAIN_MISSING,
    CommitHalt.EVENTS_DAMAGED: halts.MIRROR_EVENTS_DAMAGED,
    CommitHalt.FILES_GONE: halts.MIRROR_FILES_GONE,
    CommitHalt.ROLLED_BACK: halts.MIRROR_ROLLED_BACK,
    CommitHalt.SPEC_CHANGED: halts.MIRROR_SPEC_CHANGED,
    CommitHalt.TABLE_GONE: halts.MIRROR_TABLE_GONE,
    CommitHalt.TABLE_RECREATED: halts.MIRROR_TABLE_RECREATED,
    CommitHalt.TOPIC_RECREATED: halts.MIRROR_TOPIC_RECREATED,
}
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


def as_error(error: Exception, names: Names) -> ChsinkError | None:
    """The error that a user meets; UnavailableError after an outage, None for anything else."""
    match error:
        case ChsinkError():
            return error
        case Halted():
            entry = HALTS[error.why]
            known = {
                "tables": error.table,
                "tp": error.detail,
                "detail": error.detail,
                "topic": error.topic,
                "property": error.table_property,
            }
            return entry(**{name: known[name] for name in entry.parameters})
        case Stuck():
            return services.MIRROR_COMMITS_FAIL(table=error.table, rounds=error.rounds, reason=error.reason)
        case CatalogFailed():
            return services.MIRROR_CATALOG_UNAVAILABLE(reason=error)
        case Fenced() | NotSent() | Unanswered():
            return refused(error, names) or services.MIRROR_KAFKA_UNANSWERED(
                topic=names.topic, group=names.group, reason=error
            )
        case _:
            return None


@contextmanager
def in_words(names: Names) -> Iterator[None]:
    """Errors that a user meets become errors of the catalogue."""
    try:
        yield
    except Exception as error:
        known = as_error(error, names)
        if known is None or known is error:
            raise
        raise known from error


def refused(error: Exception, names: Names) -> ChsinkError | None:
    """What Kafka does not allow, or an event that is too large for it; None for anything else."""
    cause = error.__cause__
    code = cause.args[0].code() if isinstance(cause, KafkaException) else None
    if code in TOO_LARGE:
        return preflight.MIRROR_EVENT_TOO_LARGE(topic=names.topic)
    return None if code is None else right_missing(code, names)


def right_missing(code: int, names: Names) -> ChsinkError | None:
    """The error that names the ACL which Kafka misses; None for any other answer of Kafka."""
    if code not in RIGHTS:
        return None
    what, acl = (text.format(group=names.group, topic=names.topic) for text in RIGHTS[code])
    return preflight.MIRROR_RIGHT_MISSING(what=what, acl=acl)
