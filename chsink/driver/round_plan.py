"""What one round does: what was decided of the batch, and how much of it the round lands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chsink.statemachine import rounds
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import StateKey
from chsink.statemachine.rounds import Ranges
from chsink.statemachine.table import Decision, Facts, Worklist


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """``decisions`` of the whole batch, and ``taken``: the heads of its ``writes`` that this round announces.

    ``ranges`` are the batch's.  The round has a ``limit``, and its sends have ``seconds``.
    """

    ranges: Ranges
    keys: Mapping[TopicPartition, StateKey]
    facts: Mapping[TopicPartition, Facts]
    decisions: Mapping[TopicPartition, Decision]
    writes: Ranges
    taken: Ranges
    targets: rounds.ChunkTargets
    limit: rounds.Limit
    seconds: float

    @property
    def is_whole(self) -> bool:
        """Whether the batch is one round, of which Kafka still holds everything: its frame can be read."""
        expired = any((self.facts[tp].log_start or 0) > r.start for tp, r in self.ranges.items())
        return not expired and self.limit.holds(self.ranges, self.targets)

    def by_key(self) -> dict[StateKey, Decision]:
        """The decisions, by the keys of their state records."""
        return {self.keys[tp]: decision for tp, decision in self.decisions.items()}

    def steps(self) -> Worklist:
        """The steps of the round."""
        return Worklist(rounds.cut_writes(self.decisions, self.taken))

    def rest(self) -> dict[TopicPartition, OffsetRange]:
        """What is left for later rounds, empty ranges where nothing is."""
        return rounds.rest_of(self.ranges, self.writes, self.taken)
