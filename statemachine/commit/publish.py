"""Whether the main branch may be moved to a snapshot of the mirror's own branch: only forward.

The lineage of a snapshot is the snapshot with its ancestors.  Main moves only to a snapshot whose lineage holds main's
own head, so nothing that a reader of main has seen goes away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chsink.statemachine.commit.rules import Rule, first


class Publish(StrEnum):
    """What happens to the main branch."""

    MOVE = "move"
    NOTHING = "nothing"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class BranchView:
    """``lineage`` is that of the snapshot to publish, ``main`` that of main's head: newest first, as far as their
    snapshots are there.  ``on_branch``: the mirror's branch has the snapshot to publish.
    """

    lineage: tuple[int, ...]
    main: tuple[int, ...]
    on_branch: bool = True


PUBLISH: tuple[Rule[BranchView, Publish], ...] = (
    Rule(
        "EMPTY",
        "the branch has no snapshot",
        lambda x: not x.lineage,
        Publish.NOTHING,
        "nothing",
    ),
    Rule(
        "NOT_THERE",
        "the branch does not have the snapshot",
        lambda x: not x.on_branch,
        Publish.REFUSE,
        "refuse",
    ),
    Rule(
        "PUBLISHED",
        "it is main's head, or an ancestor of it",
        lambda x: x.lineage[0] in x.main,
        Publish.NOTHING,
        "nothing",
    ),
    Rule(
        "FIRST",
        "main has no snapshot",
        lambda x: not x.main,
        Publish.MOVE,
        "main begins at the snapshot",
    ),
    Rule(
        "FORWARD",
        "main's head is an ancestor of it",
        lambda x: x.main[0] in x.lineage,
        Publish.MOVE,
        "main moves to the snapshot",
    ),
    Rule(
        "DIVERGED",
        "the two have an ancestor in common",
        lambda x: not set(x.main).isdisjoint(x.lineage),
        Publish.REFUSE,
        "refuse: others committed to main",
    ),
    Rule(
        "UNSEEN",
        "otherwise: snapshots between them have expired",
        lambda _: True,
        Publish.REFUSE,
        "refuse: nothing shows whether main's head is an ancestor of it",
    ),
)


def decide_publish(view: BranchView) -> Rule[BranchView, Publish]:
    """The rule that decides."""
    return first(PUBLISH, view)
