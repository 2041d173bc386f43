"""The control topic: created if it is missing, otherwise checked.  And who may use it and the mirror's groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic

from chsink.errors import ChsinkError, PreflightError, preflight, services
from chsink.findings import Finding, Severity, found, passed
from chsink.mirror.brokers import api_versions, version_findings
from chsink.mirror.control import ControlUnanswered, Names
from chsink.mirror.events import MAX_PART_BYTES
from chsink.mirror.refusals import one_answer, refused, right_missing

PARTITIONS = 4
"""Of a topic that chsink creates: a transaction that hangs delays the events of its own partition only."""
KEPT_MS = 30 * 86_400_000
"""How long it keeps events: an outage may last as long."""
NEEDED_BYTES = MAX_PART_BYTES + 100_000
"""Of a message: an event's files and its schema."""
HOUR_MS = 3_600_000
EVERYWHERE = "__consumer_offsets"
FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
"""Answers of a broker to a user without the right to ask."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What Kafka says of the topic.  Times and sizes are -1 where there is no limit."""

    partitions: int
    replicas: int
    brokers: int
    cleanup_policy: str
    retention_ms: int
    retention_bytes: int
    max_message_bytes: int


def ensure_control_topic(names: Names, *, try_only: bool = False) -> bool:
    """Create the control topic if it does not exist, or only ask Kafka whether it would.  Returns whether there is one
    already.  Raises ChsinkError.
    """
    settings = {"cleanup.policy": "delete", "retention.ms": str(KEPT_MS), "retention.bytes": "-1"}
    topic = NewTopic(names.topic, PARTITIONS, config=settings)
    admin = _admin(names)  # it must outlive the answer
    [made] = admin.create_topics([topic], request_timeout=names.timeout_s, validate_only=try_only).values()
    try:
        made.result()
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return True
        if code in FORBIDDEN:
            if _exists(names):
                return True
            raise preflight.MIRROR_RIGHT_MISSING(
                what=f"create the control topic {names.topic}, or to see it",
                acl=f"--operation Read --operation Write --operation Describe --operation Create --topic {names.topic}",
            ) from error
        if error.args[0].retriable():
            raise _unanswered(names, error) from error
        raise preflight.MIRROR_CONTROL_NOT_MADE(topic=names.topic, reason=error.args[0].str()) from error
    return False


def kafka_findings(names: Names) -> Iterator[Finding]:
    """The brokers, the control topic and the groups.  Raises ChsinkError."""
    versions = list(_versions(names))
    yield from versions
    if any(finding.severity is Severity.ERROR for finding in versions):
        return  # they do not answer the other questions either
    admin = _admin(names)
    yield from _topic(names, admin) if _exists(names) else _new_topic(names)
    yield from _transactional_ids(names)
    yield from _groups(names, admin)


def _new_topic(names: Names) -> Iterator[Finding]:
    """Whether a start may create it.  Whether it may be read and written, Kafka tells once it exists."""
    try:
        there = ensure_control_topic(names, try_only=True)
    except PreflightError as error:
        yield _error(error)
        return
    if not there:
        yield passed(preflight.MIRROR_CONTROL_NOT_MADE, topic=names.topic)
    elif not _exists(names):  # this user does not see it
        yield _error(right_missing(KafkaError.TOPIC_AUTHORIZATION_FAILED, names))


def _topic(names: Names, admin: AdminClient) -> Iterator[Finding]:
    described = _asked(names, admin.describe_topics, TopicCollection([names.topic]))
    yield from _topic_rights(names, described.authorized_operations)
    configs = _settings(names, admin)
    if configs is None:
        acl = f"--operation DescribeConfigs --topic {names.topic}"
        what = f"read the settings of the control topic {names.topic}"
        yield found(Severity.WARNING, preflight.MIRROR_RIGHT_MISSING, what=what, acl=acl)
    else:
        brokers = len(admin.list_topics(names.topic, timeout=names.timeout_s).brokers)
        replicas = min(len(p.replicas) for p in described.partitions)
        yield from settings_findings(names.topic, _read(configs, len(described.partitions), replicas, brokers))


