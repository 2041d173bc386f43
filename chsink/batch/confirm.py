"""Do the tasks' acknowledgements prove that what was assigned has landed?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chsink.batch.model import Ack, Assigned
from chsink.errors import AlteredError, ChsinkError, HaltError, halts, stream
from chsink.errors.catalogue import from_wire
from chsink.errors.several import several
from chsink.statemachine.chunks import tiles
from chsink.statemachine.ranges import OffsetRange, TopicPartition


def confirm(acks: Sequence[Ack], assignments: Sequence[Assigned]) -> dict[TopicPartition, ChsinkError]:
    """Check that the acks prove that every assigned range landed: each is tiled by offset, by one task.

    Returns the halts of topic-partitions, of whose ranges nothing is proven; all others have landed.  Any other error
    is raised.

    A task that saw no record cannot know its topic-partition: assigned ranges without an ack are accepted as empty only
    when at least as many tasks saw nothing.  Views that may lack rows are a halt once all else is there.
    """
    halted = _halted(acks, {a.topic_partition for a in assignments})
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
        if assignment.topic_partition in halted:
            continue
        if covered is not None and not tiles(assignment.range, covered):
            raise stream.NOT_TILED(tp=assignment.topic_partition, range=assignment.range)
    views = {ack.topic_partition: {v for c in ack.chunks for v in c.unproven} for ack in acks}
    for a in assignments:
        tp = a.topic_partition
        if tp not in halted and views.get(tp):
            halted[tp] = halts.VIEWS_DOUBTFUL(tp=tp, range=a.range, views=", ".join(sorted(views[tp])))
    return halted


def _first_of(errors: Sequence[ChsinkError]) -> ChsinkError:
    """The first one; of altered tables, with what every task found of them."""
    altered = [error for error in errors if isinstance(error, AlteredError)]
    if altered:
        altered[0].parts = tuple(altered) if len(altered) > 1 else ()
        return altered[0]
    return errors[0]


def _halted(acks: Sequence[Ack], assigned: Collection[TopicPartition]) -> dict[TopicPartition, ChsinkError]:
    """The halts that tasks report.  Raises if a task met another error, or the halt is of no assigned range."""
    halted: dict[TopicPartition, ChsinkError] = {}
    others: list[ChsinkError] = []
    for ack in acks:
        if ack.error is None:
            continue
        error = from_wire(*ack.error)
        tp = ack.topic_partition
        if isinstance(error, HaltError) and tp is not None and tp in assigned:
            halted[tp] = error
        else:
            others.append(error)
    if others:
        raise several(list(halted.values())) if halted else _first_of(others)
    return halted
