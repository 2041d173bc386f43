"""Do the tasks' acknowledgements prove that what was assigned has landed?"""

from __future__ import annotations

from collections.abc import Sequence

from chsink.batch.model import Ack, Assigned
from chsink.errors import stream
from chsink.errors.catalogue import from_wire
from statemachine.chunks import tiles
from statemachine.ranges import OffsetRange, TopicPartition


def confirm(acks: Sequence[Ack], assignments: Sequence[Assigned]) -> None:
    """Check that the acks prove that every assigned range landed: each is tiled by offset, by one task.

    A task that saw no record cannot know its topic-partition: assigned ranges without an ack are accepted as empty only
    when at least as many tasks saw nothing.
    """
    for ack in acks:
        if ack.error is not None:
            name, params = ack.error
            raise from_wire(name, params)
    owners: dict[TopicPartition, list[OffsetRange]] = {}
    for ack in acks:
        if ack.topic_partition is None:
            continue
        if ack.topic_partition in owners:
            raise stream.TWO_TASKS(tp=ack.topic_partition)
        owners[ack.topic_partition] = ack.covered
    silent = sum(ack.topic_partition is None for ack in acks)
    unseen = [a.topic_partition for a in assignments if a.topic_partition not in owners]
    if len(unseen) > silent:
        raise stream.NO_TASK(tps=", ".join(map(str, unseen)))
    for assignment in assignments:
        covered = owners.get(assignment.topic_partition)
        if covered is not None and not tiles(assignment.range, covered):
            raise stream.NOT_TILED(tp=assignment.topic_partition, range=assignment.range)
