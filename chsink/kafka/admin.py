"""What the driver asks Kafka itself: topic ids, partitions, and where logs start and end.

Metadata only.  Records are read by Spark's source, never by this client.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import wait
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from chsink.config import Config
from chsink.errors import ChsinkError, UnavailableError, preflight, services, without_values
from chsink.kafka.refusals import forbidden, not_admitted, unusable
from chsink.statemachine.ranges import TopicPartition

REFUSED_FOR_S = 3.0
"""How long every connection must be refused until that counts: a broker may start at this moment."""
POLL_S = 0.2
_WHEN = re.compile(r" \(after \d+ms in state \w+(?:, [^)]*)?\)")
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_SILENT = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.REQUEST_TIMED_OUT)
"""Kafka did not answer.  Other errors mean that this user may not see the settings."""
_NO_LEADER = frozenset(
    {
        "_NOENT",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
    }
)
"""No broker leads the partition at this moment, or it has just begun to: the topic is new, or a broker restarts."""


class KafkaAdmin:
    """:class:`chsink.ports.KafkaCluster` over librdkafka's admin client.

    ``options`` are librdkafka properties (``Config.kafka.client_options()``).  Every question is bounded by
    ``timeout_s``; while no broker leads a partition, it is asked again for as long.
    Unpickling returns the one client with these options that the process shares.  No close is needed: librdkafka ends
    its threads with the object.
    """

    def __init__(self, options: Mapping[str, str], *, timeout_s: float) -> None:
        self.bootstrap = options["bootstrap.servers"]
        self.timeout_s = timeout_s
        self._given = tuple(sorted(options.items()))
        self._options: dict[str, Any] = {
            **options,
            "socket.timeout.ms": int(timeout_s * 1000),
            "error_cb": self._failed,
        }
        self._failure = ""

    @cached_property
    def _client(self) -> AdminClient:
        """The client, made once a broker accepts a connection.  Raises CHS-702 if every broker refuses."""
        _check_reachable(self.bootstrap)
        try:
            return AdminClient(self._options, logger=logging.getLogger("chsink.librdkafka"))
        except KafkaException as error:
            raise unusable(error.args[0]) from error

    def topics(self) -> list[str]:
        """The names of all topics that this user may see."""
        try:
            return sorted(self._client.list_topics(timeout=self.timeout_s).topics)
        except KafkaException as error:
            raise self._failure_of(error) from error

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """See :class:`chsink.ports.KafkaCluster`."""
        names = sorted(set(topics))
        if not names:
            return {}
        described = self._client.describe_topics(TopicCollection(names), request_timeout=self.timeout_s)
        ids: dict[str, str | None] = {}
        for name, future in described.items():
            topic_id = str(self._result(future, name).topic_id)
            ids[name] = None if topic_id == NO_ID else topic_id
        return ids

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """See :class:`chsink.ports.KafkaCluster`."""
        names = sorted(set(topics))
        described = self._client.describe_topics(TopicCollection(names), request_timeout=self.timeout_s)
        return sorted(
            TopicPartition(name, p.id)
            for name, future in described.items()
            for p in self._result(future, name).partitions
        )

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See :class:`chsink.ports.KafkaCluster`."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See :class:`chsink.ports.KafkaCluster`."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def offsets_since(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The first offset whose record has the timestamp ``time_ms`` or a later one; -1 if there is none."""
        return self._offsets(partitions, OffsetSpec.for_timestamp(time_ms))

    def retention_ms(self, topic: str) -> int:
        """How long the topic keeps a record in ms; -1 for ever, or if this user may not see the setting."""
        found = self._settings(topic)
        return -1 if not found or found["cleanup.policy"] == "compact" else int(found["retention.ms"])

    def may_be_compacted(self, topic: str) -> bool:
        """Whether Kafka may remove single records of the topic.  True if this user may not see its settings."""
        policy = self._settings(topic).get("cleanup.policy")
        return policy is None or "compact" in policy

    def __reduce__(self) -> tuple[object, ...]:
        return _of_process, (self._given, self.timeout_s)

    def _settings(self, topic: str) -> dict[str, str]:
        """The topic's settings; empty if this user may not see them."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            [future] = self._client.describe_configs([resource], request_timeout=self.timeout_s).values()
            return {name: entry.value for name, entry in future.result(self.timeout_s + 5).items()}
        except KafkaException as error:
            if error.args[0].code() in _SILENT:
                raise self._failure_of(error) from error
            return {}

    def _offsets(self, partitions: Iterable[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
        asked = {ClientPartition(tp.topic, tp.partition): spec for tp in partitions}
        if not asked:
            return {}
        patient = Retrying(
            retry=retry_if_exception(_is_led_by_none),
            stop=stop_after_delay(self.timeout_s),
            wait=wait_fixed(POLL_S),
            before_sleep=lambda _: self._ask_for_leaders(),
            reraise=True,
        )
        return patient(self._offsets_now, asked)

    def _ask_for_leaders(self) -> None:
        """The client keeps what it knows of leaders, and their epochs, for minutes."""
        with suppress(KafkaException):
            self._client.list_topics(timeout=self.timeout_s)

    def _offsets_now(self, asked: dict[ClientPartition, Any]) -> dict[TopicPartition, int]:
        futures = self._client.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=self.timeout_s
        )
        return {
            TopicPartition(tp.topic, tp.partition): self._result(future, tp.topic, tp.partition).offset
            for tp, future in futures.items()
        }

    def _result(self, future: Any, topic: str, partition: int | None = None) -> Any:
        try:
            self._await(future)
            return future.result(0)
        except KafkaException as error:
            name = error.args[0].name()
            if name == "_NOENT" and partition is not None:  # it is the only one asked about: no leader, or not there
                there = TopicPartition(topic, partition) in self.partitions([topic])
                name = name if there else "_UNKNOWN_PARTITION"
            if name in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"):
                if partition is not None:
                    known = {"bootstrap": self.bootstrap, "topic": topic, "partition": partition}
                    raise preflight.PARTITION_MISSING(**known) from error
                raise preflight.TOPIC_MISSING(
                    bootstrap=self.bootstrap, what=f"topic {topic!r}{self._meant(topic)}"
                ) from error
            if partition is not None and name in _NO_LEADER:
                reason = f"no broker leads it ({error.args[0].str()})"
                raise services.KAFKA_UNREADABLE(tp=TopicPartition(topic, partition), reason=reason) from error
            raise self._failure_of(error, f"topic {topic}") from error
        except TimeoutError as error:
            raise self._unavailable(f"no answer within {self.timeout_s:.0f} s") from error

    def _await(self, future: Any) -> None:
        """Return once the future is done, or late.  Raises the error as soon as it is clear that Kafka lets nobody in:
        librdkafka would try until its timeout.
        """
        began = time.monotonic()
        while not wait([future], timeout=POLL_S).done and (waited := time.monotonic() - began) < self.timeout_s + 5:
            self._client.poll(0)  # calls `_failed`
            if waited > REFUSED_FOR_S and (refused := not_admitted(self._failure)):
                raise refused

    def _meant(self, topic: str) -> str:
        """The topic that the name of a missing one comes close to, as a question."""
        try:
            found = get_close_matches(topic, self.topics(), n=1, cutoff=0.75)
        except ChsinkError:
            return ""
        return f" (did you mean {found[0]!r}?)" if found else ""

    def _failed(self, error: KafkaError) -> None:
        """Keep why the last connection failed: the answer to a request only says that it waited."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._failure = _WHEN.sub("", error.str())

    def _failure_of(self, error: KafkaException, what: str = "") -> ChsinkError:
        """The error of the catalogue; ``what`` was asked about."""
        said = error.args[0]
        return forbidden(said, what) or self._unavailable(said.str())

    def _unavailable(self, why: str) -> ChsinkError:
        self._client.poll(0)  # calls `_failed`
        if refused := not_admitted(self._failure):
            return refused
        protocol = self._options.get("security.protocol", "PLAINTEXT")
        cause = f"; the last connection: {without_values(self._failure)}" if self._failure else ""
        reason = f"{why} (security.protocol is {protocol}{cause})"
        return services.KAFKA_UNAVAILABLE(bootstrap=self.bootstrap, reason=reason)


