"""Wrong variants of the commit machine: the model must find each by a named invariant, or it proves nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from chsink.statemachine.commit import chain, handover, plan, units
from chsink.statemachine.commit.chain import Chain, Link, Links, Reading, TableView
from chsink.statemachine.commit.handover import Beginning, HandOver
from chsink.statemachine.commit.plan import TablePlan
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.commit.units import Unit, UnitPart
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from tests.mirror_model.rules import Rules, begin_whole
from tests.model.explored import Control


def _taking(view: TableView, held: Chain, found: Iterable[Unit], below: int, beyond: int) -> TablePlan:
    """Units are taken up to so far from ``until``; each unit once."""
    links, taken = dict(held.links), []
    for unit in sorted(found, key=lambda u: (u.head.tp, *u.order)):
        link = links[unit.head.tp]
        if unit.whole and link.until - below <= unit.range.start <= link.until + beyond and unit.range.end > link.until:
            taken.append(unit)
            links[unit.head.tp] = replace(link, until=unit.range.end)
    return TablePlan(tuple(taken), links=links)


def _everything(view: TableView, held: Chain, found: Iterable[Unit]) -> TablePlan:
    """Whatever was read and not yet committed by this coordinator; ``until`` is the largest end."""
    taken, links = tuple(found), dict(held.links)
    for unit in taken:
        link = links[unit.head.tp]
        links[unit.head.tp] = replace(link, until=max(link.until, unit.range.end))
    return TablePlan(taken, links=links)


def _straddling(view: TableView, held: Chain, found: Iterable[Unit]) -> TablePlan:
    return _taking(view, held, found, below=9, beyond=0)


def _ahead(view: TableView, held: Chain, found: Iterable[Unit]) -> TablePlan:
    return _taking(view, held, found, below=0, beyond=9)


def _in_part(parts: Iterable[UnitPart]) -> tuple[Unit, ...]:
    """A unit counts with its first part."""
    return tuple(replace(unit, whole=True) for unit in units.assemble(parts))


def _whole_plan(planned: OffsetRange, committed: int | None) -> HandOver:
    """The group is not looked at."""
    return HandOver("planned", (planned,))


def _no_earlier(planned: OffsetRange, committed: int | None) -> HandOver:
    """What lies between the group and the plan is left out."""
    decided = handover.hand_over(planned, committed)
    return replace(decided, ranges=decided.ranges[-1:])


def _by_property(view: TableView) -> Reading:
    """The property is believed whatever happened to the table."""
    return Reading("property", view.stored) if view.stored else chain.read_chain(view)


def _no_expiry(view: TableView) -> Reading:
    """A snapshot that is not in the lineage means a rollback."""
    reading = chain.read_chain(view)
    return Reading("", None, CommitHalt.ROLLED_BACK) if reading.because == "EXPIRED" else reading


def _any_topic(view: TableView, held: Chain, found: Iterable[Unit]) -> TablePlan:
    """Units of another topic of the same name."""
    named = [replace(u, head=replace(u.head, topic_id=held.links[u.head.tp].topic_id)) for u in found]
    return plan.plan_commit(view, held, named)


def _begin_any_topic(topic_id: str, committed: int | None, links: Iterable[Link | None], starting: int) -> Beginning:
    return begin_whole(topic_id, committed, [link and replace(link, topic_id=topic_id) for link in links], starting)


def _begin_at_the_plan(topic_id: str, committed: int | None, links: Iterable[Link | None], starting: int) -> Beginning:
    """A group without offset starts at the starting offset, whatever tables hold."""
    known = list(links)
    if committed is None and None not in known:
        return Beginning("fresh", group=starting)
    return begin_whole(topic_id, committed, known, starting)


def _beyond_waiting(read: Mapping[int, int], waiting: Iterable[Unit], stored: Mapping[int, int]) -> dict[int, int]:
    """Whatever was read is forgotten."""
    return dict(read)


def _eager_holes(
    links: Links, waiting: Iterable[Unit], handed_over: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetRange]:
    """Units at hand are not looked at."""
    return plan.holes(links, (), handed_over)


def _skipping(*rules: str) -> Rules:
    return Rules(skip=frozenset(rules))


CONTROLS = (
    Control("a commit does not require the head", _skipping("head requirement"), "two coordinators", "at_most_once"),
    Control("no chain", Rules(plan_commit=_everything), "two coordinators", "at_most_once"),
    Control("a straddling unit is taken", Rules(plan_commit=_straddling), "group set back", "at_most_once"),
    Control("a unit ahead is taken", Rules(plan_commit=_ahead), "control topic lost", "chain_is_content"),
    Control("half a unit is taken", Rules(assemble=_in_part), "split units", "chain_is_content"),
    Control("empty units leave no trace", _skipping("empty units move"), "two coordinators", "nothing_forgotten"),
    Control("holes are not read again", _skipping("holes"), "control topic lost", "complete_at_rest"),
    Control(
        "the control topic's end is asked before the group",
        _skipping("group before end"),
        "control topic lost",
        "repair_justified",
    ),
    Control("what was read is forgotten", Rules(low_watermark=_beyond_waiting), "two tables", "nothing_forgotten"),
    Control(
        "a first coordinator begins at the latest event", _skipping("never latest"), "attempts", "nothing_forgotten"
    ),
    Control(
        "an unknown commit is taken for applied",
        _skipping("unknown is not applied"),
        "two coordinators",
        "nothing_forgotten",
    ),
    Control("no fencing of workers", _skipping("fencing"), "attempts", "group_follows"),
    Control("the group is read before fencing", _skipping("read after fencing"), "attempts", "group_follows"),
    Control("the plan is not cropped", Rules(hand_over=_whole_plan), "attempts", "group_follows"),
    Control("a gap before the plan is left out", Rules(hand_over=_no_earlier), "attempts", "group_follows"),
    Control(
        "the offset is stored outside the transaction", _skipping("one transaction"), "attempts", "repair_justified"
    ),
    Control(
        "the property is believed after a rollback", Rules(read_chain=_by_property), "rolled back", "complete_at_rest"
    ),
    Control("expiry is taken for a rollback", Rules(read_chain=_no_expiry), "other writers", "halt_justified"),
    Control(
        "a topic is known by its name",
        Rules(plan_commit=_any_topic, begin=_begin_any_topic),
        "topic recreated",
        "chain_is_content",
    ),
)
