"""Do the tasks' acknowledgements prove that what was assigned has landed?"""

from __future__ import annotations

from collections.abc import Sequence

from chsink.batch.model import Ack, Assigned
from chsink.errors import BadValueError, ChsinkError, FencedError, HaltError, PreflightError, UnavailableError
from statemachine.chunks import tiles
from statemachine.ranges import OffsetRange, TopicPartition

FAMILIES = {c.exit_code: c for c in (PreflightError, HaltError, FencedError, UnavailableError)}


def confirm(acks: Sequence[Ack], assignments: Sequence[Assigned]) -> None:
    """Check that the acks prove that every assigned range landed: each is tiled by offset, by one task.

    A task that saw no record cannot know its topic-partition: assigned ranges without an ack are accepted as empty only
    when at least as many tasks saw nothing.
    """
    for ack in acks:
        if ack.error is not None:
            error_id, message, hint, exit_code = ack.error
            family = BadValueError if error_id == "CHS-501" else FAMILIES.get(exit_code, ChsinkError)
            raise family(error_id, message, hint)
    owners: dict[TopicPartition, list[OffsetRange]] = {}
    for ack in acks:
        if ack.topic_partition is None:
            continue
        if ack.topic_partition in owners:
            raise _mixed(f"two tasks hold records of {ack.topic_partition}")
        owners[ack.topic_partition] = ack.covered
    silent = sum(ack.topic_partition is None for ack in acks)
    unseen = [a.topic_partition for a in assignments if a.topic_partition not in owners]
    if len(unseen) > silent:
        raise _mixed(f"no task answered for {', '.join(map(str, unseen))}")
    for assignment in assignments:
        covered = owners.get(assignment.topic_partition)
        if covered is not None and not tiles(assignment.range, covered):
            raise _mixed(f"the acknowledgements of {assignment.topic_partition} do not tile {assignment.range}")


def _mixed(what: str) -> PreflightError:
    return PreflightError(
        "CHS-602",
        f"{what}: one task must own each topic-partition, and read all of it",
        "remove minPartitions, maxRecordsPerPartition, repartition, coalesce, joins and sorts from the stream",
    )
