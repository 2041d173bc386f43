"""Transactions of one transactional id, and the offsets of the group that they move.

Rules:
- Opening a producer ends the open transaction of every older producer of its id and refuses its later ones.  Read the
  group only after that: no older producer can move it any more.
- If a commit gets no answer, its outcome is unknown: open the id again, then read the group.
- A group has no members: reading its offsets joins nothing and commits nothing.
- Every failure is a KafkaException, even one that the client raises as SystemError during a delivery report.
- A request that gets no answer ends all the same: after a restart of the broker, librdkafka may wait for ever to send
  the group's offsets, whatever its timeout (its issue 5456).  Such a producer is of no use any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from chsink.statemachine.ranges import TopicPartition

T = TypeVar("T")
RECONNECT_MS = 20
"""librdkafka waits half of this, 50 ms by default, before it connects to the next broker."""
POLL_S = 0.1
"""How often a full queue is tried again."""
GRACE_S = 5
"""A request of the client is given up so long after its own timeout."""
LOADING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""Answers of a broker that is still loading its groups."""
LOADING_S = 0.2


class TransactionalProducer:
    """An open producer of ``topic`` with librdkafka's ``options``.  Each request waits at most ``timeout_s``.  Kafka
    ends a transaction that stays open for longer than ``transaction_ms``.
    """

    def __init__(
        self,
        options: Mapping[str, object],
        transactional_id: str,
        topic: str,
        *,
        timeout_s: float,
        transaction_ms: int,
        logger: logging.Logger | None = None,
    ) -> None:
        """Fence every older producer of the id.  Raises KafkaException."""
        self._topic, self._timeout_s = topic, timeout_s
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": transaction_ms}
        self._producer = Producer({"reconnect.backoff.ms": RECONNECT_MS, **options, **own}, logger=logger)
        # The client closes the bootstrap connection once it knows the brokers.  A request to the coordinator would be
        # lost with it and repeated only after 500 ms.  The second request here uses a connection that stays.
        for _ in range(2):
            self._producer.list_topics(topic, timeout=timeout_s)
        self._producer.init_transactions(timeout_s)

    def begin(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Begin a transaction with these messages, each given as arguments of ``Producer.produce``.  Kafka has all of
        them when this returns.  Raises KafkaException.
        """
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                refused.append(error)

        with _client_errors():
            self._producer.begin_transaction()
            give_up = time.monotonic() + self._timeout_s
            for message in messages:
                while not self._queued(message, delivered):
                    if time.monotonic() > give_up:
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                    self._producer.poll(POLL_S)
            if self._producer.flush(self._timeout_s) or refused:
                raise KafkaException(refused[0] if refused else KafkaError(KafkaError._TIMED_OUT))

    def _queued(self, message: Mapping[str, Any], delivered: Any) -> bool:
        """False where the queue is full."""
        try:
            self._producer.produce(self._topic, on_delivery=delivered, **message)
        except BufferError:
            return False
        return True

    def move(self, consumer: Consumer, offsets: Mapping[TopicPartition, int], note: str) -> None:
        """Set the offsets of the consumer's group, each with the note, when the transaction commits."""
        moved = [ClientPartition(tp.topic, tp.partition, offset, note) for tp, offset in offsets.items()]
        with _client_errors():
            group = consumer.consumer_group_metadata()
            in_time(partial(self._producer.send_offsets_to_transaction, moved, group), self._timeout_s)

    def commit(self) -> None:
        """Make the messages visible and move the group.  A KafkaException means unknown, unless the error says more."""
        with _client_errors():
            in_time(self._producer.commit_transaction, self._timeout_s)

    def abort(self) -> None:
        """Abort the transaction: its messages never become visible."""
        with _client_errors():
            in_time(self._producer.abort_transaction, self._timeout_s)


def in_time(request: Callable[[float], None], timeout_s: float) -> None:
    """Make the request in a thread that nothing waits for if it hangs, not even the end of the process."""
    outcome = Future[None]()

    def make() -> None:
        try:
            request(timeout_s)
            outcome.set_result(None)
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=make, name="transaction", daemon=True).start()
    try:
        outcome.result(timeout_s + GRACE_S)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None


@contextmanager
def _client_errors() -> Iterator[None]:
    try:
        yield
    except SystemError as error:
        if not isinstance(error.__cause__, KafkaException):
            raise
        raise error.__cause__ from error


def consumer_options(options: Mapping[str, str], group: str) -> dict[str, Any]:
    """Librdkafka's options for a consumer that joins no group, commits nothing and reads committed messages only."""
    return {
        "reconnect.backoff.ms": RECONNECT_MS,
        **options,
        "group.id": group,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
    }


class GroupOffset(NamedTuple):
    """``offset`` is None where the group has none; ``note`` is what was stored with it."""

    offset: int | None
    note: str


def group_offsets(
    consumer: Consumer, tps: Iterable[TopicPartition], timeout_s: float
) -> dict[TopicPartition, GroupOffset]:
    """What the consumer's group has for each topic-partition.  Raises KafkaException."""
    asked = [ClientPartition(tp.topic, tp.partition) for tp in tps]
    found = while_loading(partial(consumer.committed, asked, timeout=timeout_s), timeout_s)
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return {
        TopicPartition(f.topic, f.partition): GroupOffset(f.offset if f.offset >= 0 else None, f.metadata or "")
        for f in found
    }


def while_loading(ask: Callable[[], T], timeout_s: float) -> T:
    """The answer, for which a broker that is still loading its groups is asked again, as on the first request to a new
    cluster.  Raises KafkaException.
    """
    give_up = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in LOADING or time.monotonic() >= give_up:
                raise
        time.sleep(LOADING_S)
