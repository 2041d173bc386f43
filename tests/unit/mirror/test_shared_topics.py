"""What tables that share a topic store of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from chsink.mirror.shared_topics import SharedTopics
from chsink.statemachine.commit.chain import Chain, Link, Sharing, StoredShare
from chsink.statemachine.ranges import TopicPartition

TP = TopicPartition("t", 0)
MINE, OTHER = Sharing("mine", frozenset({"s0", "s1"})), Sharing("other", frozenset({"s1", "s2"}))


@pytest.mark.parametrize(
    ("stored", "since", "expected"),
    [
        (None, 4, StoredShare(MINE, 4, 7)),
        (StoredShare(OTHER, 0, 0), 4, StoredShare(MINE, 4, 7)),
        (StoredShare(MINE, 0, 0), 4, None),
        (StoredShare(MINE, 0, 0), 9, StoredShare(MINE, 9, 7)),
    ],
)
def test_a_table_that_joins_again_begins_behind_what_others_took(
    stored: StoredShare | None, since: int, expected: StoredShare | None
) -> None:
    """⚑ ``table_by`` was changed and changed back: the table took again what the others had divided meanwhile."""
    target = SimpleNamespace(sharing={"t": MINE})
    topics = SharedTopics(cast(Any, SimpleNamespace(targets={"s0": target})), added_now=False)
    read = SimpleNamespace(view=SimpleNamespace(shared={} if stored is None else {TP: stored}))
    chain = Chain(links={TP: Link("id", 0, 4, "mine")}, sequence=7)

    found = topics.lacking("s0", {TP: since}, cast(Any, read), chain)

    assert found == ({} if expected is None else {TP: expected})
