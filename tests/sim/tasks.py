"""Tasks of a simulated Spark job and their attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chsink.batch.model import Ack
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.sim.hub import Group

MAX_ATTEMPTS = 4


@dataclass(slots=True)
class Task:
    """One task of a job: its attempts, and the first answer.  ``exact``: it reads from Kafka, not from the batch."""

    number: int
    tp: TopicPartition
    range: OffsetRange
    exact: bool
    attempts: int = 0
    running: list[Group] = field(default_factory=list)
    ack: Ack | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task attempt that runs, on an executor of its own.  ``lost`` tells the driver that the executor died."""

    group: Group
    driver: Group
    lost: Callable[[], None]