def settings_findings(topic: str, settings: Settings) -> Iterator[Finding]:
    """Whether the topic keeps what the mirror needs."""
    if "compact" in settings.cleanup_policy:
        yield found(Severity.ERROR, preflight.MIRROR_CONTROL_COMPACTED, topic=topic, policy=settings.cleanup_policy)
        return
    if settings.max_message_bytes < NEEDED_BYTES:
        yield found(Severity.ERROR, preflight.MIRROR_CONTROL_SMALL, topic=topic, limit=settings.max_message_bytes)
    if settings.replicas == 1 and settings.brokers > 1:
        yield found(Severity.WARNING, preflight.MIRROR_CONTROL_ONE_COPY, topic=topic, brokers=settings.brokers)
    kept = "for ever" if settings.retention_ms < 0 else f"for {settings.retention_ms / HOUR_MS:g} h"
    if settings.retention_bytes >= 0:
        kept += f", up to {settings.retention_bytes} bytes per partition"
    if 0 <= settings.retention_ms < KEPT_MS or settings.retention_bytes >= 0:
        yield found(Severity.WARNING, preflight.MIRROR_CONTROL_SHORT, topic=topic, kept=kept, advised=KEPT_MS)
    else:
        yield passed(preflight.MIRROR_CONTROL_COMPACTED, topic=topic, partitions=settings.partitions, kept=kept)


def _versions(names: Names) -> Iterator[Finding]:
    try:
        found_versions = api_versions(names)
    except KafkaException as error:
        raise _unanswered(names, error) from error
    yield from version_findings(found_versions)


def _groups(names: Names, admin: AdminClient) -> Iterator[Finding]:
    """Nobody is a member of them: a member's commits would move the mirror's offsets."""
    taken = False
    for group in names.groups:
        described = _asked(names, admin.describe_consumer_groups, [group])
        if described is None:
            continue
        operations = described.authorized_operations
        known = operations is not None and described.state is not ConsumerGroupState.DEAD
        if known and AclOperation.READ not in operations:
            yield _error(right_missing(KafkaError.GROUP_AUTHORIZATION_FAILED, names))
        members = ", ".join(sorted(f"{m.client_id} at {m.host}" for m in described.members))
        if members:
            taken = True
            yield found(Severity.ERROR, preflight.MIRROR_GROUP_TAKEN, group=group, members=members)
    if not taken:
        yield passed(preflight.MIRROR_GROUP_TAKEN, group=names.group)


def _topic_rights(names: Names, operations: Collection[AclOperation] | None) -> Iterator[Finding]:
    """``operations`` is None if the broker has no authorizer."""
    if operations is None:
        return
    if {AclOperation.READ, AclOperation.WRITE} <= set(operations):
        yield passed(preflight.MIRROR_RIGHT_MISSING, topic=names.topic, group=names.group)
    else:
        yield _error(right_missing(KafkaError.TOPIC_AUTHORIZATION_FAILED, names))


def _transactional_ids(names: Names) -> Iterator[Finding]:
    """A producer of an id that nobody else uses is opened: Kafka tells of this right in no other way.  It names a topic
    that every cluster has: the control topic would be created by brokers with ``auto.create.topics.enable``.
    """
    try:
        replace(names, topic=EVERYWHERE).sender(names.trying_id, names.group).close()
    except ControlUnanswered as failed:
        error = refused(failed, names)
        if error is None:
            raise services.MIRROR_KAFKA_UNANSWERED(topic=names.topic, group=names.group, reason=failed) from failed
        yield _error(error)


def _error(error: ChsinkError | None) -> Finding:
    assert error is not None
    return Finding(error.id, Severity.ERROR, error.message, error.hint, error)


def _exists(names: Names) -> bool:
    try:
        return names.topic in _admin(names).list_topics(timeout=names.timeout_s).topics
    except KafkaException as error:
        raise _unanswered(names, error) from error


def _settings(names: Names, admin: AdminClient) -> Any:
    """The topic's settings, None where this user or broker does not show them.  UnavailableError CHS-716 for any other
    error.
    """
    [future] = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, names.topic)], request_timeout=names.timeout_s
    ).values()
    try:
        return future.result()
    except KafkaException as error:
        if error.args[0].code() in (*FORBIDDEN, KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
            return None
        raise _unanswered(names, error) from error


def _read(configs: Any, partitions: int, replicas: int, brokers: int) -> Settings:
    return Settings(
        partitions,
        replicas,
        brokers,
        configs["cleanup.policy"].value,
        int(configs["retention.ms"].value),
        int(configs["retention.bytes"].value),
        int(configs["max.message.bytes"].value),
    )


def _asked(names: Names, ask: Any, what: object) -> Any:
    """The one answer of a question with authorized operations; None where there is no such group."""
    limits = {"include_authorized_operations": True, "request_timeout": names.timeout_s}
    return one_answer(lambda: ask(what, **limits), names, partial(_unanswered, names))


def _unanswered(names: Names, error: KafkaException) -> ChsinkError:
    said = error.args[0]
    reason = f"{said.name()}: {said.str()}"
    return services.MIRROR_KAFKA_UNANSWERED(topic=names.topic, group=names.group, reason=reason)


def _admin(names: Names) -> AdminClient:
    return AdminClient(dict(names.options))
