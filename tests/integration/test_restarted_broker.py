"""A transactional producer beside a broker that is killed and started again."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException

from chsink.embedded.kafka import EmbeddedKafka
from chsink.kafka.transactions import GRACE_S, TransactionalProducer, consumer_options, group_offsets
from chsink.statemachine.ranges import TopicPartition

TP, TIMEOUT_S = TopicPartition("t", 0), 3


@pytest.mark.slow
def test_no_request_waits_for_ever(tmp_path: Path) -> None:
    """⚑ Found by a newcomer: the mirror's coordinator waited in librdkafka for good, and no log said so."""
    with EmbeddedKafka(tmp_path) as broker:
        broker.create_topic("t", 1)
        options = {"bootstrap.servers": broker.bootstrap}
        consumer = Consumer(consumer_options(options, "g"))

        def opened() -> TransactionalProducer:
            return TransactionalProducer(options, "x", "t", timeout_s=TIMEOUT_S, transaction_ms=60_000)

        def moved(producer: TransactionalProducer, to: int) -> None:
            producer.begin([{"value": b"v"}])
            producer.move(consumer, {TP: to}, "")
            producer.commit()

        producer = opened()
        moved(producer, 1)
        broker.kill()
        broker.start()
        begun = time.monotonic()
        with suppress(KafkaException):
            moved(producer, 2)
        assert time.monotonic() - begun < 3 * (TIMEOUT_S + GRACE_S)
        moved(opened(), 3)
        assert group_offsets(consumer, [TP], 20)[TP].offset == 3
        consumer.close()