def _is_led_by_none(error: BaseException) -> bool:
    cause = error.__cause__
    return (
        isinstance(error, UnavailableError) and isinstance(cause, KafkaException) and cause.args[0].name() in _NO_LEADER
    )


@lru_cache(maxsize=8)
def _of_process(options: tuple[tuple[str, str], ...], timeout_s: float) -> KafkaAdmin:
    """One client for all tasks of a worker process: connecting costs more than their requests."""
    return KafkaAdmin(dict(options), timeout_s=timeout_s)


def _check_reachable(bootstrap: str) -> None:
    """Raise CHS-702 if every address refuses connections for ``REFUSED_FOR_S``.

    librdkafka would retry until its timeout and then report only the timeout.  It handles all other cases.
    """
    give_up = time.monotonic() + REFUSED_FOR_S
    while refusals := _refusals(bootstrap):
        if time.monotonic() >= give_up:
            raise services.KAFKA_UNAVAILABLE(bootstrap=bootstrap, reason="; ".join(sorted(set(refusals))))
        time.sleep(0.2)


def _refusals(bootstrap: str) -> list[str]:
    """Why each address refuses a connection; empty if one of them may accept it."""
    found: list[str] = []
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
        except (ConnectionRefusedError, socket.gaierror) as error:
            found.append(error.strerror or str(error))
        except OSError:
            return []
        else:
            return []
    return found


def open_admin(config: Config) -> KafkaAdmin:
    """The metadata client of a configuration.  It connects on its first request."""
    return KafkaAdmin(config.kafka.client_options(), timeout_s=config.kafka.timeout_s)
