"""Do the tasks' acknowledgements prove that what was assigned has landed?"""

from __future__ import annotations

from collections.abc import Sequence

from chsink.batch.model import Ack, Assigned
from chsink.errors import halts, stream
from chsink.errors.catalogue import from_wire
from chsink.statemachine.chunks import tiles
from chsink.statemachine.ranges import OffsetRange, TopicPartition


def confirm(acks: Sequence[Ack], assignments: Sequence[Assigned]) -> None:
    """Check that the acks prove that every assigned range landed: each is tiled by offset, by one task.

    A task that saw no record cannot know its topic-partition: assigned ranges without an ack are accepted as empty only
    when at least as many tasks saw nothing.  Views that may lack rows are a halt once all else is there.
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
    views = {ack.topic_partition: {v for c in ack.chunks for v in c.unproven} for ack in acks}
    doubtful = [a for a in assignments if views.get(a.topic_partition)]
    if doubtful:
        raise halts.VIEWS_DOUBTFUL(
            ranges=", ".join(f"{a.topic_partition} {a.range}" for a in doubtful),
            views=", ".join(sorted(set().union(*(views[a.topic_partition] for a in doubtful)))),
        )
