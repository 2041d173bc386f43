"""Reads a topic of dead letters: every committed message, from the first one to the current end.

Besides dead letters, the topic holds *replay marks* (:mod:`chsink.dlq.marks`).  Messages that are neither are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from chsink.dlq.digest import DIGEST, digest_of
from chsink.dlq.letters import DELETED_ID
from chsink.dlq.place import TRANSACTION_MS, LetterPlace, LettersTopic
from chsink.kafka.idle import Idle, next_messages
from chsink.statemachine.ranges import OffsetRange
from chsink.statemachine.records import StateKey

MARK: Final = "chsink.replayed"
"""The first header of a replay mark; its value is the nonce of the list."""
_WHY: Final = "__connect.errors.topic"
"""The first header that chsink adds to a dead letter, after the headers of the record."""
_MARKED: Final = {"chsink.sink", "chsink.table", "chsink.topic", "chsink.partition", "chsink.offset", DIGEST}
"""The other headers of a replay mark."""
_NEAR: Final = 5_000
"""Offsets that are at most this far apart are read together."""
_AT_ONCE: Final = 1_000
"""One call of the consumer returns at most so many messages."""
Heard = Callable[[int], None]
"""Called with the number of messages read since the last call."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter: the original record, and the headers that chsink added behind the record's own (``why``, by
    name).  ``partition`` and ``offset`` are those of the topic of dead letters.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    why: Mapping[str, str]

    @property
    def sink(self) -> str:
        """Which sink kept it."""
        return self.why["chsink.sink"]

    @property
    def place(self) -> LetterPlace:
        """Where its record was, and for which table."""
        return _place(self.why)

    @property
    def lists_deleted(self) -> bool:
        """Whether it lists offsets that Kafka deleted: there is no record."""
        return self.why["chsink.error_id"] == DELETED_ID

    @property
    def digest(self) -> str:
        """See :mod:`chsink.dlq.digest`."""
        return digest_of(self.timestamp_ms, self.key, self.value, self.headers)


@dataclass(frozen=True, slots=True)
class ReplayMark:
    """Says that the record of a dead letter (named by its place and ``digest``) has a row now, like all records of its
    list.  ``sink`` is the name of a sink's replays, ``nonce`` belongs to the list.
    """

    sink: str
    place: LetterPlace
    digest: str
    nonce: str


def held_in(
    place: LettersTopic,
    *,
    whole: bool = False,
    heard: Heard = lambda _: None,
    positions: dict[int, int] | None = None,
) -> Iterator[Letter | ReplayMark]:
    """The dead letters and replay marks of all sinks that the topic holds now.  ``positions`` say where to begin in
    each partition, and move on with what is read.

    An open transaction hides the messages behind it: with ``whole``, this waits until the transaction has ended.
    Raises KafkaException when Kafka stops answering, or the wait takes too long.
    """
    idle = Idle(place.timeout_s + (TRANSACTION_MS / 1000 if whole else 0))
    at = {} if positions is None else positions
    with closing(_consumer(place, idle)) as consumer:
        found = consumer.list_topics(place.topic, timeout=place.timeout_s).topics[place.topic]
        if found.error is not None:
            raise KafkaException(found.error)
        left = _ends(place, found.partitions) if whole else dict.fromkeys(found.partitions, 0)
        consumer.assign([ClientPartition(place.topic, p, at.get(p, 0)) for p in left])
        while left:
            messages = _next(consumer, idle)
            heard(len(messages))
            for message in messages:
                ended, partition, reached = _is_end(message), message.partition(), message.offset()
                assert partition is not None
                if ended:
                    if partition in left and (reached or 0) >= left[partition]:
                        del left[partition]
                else:
                    yield from _read(message)
                    at[partition] = (reached or 0) + 1


def letters_in(place: LettersTopic, *, whole: bool = False) -> Iterator[Letter]:
    """Only the dead letters of :func:`held_in`."""
    return (one for one in held_in(place, whole=whole) if isinstance(one, Letter))


def letters_at(place: LettersTopic, positions: Iterable[tuple[int, int]]) -> Iterator[Letter]:
    """The dead letters at these positions (partition and offset of the topic) that Kafka still holds.  Raises
    KafkaException when Kafka stops answering.
    """
    idle = Idle(place.timeout_s)
    with closing(_consumer(place, idle)) as consumer:
        for partition, offsets in _runs(sorted(set(positions))):
            consumer.assign([ClientPartition(place.topic, partition, offsets[0])])
            yield from _run(consumer, idle, offsets)


