"""Who coordinates the mirror of a sink: the process that claimed last.

Rules:
- The claim is the note of an offset in a group of its own, written in a transaction of the coordinator's transactional
  id.  So only the newest coordinator can claim, and a process stays the owner until another one claims.
- A process checks the owner, claims, and then starts a coordinator: an older one does not take the mirror back.
- A process that finds another owner after its own claim ends.  One that was only fenced starts its coordinator
  again: Kafka also fences a producer that was suspended for longer than a transaction may last.
- A driver whose coordinator runs apart claims that it hands over, in the same way, by an id and a group for that.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Self

import structlog

from chsink.driver_name import driver_name
from chsink.errors import ChsinkError, fencing
from chsink.mirror.control import ControlUnanswered, Names
from chsink.mirror.ports import EventSender, GroupReader
from chsink.ports import Clock
from chsink.statemachine.ranges import TopicPartition


@dataclass(frozen=True, slots=True)
class CoordinatorClaim:
    """A claim: the ``epoch``-th, since ``since_ms``.  ``apart``: the process only coordinates."""

    driver: str
    epoch: int
    since_ms: int
    apart: bool = False

    def encode(self) -> str:
        """The note that is stored."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, note: str) -> Self | None:
        """The claim in a note; None for any other note."""
        try:
            found = json.loads(note)
            return cls(str(found["driver"]), int(found["epoch"]), int(found["since_ms"]), bool(found.get("apart")))
        except (ValueError, KeyError, TypeError):
            return None


def read_owner(names: Names, group: GroupReader | EventSender) -> CoordinatorClaim | None:
    """The current owner, from the owners' group.  Raises ``Unanswered``."""
    at = TopicPartition(names.topic, 0)
    return CoordinatorClaim.decode(group.notes([at])[at])


class Claims:
    """What one process claims: to coordinate the mirror, or to hand over (``names.driver_id``, ``names.driver_group``).
    ``what`` it does stands in the log.
    """

    def __init__(
        self,
        names: Names,
        place: tuple[str, str],
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
        *,
        what: str,
        apart: bool = False,
    ) -> None:
        self._names, (self._id, self._group) = names, place
        self._clock, self._log, self._what, self._apart = clock, log, what, apart
        self._driver = driver_name()
        self._before: CoordinatorClaim | None = None
        self._claimed: CoordinatorClaim | None = None
        self._gone = False
        self._owners = names.offsets(self._group)

    def claim(self) -> None:
        """Become the owner, if no newer process is.  Raises FencedError, and the outcomes of ``EventSender``."""
        self.check()
        with self._names.sender(self._id, self._group) as sender:
            before = read_owner(self._names, sender)  # every other claim has ended: its producer is fenced
            self._check(before)
            epoch = (0 if before is None else before.epoch) + 1
            claimed = CoordinatorClaim(self._driver, epoch, self._clock.now_ms(), self._apart)
            self._write(claimed, sender)
        self._before, self._claimed = before, claimed
        self._log.info(self._what, epoch=claimed.epoch, driver=claimed.driver)

    def check(self) -> None:
        """Raise FencedError if another process has claimed since; do nothing while Kafka does not answer."""
        with suppress(ControlUnanswered):
            found = read_owner(self._names, self._owners)
            self._gone = found is None
            if found != self._before:  # a claim becomes visible a little after it is made: until then, this one is read
                self._check(found)

    def renew(self, sender: EventSender) -> None:
        """If the last :meth:`check` found no claim, write this one again by the coordinator's producer: Kafka forgets
        the offset of a group without members a week after it was written.  Raises the outcomes of ``EventSender``.
        """
        if self._gone and self._claimed is not None:
            self._write(self._claimed, sender.beside(self._group))

    def close(self) -> None:
        """Release the connection."""
        self._owners.close()

    def _write(self, claim: CoordinatorClaim, sender: EventSender) -> None:
        sender.note = claim.encode()
        sender.send(self._what, [], {TopicPartition(self._names.topic, 0): claim.epoch})

    def _check(self, found: CoordinatorClaim | None) -> None:
        mine = self._claimed
        if mine is not None and found is not None and found.driver != mine.driver:
            raise self.taken(found)

    def taken(self, found: CoordinatorClaim) -> ChsinkError:
        """The error of a process that was replaced."""
        mine = self._claimed
        sink, owner = self._names.group.removeprefix("chsink-"), f"{found.driver}, epoch {found.epoch}"
        epoch = 0 if mine is None else mine.epoch
        return fencing.MIRROR_OWNED_BY_ANOTHER(sink=sink, owner=owner, driver=self._driver, epoch=epoch)
