"""From a halt of the pure core, or a query without an answer, to an error for users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chsink.errors import ChsinkError, services
from chsink.errors.catalogue import CATALOGUE
from chsink.ports import ServerRefused, Unanswered
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.table import Halt


def halt_error(halt: Halt, tp: TopicPartition, detail: str) -> ChsinkError:
    """The catalogue's error for a halt of the pure core."""
    return CATALOGUE[halt.name](tp=tp, detail=detail)


@contextmanager
def asking_target() -> Iterator[None]:
    """A question to the target that gets no answer is an error for users like any other."""
    try:
        yield
    except (Unanswered, ServerRefused) as error:
        raise services.TARGET_UNANSWERED(error=error) from error
