"""What the plan of ``chsink mirror resolve`` says of a topic-partition."""

from __future__ import annotations

import pytest

from chsink.mirror.resolve import LinkChange
from chsink.statemachine.commit.chain import Chain, Link
from chsink.statemachine.commit.resolve import Because, Resolved
from chsink.statemachine.ranges import OffsetRange, TopicPartition

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("given_up", "origin", "said"),
    [
        (OffsetRange(4, 9), 9, ("[4, 9)", 5, "[4, 9)")),  # all of it came before the table begins
        (OffsetRange(4, 9), 6, ("[4, 9)", 5, "[4, 6)")),
        (OffsetRange(4, 9), 0, ("[4, 9)", 5, None)),  # the table has begun: no backfill lands it
        (OffsetRange(4, 4), 9, (None, None, None)),
    ],
)
def test_how_much_is_given_up_and_what_a_backfill_can_land(
    given_up: OffsetRange, origin: int, said: tuple[str | None, int | None, str | None]
) -> None:
    chain = Chain(links={TP: Link("", origin, max(origin, 9))})
    decided = Resolved(chain, {}, {TP: Because.NEW}, {TP: given_up}, frozenset())
    plan = LinkChange("shop.orders", TP, None, decided, 9).as_dict()
    assert (plan["given_up"], plan["at_most"], plan["backfill"]) == said