def _run(consumer: Consumer, idle: Idle, offsets: Sequence[int]) -> Iterator[Letter]:
    """The dead letters at these offsets of the assigned partition, by one pass from the first offset to the last."""
    wanted = set(offsets)
    while True:
        for message in _next(consumer, idle):
            ended, reached = _is_end(message), message.offset()
            assert reached is not None
            if not ended and reached in wanted:
                yield from (one for one in _read(message) if isinstance(one, Letter))
            if ended or reached >= offsets[-1]:
                return


def _runs(positions: Sequence[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Groups of offsets of one partition that are close to each other, ascending."""
    run: list[int] = []
    for at, (partition, offset) in enumerate(positions):
        run.append(offset)
        following = positions[at + 1] if at + 1 < len(positions) else (-1, 0)
        if following[0] != partition or following[1] - offset > _NEAR:
            yield partition, run
            run = []


def _next(consumer: Consumer, idle: Idle) -> list[Message]:
    """The next messages, if some came.  Raises KafkaException if nothing has been read for too long."""
    if messages := next_messages(consumer, _AT_ONCE):
        idle.ended()
    elif idle.too_long():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return messages


def _consumer(place: LettersTopic, idle: Idle, isolation: str = "read_committed") -> Consumer:
    own = {"group.id": place.group, "enable.auto.commit": False, **idle.options}
    common = {"fetch.wait.max.ms": 50, **place.options, **own}
    reading = {"enable.partition.eof": True, "isolation.level": isolation, "auto.offset.reset": "earliest"}
    return Consumer({**common, **reading})


def _ends(place: LettersTopic, partitions: Iterable[int]) -> dict[int, int]:
    """The ends of the partitions.  A ``read_committed`` consumer would be given the start of an open transaction."""
    with closing(_consumer(place, Idle(place.timeout_s), "read_uncommitted")) as consumer:
        asked = {p: ClientPartition(place.topic, p) for p in partitions}
        return {p: consumer.get_watermark_offsets(each, place.timeout_s)[1] for p, each in asked.items()}


def _is_end(message: Message) -> bool:
    """Whether this message marks the current end of a partition.  Raises KafkaException for an error."""
    error = message.error()
    if error is not None and error.name() != "_PARTITION_EOF":
        raise KafkaException(error)
    return error is not None


def _read(message: Message) -> Iterator[Letter | ReplayMark]:
    """The dead letter or replay mark in this message; nothing if it is neither."""
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    starts = [i for i, (name, _) in enumerate(headers) if name == _WHY]
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    if starts:
        why = _texts(headers[starts[-1] :])
        if "chsink.nonce" in why:
            key, value = message.key(), message.value()
            time_ms, original = int(why["chsink.timestamp_ms"]), tuple(headers[: starts[-1]])
            yield Letter(partition, offset, key, value, time_ms, original, why)
    elif headers and headers[0][0] == MARK and (said := _texts(headers)).keys() >= _MARKED:
        yield ReplayMark(said["chsink.sink"], _place(said), said[DIGEST], said[MARK])


def _texts(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers}


def _place(said: Mapping[str, str]) -> LetterPlace:
    return LetterPlace(
        said["chsink.topic"], int(said["chsink.partition"]), int(said["chsink.offset"]), said["chsink.table"]
    )


def delivered_until(place: LettersTopic, key: StateKey, nonce: str, offsets: OffsetRange) -> int | None:
    """Up to which offset the dead letters of a range were delivered under this nonce, judging by the last one in the
    topic; None if the topic holds none of them.
    """
    wanted = (key.sink, key.table, key.topic, str(key.partition), nonce)
    names = ("chsink.sink", "chsink.table", "chsink.topic", "chsink.partition", "chsink.nonce")
    found = (
        int(letter.why["chsink.offset"])
        for letter in letters_in(place, whole=True)
        if tuple(letter.why.get(name) for name in names) == wanted and letter.lists_deleted is place.lists_deleted
    )
    return max((offset + 1 for offset in found if offsets.start <= offset < offsets.end), default=None)
