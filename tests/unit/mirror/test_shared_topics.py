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


def test_a_table_that_left_does_not_tell_which_map_was_in_force() -> None:
    """⚑ It is still a target of another topic.  A table that stayed seemed new, and began behind what waited for it."""
    left, present = Sharing("left", frozenset({"s0", "s1"})), Sharing("present", frozenset({"s1", "s2"}))
    stored = {"s0": StoredShare(left, 0, 0), "s1": StoredShare(present, 5, 1), "s2": StoredShare(present, 5, 0)}
    other = SimpleNamespace(topics={"u"}, sharing={"u": OTHER})
    mine = SimpleNamespace(topics={"t"}, sharing={"t": present})
    topics = SharedTopics(cast(Any, SimpleNamespace(targets={"s0": other, "s1": mine, "s2": mine})), added_now=False)
    reads = {
        name: (SimpleNamespace(view=SimpleNamespace(shared={TP: share})), Chain(links={TP: Link("id", 0, 9, choice)}))
        for name, share in stored.items()
        for choice in [share.sharing.choice]
    }

    places = topics.places([TP], cast(Any, reads), {TP: ""})[TP]

    assert {name: place.joins for name, place in places.items()} == {"s1": False, "s2": False}


@pytest.mark.parametrize("sharing", [{"t": MINE}, {}])
def test_tables_that_replace_all_others_are_for_a_person(sharing: dict[str, Sharing]) -> None:
    """⚑ With ``added_tables = "now"``, they began at the group's offset, and what waited for the others was in none; nor
    were the first records of a topic that had been created again.
    """
    target = SimpleNamespace(topics={"t"}, sharing=sharing)
    topics = SharedTopics(cast(Any, SimpleNamespace(targets={"s0": target, "s1": target})), added_now=True)
    read = (SimpleNamespace(view=SimpleNamespace(uuid="u", shared={})), Chain())

    places = topics.places([TP], cast(Any, {"s0": read, "s1": read}), {TP: ""})[TP]

    assert not any(place.joins for place in places.values())
