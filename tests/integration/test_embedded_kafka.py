"""The local broker does what a test, the demo and a developer rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from chsink.embedded import topics
from chsink.embedded.base.ports import accepts
from chsink.embedded.kafka import EmbeddedKafka
from chsink.errors import ChsinkError
from tests.conftest import MakeTopic
from tests.support.kafka import add_partitions, produce, read_all

pytestmark = pytest.mark.slow


def test_records_come_back_at_their_offsets(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic(partitions=2)
    assert produce(kafka.bootstrap, name, 1, [{"a": 1}, "text", b"bytes", None]) == (0, 4)
    assert produce(kafka.bootstrap, name, 1, [{"a": 2}]) == (4, 5)
    found = [(record.partition, record.offset, record.value) for record in read_all(kafka.bootstrap, name)]
    assert found == [(1, 0, b'{"a":1}'), (1, 1, b"text"), (1, 2, b"bytes"), (1, 3, None), (1, 4, b'{"a":2}')]


def test_transactions_leave_markers_and_hide_what_was_aborted(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic()
    assert produce(kafka.bootstrap, name, 0, ["a", "b"], transactional=f"{name}-1") == (0, 3)
    assert produce(kafka.bootstrap, name, 0, ["c"], transactional=f"{name}-2", abort=True) == (3, 5)
    assert produce(kafka.bootstrap, name, 0, ["d"]) == (5, 6)
    committed = [(record.offset, record.value) for record in read_all(kafka.bootstrap, name)]
    assert committed == [(0, b"a"), (1, b"b"), (5, b"d")]
    everything = read_all(kafka.bootstrap, name, isolation="read_uncommitted")
    assert [record.offset for record in everything] == [0, 1, 3, 5]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_compressed_records_are_taken(kafka: EmbeddedKafka, topic: MakeTopic, codec: str) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 50})
    for number in range(100):
        producer.produce(name, b"%d" % number * 20)
    assert producer.flush(30) == 0
    assert len(read_all(kafka.bootstrap, name)) == 100


def test_compaction_drops_offsets_within_seconds(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic(config={"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"})
    for number in range(4):
        produce(kafka.bootstrap, name, 0, [f"v{number}"], key=b"k")
        time.sleep(0.15)
    assert eventually(lambda: len(read_all(kafka.bootstrap, name)) < 4), "nothing was compacted"
    assert read_all(kafka.bootstrap, name)[-1].offset == 3


def test_retention_drops_offsets_within_seconds(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic(config={"retention.ms": "200", "segment.ms": "100", "file.delete.delay.ms": "0"})
    produce(kafka.bootstrap, name, 0, ["old"])
    assert eventually(lambda: not read_all(kafka.bootstrap, name)), "nothing was dropped"
    assert produce(kafka.bootstrap, name, 0, ["new"]) == (1, 2)


def test_records_can_be_deleted_as_retention_would(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka.bootstrap, name, 0, ["a", "b", "c"])
    topics.delete_records(kafka.bootstrap, name, 0, before=2)
    assert [record.offset for record in read_all(kafka.bootstrap, name)] == [2]


def test_a_topic_can_be_recreated_at_once_and_starts_at_zero(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic()
    produce(kafka.bootstrap, name, 0, ["a", "b"])
    kafka.delete_topic(name)
    kafka.create_topic(name, 3)
    assert produce(kafka.bootstrap, name, 2, ["c"]) == (0, 1)


def test_a_topic_can_grow(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic()
    add_partitions(kafka.bootstrap, name, 3)
    assert produce(kafka.bootstrap, name, 2, ["c"]) == (0, 1)


def test_an_unknown_topic_is_not_made_by_writing_to_it(kafka: EmbeddedKafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.timeout.ms": 2000})
    errors: list[object] = []
    producer.produce("never-made", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert errors
    assert errors[0] is not None


def test_a_refused_topic_is_an_error_with_an_id(kafka: EmbeddedKafka, topic: MakeTopic) -> None:
    name = topic()
    with pytest.raises(ChsinkError, match=r"CHS-905.*already exists"):
        kafka.create_topic(name)


@pytest.mark.soak
def test_kill_and_restart_keep_data_and_port(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path, properties={"broker.session.timeout.ms": "2000"}) as broker:
        broker.create_topic("t")
        produce(broker.bootstrap, "t", 0, ["a"])
        port, pid = broker.port, broker.pid
        broker.kill()
        assert not broker.running
        assert not accepts(port)
        broker.start()
        assert (broker.port, broker.pid != pid) == (port, True)
        produce(broker.bootstrap, "t", 0, ["b"])
        broker.restart()
        assert [record.value for record in read_all(broker.bootstrap, "t")] == [b"a", b"b"]
    assert not accepts(port)
    broker.stop()


def test_a_taken_port_is_an_error(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with pytest.raises(ChsinkError, match=r"CHS-904.*port \d+ is already in use") as caught:
        EmbeddedKafka(tmp_path, port=kafka.port).start()
    assert caught.value.id == "CHS-904"


@pytest.mark.soak
def test_the_broker_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys, threading\n"
        "from chsink.embedded.kafka import EmbeddedKafka\n"
        "broker = EmbeddedKafka(sys.argv[1])\n"
        "starter = threading.Thread(target=broker.start); starter.start(); starter.join()\n"
        "print(broker.pid, broker.running, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, running = parent.stdout.readline().split()
        assert running == "True", "it must outlive the thread that asked for it"
        assert alive(int(pid))
        parent.send_signal(signal.SIGKILL)
    assert eventually(lambda: not alive(int(pid))), "the broker outlived its parent"


def test_reading_needs_a_broker(tmp_path: Path) -> None:
    broker = EmbeddedKafka(tmp_path)
    with pytest.raises(ChsinkError, match=r"CHS-905.*not running"):
        _ = broker.pid
    assert not topics.answers(broker.bootstrap, timeout_s=0.3)
    with pytest.raises(KafkaException):
        Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(timeout=0.3)


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def eventually(is_so: Callable[[], bool], limit_s: float = 20.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
