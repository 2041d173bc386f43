"""From a halt of the pure core to an error for users; and several halts as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from chsink.errors import ChsinkError, HaltError
from chsink.errors.catalogue import CATALOGUE
from chsink.errors.several import raise_all
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey
from chsink.statemachine.table import Decision, Halt


def halt_error(halt: Halt, tp: TopicPartition, detail: str) -> ChsinkError:
    """The catalogue's error for a halt of the pure core."""
    return CATALOGUE[halt.name](tp=tp, detail=detail)


class Halts:
    """Halts of single topic-partitions.  They are collected, so that one does not keep the others from being settled,
    and a person learns of all of them in one start.
    """

    def __init__(self) -> None:
        self._by_key: dict[StateKey, ChsinkError] = {}

    def __contains__(self, key: StateKey) -> bool:
        return key in self._by_key

    def add(self, key: StateKey, error: ChsinkError) -> None:
        """Remember the error, unless the topic-partition has one already."""
        self._by_key.setdefault(key, error)

    def decided(self, decisions: Mapping[StateKey, Decision]) -> None:
        """Remember the halts among the decisions."""
        for key, decision in decisions.items():
            if decision.halt is not None:
                self.add(key, halt_error(decision.halt, key.topic_partition, decision.detail))

    @contextmanager
    def of(self, key: StateKey) -> Iterator[None]:
        """Remember the HaltError that is raised inside."""
        try:
            yield
        except HaltError as error:
            self.add(key, error)

    def raise_all(self) -> None:
        """Raise all of them as one error, if there is any."""
        raise_all(list(self._by_key.values()))
