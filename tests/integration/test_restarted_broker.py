"""Clients beside a broker that is killed, or stopped, and started again."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from chsink.embedded.kafka import EmbeddedKafka
from chsink.errors import UnavailableError
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.transactions import GRACE_S, TransactionalProducer, consumer_options, group_offsets
from chsink.statemachine.ranges import TopicPartition
from tests.support.brokers import another_broker

TP, TIMEOUT_S = TopicPartition("t", 0), 3


@pytest.mark.soak
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


@pytest.mark.soak
def test_a_partition_that_no_broker_leads(tmp_path: Path) -> None:
    """A topic that is new, or a rolling restart: a start ended with CHS-702, which sent people to look at the network."""
    with EmbeddedKafka(tmp_path / "1") as first, another_broker(tmp_path / "2", first) as second:
        client = AdminClient({"bootstrap.servers": first.bootstrap})
        client.create_topics([NewTopic("t", num_partitions=2, replica_assignment=[[1], [2]])])["t"].result(30)
        both = [TP, TopicPartition("t", 1)]
        patient = KafkaAdmin({"bootstrap.servers": first.bootstrap}, timeout_s=60)
        assert patient.log_ends(both) == dict.fromkeys(both, 0)

        second.stop()
        begun = time.monotonic()
        with pytest.raises(UnavailableError, match="CHS-702. t-1 cannot be read: no broker leads it") as raised:
            KafkaAdmin({"bootstrap.servers": first.bootstrap}, timeout_s=3).log_ends(both)
        assert 3 <= time.monotonic() - begun < 9
        assert "brokers' logs" in raised.value.hint
        again = threading.Timer(1, second.start)
        again.start()
        assert patient.log_starts(both) == dict.fromkeys(both, 0)
        again.join()
