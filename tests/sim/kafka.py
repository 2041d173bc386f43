"""Simulated Kafka: logs with holes, aborted transactions, compaction, retention, recreation, ids that hide.

A record is named by its ``uid``: topic serial, partition, offset.  ``LogRecord`` identity is what the oracle checks by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.sim.hub import Hub

SERIAL, PARTITION = 10**9, 10**6


def uid_of(serial: int, partition: int, offset: int) -> int:
    """The unique name of a record, even if its topic is recreated with the same offsets."""
    return (serial + 1) * SERIAL + partition * PARTITION + offset


def id_of(serial: int) -> str:
    """A topic's id."""
    return f"id{serial}"


def serial_of(uid: int) -> int:
    """Which life of a topic the record belongs to."""
    return uid // SERIAL - 1


@dataclass(slots=True)
class Log:
    """One partition: ``visible`` are the offsets that a read_committed reader gets, in order; ``archive`` also has the
    offsets that retention deleted.  From ``cut`` on, the log was shrunk and may have grown again: a new record has the
    uid of the one that was lost.
    """

    start: int = 0
    end: int = 0
    cut: int = 1 << 62
    visible: list[int] = field(default_factory=list)
    archive: list[int] = field(default_factory=list)

    def between(self, start: int, end: int) -> list[int]:
        """Visible offsets in ``[start, end)``."""
        return [o for o in self.visible if start <= o < end]


@dataclass(slots=True)
class Topic:
    """One life of a topic."""

    name: str
    serial: int
    logs: list[Log]

    @property
    def id(self) -> str:
        return id_of(self.serial)


class Kafka:
    """The broker.  The port's methods take a step; the methods for the world do not."""

    def __init__(self, hub: Hub, topics: dict[str, int]) -> None:
        self.hub = hub
        self.lives: list[Topic] = []
        self.names: list[str] = []
        self.topics: dict[str, Topic] = {}
        self.ids_hidden = False
        self.reasons: set[str] = set()
        self.shrunk: set[TopicPartition] = set()
        for name, partitions in topics.items():
            self.make(name, partitions)

    # --- the port -------------------------------------------------------------------------------------------------

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """See :class:`chsink.ports.KafkaCluster`."""
        self.hub.pause()
        return {t: None if self.ids_hidden else self.topics[t].id for t in sorted(topics)}

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """See :class:`chsink.ports.KafkaCluster`."""
        self.hub.pause()
        return [TopicPartition(t, p) for t in sorted(topics) for p in range(len(self.topics[t].logs))]

    def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See :class:`chsink.ports.KafkaCluster`."""
        self.hub.pause()
        return {tp: self.log(tp).start for tp in sorted(partitions)}

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See :class:`chsink.ports.KafkaCluster`."""
        self.hub.pause()
        return {tp: self.log(tp).end for tp in sorted(partitions)}

    # --- the world ------------------------------------------------------------------------------------------------

    def log(self, tp: TopicPartition) -> Log:
        """The partition's log as it is now; an empty one when a recreated topic has fewer partitions."""
        logs = self.topics[tp.topic].logs
        return logs[tp.partition] if tp.partition < len(logs) else Log()

    def all(self) -> list[TopicPartition]:
        """Every partition."""
        return [TopicPartition(t.name, p) for t in self.topics.values() for p in range(len(t.logs))]

    def make(self, name: str, partitions: int) -> None:
        """Create the topic, or delete it and create it anew."""
        topic = Topic(name, len(self.lives), [Log() for _ in range(partitions)])
        self.topics[name] = topic
        self.lives.append(topic)
        self.names.append(name)

    def recreate(self, name: str) -> None:
        """Delete the topic and make it again."""
        self.reasons.add("topic recreated")
        self.make(name, len(self.topics[name].logs))

    def add_partition(self, name: str) -> None:
        """One more."""
        self.topics[name].logs.append(Log())

    def produce(self, tp: TopicPartition) -> None:
        """Some records; a transaction's marker after them, or a whole transaction that is aborted."""
        log, random = self.log(tp), self.hub.random
        count = 1 + int(random.random() * 6)
        kind = random.random()
        if kind >= 0.15:
            self.append(tp, count)
        else:
            self.hub.counts["kafka aborted transaction"] += 1
            log.end += count
        log.end += kind < 0.4

    def append(self, tp: TopicPartition, count: int) -> None:
        """So many records."""
        log = self.log(tp)
        log.visible.extend(range(log.end, log.end + count))
        log.archive.extend(range(log.end, log.end + count))
        log.end += count

    def compact(self, tp: TopicPartition) -> None:
        """Some records are gone, their offsets stay."""
        log, random = self.log(tp), self.hub.random
        log.visible = [o for o in log.visible if random.random() < 0.5]
        log.archive = [o for o in log.archive if o < log.start] + log.visible
        self.reasons.add("compaction")

    def expire(self, tp: TopicPartition, to: int, *, lossy: bool) -> None:
        """Retention: the log now starts at ``to``.  ``lossy``: perhaps beyond what the sink has done."""
        log = self.log(tp)
        log.start = max(log.start, to)
        log.visible = log.between(log.start, log.end)
        self.reasons.add("records lost" if lossy else "retention")

    def shrink(self, tp: TopicPartition, to: int, *, unwatched: bool) -> None:
        """An unclean election: the log now ends at ``to``.  ``unwatched``: while no driver ran."""
        log = self.log(tp)
        log.start, log.end, log.cut = min(log.start, to), to, min(log.cut, to)
        log.visible = log.between(0, to)
        log.archive = [o for o in log.archive if o < to]
        if unwatched:
            self.shrunk.add(tp)
        self.reasons.add("log shrank")

    def held(self, tp: TopicPartition, topic_id: str | None, offsets: OffsetRange) -> list[int]:
        """Uids that the range of that life of the topic held, whatever became of them but compaction."""
        serial = self.topics[tp.topic].serial if topic_id is None else int(topic_id.removeprefix("id"))
        archive = self.log_of(tp, topic_id).archive
        return [uid_of(serial, tp.partition, o) for o in archive if offsets.start <= o < offsets.end]

    def log_of(self, tp: TopicPartition, topic_id: str | None) -> Log:
        """The partition's log in that life of its topic, in the present one where the id is not known."""
        topic = self.topics[tp.topic] if topic_id is None else self.lives[int(topic_id.removeprefix("id"))]
        return topic.logs[tp.partition]

    def kept(self, uid: int) -> bool:
        """Whether its topic still held the record at the end of that life: neither compaction nor retention took it, nor
        was its offset given to another record.
        """
        log, offset = self.lives[serial_of(uid)].logs[uid % SERIAL // PARTITION], uid % PARTITION
        return log.start <= offset < log.cut and offset in log.archive

    def alive(self, tp: TopicPartition, offsets: OffsetRange) -> list[int]:
        """Uids of what the range still holds."""
        serial = self.topics[tp.topic].serial
        return [uid_of(serial, tp.partition, o) for o in self.log(tp).between(offsets.start, offsets.end)]
