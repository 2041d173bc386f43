"""A changing ``table_by``: every history of small worlds, and variants of the rules that are found to be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from chsink.statemachine.choices import mixed_choices
from chsink.statemachine.records import StateRecord
from chsink.statemachine.table import choice_of
from tests.model.maps import BACK, COMING, TURNING, Broken, Rules, World, explore

pytestmark = pytest.mark.slow


@pytest.mark.soak
@pytest.mark.parametrize("world", [TURNING, COMING, BACK])
def test_each_record_is_where_one_map_wants_it_and_a_refusal_has_a_way_out(world: World) -> None:
    """⚑ Whatever the operator changes before a start, and wherever a driver dies."""
    assert explore(world) >= 10_000


def _without_since(record: StateRecord) -> StateRecord:
    return replace(record, table_by=replace(record.table_by, since=0))


def last_choice_only(records: Mapping[str, StateRecord], now: Mapping[str, str]) -> object:
    """As if a record did not say since when its choice holds: a table that is ahead may not change it now."""
    return mixed_choices({table: _without_since(record) for table, record in records.items()}, now)


def evenly(records: Mapping[str, StateRecord], now: Mapping[str, str]) -> object:
    """As if any difference between recorded and present choices had to find all tables at the same end."""
    same = all(choice_of(r.sent.pipeline) == choice_of(now.get(t, "")) for t, r in records.items() if r.sent.pipeline)
    return None if same or len({r.done for r in records.values() if not r.table_by.left}) < 2 else "refused"


@pytest.mark.parametrize(
    ("world", "rules", "found"),
    [
        (TURNING, Rules(mixed=lambda *_: None), "a record . at offset"),
        (TURNING, Rules(mixed=last_choice_only), r"a record y at offset 4 is in \[\]"),
        (COMING, Rules(mixed=evenly), "the map that ran last halts, too"),
        (COMING, Rules(leaves=False), "the change is never accepted|the map that ran last halts, too"),
        (COMING, Rules(joins=False), "a record|never accepted|halts, too"),
        (BACK, Rules(comes_back=False), r"a record . at offset . is in \['c'\]"),
    ],
    ids=["no check", "only the last choice is known", "all at one end", "none is left", "none joins", "left for good"],
)
def test_a_wrong_variant_is_found(world: World, rules: Rules, found: str) -> None:
    with pytest.raises(Broken, match=found):
        explore(world, rules)
