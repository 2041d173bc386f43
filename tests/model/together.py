"""Every history of two ranges that travel in one insert (ADR 36): crashes, late inserts, and a range that cannot be read.

Two topic-partitions of few records are announced one after the other, as members of one group, and sent together under
the group's token.  A driver may die anywhere, and what it sent may be stored at any later time, or never.  One member may
become unreadable (its topic is gone, or a value does not fit), and a person may mend that or give the range up.  How
the next driver sends what is in doubt is a :data:`Rule`.

Invariants, for each state of all:
- No row is there twice.
- What is confirmed is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["none", "before", "after", "given up"]
Member = Literal["a", "b"]
Members = tuple[Member, ...]
BOTH: Members = ("a", "b")
CRASHES, TURNS = 3, 2
"""``TURNS``: how often a range becomes unreadable, and readable again."""


class Misled(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Range:
    """A member: ``token`` is what its record says it is sent under, ``rows`` how often the table has its rows."""

    phase: Phase = "none"
    token: str = ""
    rows: int = 0
    readable: bool = True


Insert = tuple[str, Members]
"""A token, and whose rows travel under it."""
Rule = Callable[["Halfway"], list[Insert]]
"""The inserts of a driver that finds the ranges of a state in doubt."""


@dataclass(frozen=True, slots=True)
class Halfway:
    """``way`` are inserts that may still be stored, ``stored`` the tokens that the table remembers.  ``waits`` is the
    insert that the living driver waits for, ``confirms`` what it has still to confirm.
    """

    a: Range = Range()
    b: Range = Range()
    way: frozenset[Insert] = frozenset()
    stored: frozenset[str] = frozenset()
    alive: bool = True
    waits: Insert | None = None
    confirms: Members = ()
    crashes: int = 0
    turns: int = 0

    def of(self, member: Member) -> Range:
        return self.a if member == "a" else self.b

    def having(self, member: Member, **changes: object) -> Halfway:
        changed = replace(self.of(member), **changes)  # type: ignore[arg-type]
        return replace(self, a=changed) if member == "a" else replace(self, b=changed)

    @property
    def in_doubt(self) -> Members:
        return tuple(m for m in BOTH if self.of(m).phase == "before")


def each_by_itself(state: Halfway) -> list[Insert]:
    """As if a range had a token of its own."""
    return [(f"own {m}", (m,)) for m in state.in_doubt if state.of(m).readable]


def those_that_can_be_read(state: Halfway) -> list[Insert]:
    """The readable members of a group, under its token."""
    return _groups(state, [m for m in state.in_doubt if state.of(m).readable])


def all_or_none(state: Halfway) -> list[Insert]:
    """All members of a group that are in doubt, under its token; none while one of them cannot be read."""
    blocked = {state.of(m).token for m in state.in_doubt if not state.of(m).readable}
    return _groups(state, [m for m in state.in_doubt if state.of(m).token not in blocked])


def _groups(state: Halfway, members: list[Member]) -> list[Insert]:
    tokens = dict.fromkeys(state.of(m).token for m in members)
    return [(token, tuple(m for m in members if state.of(m).token == token)) for token in tokens]


def nexts(state: Halfway, rule: Rule) -> Iterator[Halfway]:
    """All that may happen next."""
    if state.alive and state.crashes < CRASHES:
        yield replace(state, alive=False, waits=None, confirms=(), crashes=state.crashes + 1)
    if not state.alive:
        yield replace(state, alive=True)
    for insert in state.way:
        yield _stored(state, insert)
    if state.turns < TURNS and state.a.phase != "none":
        yield replace(state.having("a", readable=not state.a.readable), turns=state.turns + 1)
    if not state.alive and not state.a.readable and state.a.phase == "before":
        yield state.having("a", phase="given up")
    if state.alive and state.waits is None:
        yield from _steps(state, rule)


def _steps(state: Halfway, rule: Rule) -> Iterator[Halfway]:
    """What the living driver does: confirm, else settle, else announce, else send."""
    if state.confirms:
        member, *rest = state.confirms
        yield replace(state.having(member, phase="after"), confirms=tuple(rest))
    elif state.in_doubt and (state.crashes or all(state.of(m).phase != "none" for m in BOTH)):
        inserts = all_or_none(state) if not state.crashes else rule(state)
        for insert in inserts[:1]:
            yield replace(state, way=state.way | {insert}, waits=insert)
    else:
        announced = [m for m in BOTH if state.of(m).phase == "none"]
        for member in announced[:1]:
            yield state.having(member, phase="before", token="both" if not state.crashes else f"later {member}")


def _stored(state: Halfway, insert: Insert) -> Halfway:
    """The server stores the insert, or drops it as a duplicate, and answers."""
    token, members = insert
    now = replace(state, way=state.way - {insert}, stored=state.stored | {token})
    if token not in state.stored:
        for member in members:
            now = now.having(member, rows=now.of(member).rows + 1)
    return replace(now, waits=None, confirms=members) if state.waits == insert else now


def check(state: Halfway) -> None:
    """Raises :class:`Misled`."""
    for member in BOTH:
        found = state.of(member)
        if found.rows > 1:
            raise Misled(f"the rows of {member} are there twice")
        if found.phase == "after" and found.rows == 0:
            raise Misled(f"{member} is confirmed, and its rows are lost")


def explore(rule: Rule) -> set[Halfway]:
    """All states that can be reached; raises :class:`Misled` at the first one that breaks an invariant."""
    seen = {Halfway()}
    pending = [Halfway()]
    while pending:
        for state in nexts(pending.pop(), rule):
            if state not in seen:
                check(state)
                seen.add(state)
                pending.append(state)
    return seen
