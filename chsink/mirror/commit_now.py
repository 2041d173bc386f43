"""Asks the coordinator that runs to commit at once, and waits until it has.

The request and the coordinator's events have one key, so they lie in one partition of the control topic, in their
order: a round whose StartCommit follows the request began after it.  It commits all that was handed over before.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

from chsink.errors import services
from chsink.mirror.control import Names
from chsink.mirror.coordinator import KEY
from chsink.mirror.events import NOW, CommitComplete, CommitToTable, DamagedEvent, Event, StartCommit, decode, encode
from chsink.mirror.known_tables import KnownTables
from chsink.mirror.opening import OpenMirror

POLL_S = 0.2


@dataclass
class _Rounds:
    """What was read since the request.  ``began``: rounds that began after it.  ``snapshots``: by table, the newest."""

    asked: uuid.UUID
    seen: bool = False
    began: set[uuid.UUID] = field(default_factory=set)
    snapshots: dict[str, int | None] = field(default_factory=dict)
    done: bool = False

    def take(self, event: Event) -> None:
        match event.payload:
            case StartCommit(commit_id) if commit_id != NOW:
                if self.seen:
                    self.began.add(commit_id)
            case CommitToTable() as told:
                name = ".".join((*told.table.namespace, told.table.name))
                self.snapshots[name] = told.snapshot_id if self.seen else self.snapshots.get(name)
            case CommitComplete(commit_id):
                self.done = self.done or commit_id in self.began
            case _:
                self.seen = self.seen or event.id == self.asked


def commit_now(mirror: OpenMirror, wait_s: float) -> dict[str, int | None]:
    """By table, the newest snapshot that was made meanwhile, None where there was nothing new.  Returns once the tables
    hold what had been handed over; a hole takes more than one round.

    Raises services.MIRROR_NO_ANSWER after ``wait_s``, ``Halted``, and the outcomes of :mod:`chsink.mirror.control`.
    """
    give_up, snapshots = monotonic() + wait_s, dict.fromkeys(mirror.targets)
    with closing(mirror.names.offsets()) as group:
        reached = group.committed(mirror.kafka.partitions(mirror.config.mirror.topics))
    known = KnownTables(mirror.targets, mirror.names.topic)
    while True:
        for name, snapshot in _round(mirror.names, give_up, wait_s).items():
            snapshots[name] = snapshot
        for name, target in mirror.targets.items():
            if target.table.load() is not None:  # one may wait for its topic's first record
                known.read(name)
        if not any(
            at is not None and links[tp].until < at
            for links in known.links.values()
            for tp, at in reached.items()
            if tp in links
        ):
            return {name: snapshots[name] for name in mirror.targets}


def ask(names: Names) -> uuid.UUID:
    """Ask the coordinator for a round at once; returns the request's id.  Others may ask at the same time.

    Raises ``NotSent``, ``ControlUnanswered``.
    """
    asked = Event(uuid.uuid4(), datetime.now(UTC), names.group, StartCommit(NOW))
    names.tell(KEY, encode(asked))
    return asked.id


def _round(names: Names, give_up: float, wait_s: float) -> dict[str, int | None]:
    """Ask for a round and wait until it has ended; by table, the newest snapshot since."""
    with closing(names.reader()) as reader:
        reader.read_from({number: end for number, (_, end) in reader.logs().items()})
        rounds = _Rounds(ask(names))
        while not rounds.done:
            if monotonic() >= give_up:
                began = "a round began and did not end" if rounds.began else "no round began"
                raise services.MIRROR_NO_ANSWER(seconds=f"{wait_s:.0f}", began=began)
            for _, _, value in reader.poll(POLL_S):
                try:
                    event = decode(value)
                except DamagedEvent:
                    continue
                if event is not None and event.group_id == names.group:
                    rounds.take(event)
        return {name: snapshot for name, snapshot in rounds.snapshots.items() if snapshot is not None}
