"""Tables of rules: the first rule whose condition holds decides.  Each table is total: its last rule always holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

Case = TypeVar("Case")
Verdict = TypeVar("Verdict")


class CommitHalt(StrEnum):
    """Why a person has to decide about the mirror."""

    CHAIN_DAMAGED = "CHAIN_DAMAGED"
    CHAIN_MISSING = "CHAIN_MISSING"
    CHOICE_CHANGED = "CHOICE_CHANGED"
    EVENTS_DAMAGED = "EVENTS_DAMAGED"
    FILES_GONE = "FILES_GONE"
    LOG_SHRANK = "LOG_SHRANK"
    RECORDS_GONE = "RECORDS_GONE"
    ROLLED_BACK = "ROLLED_BACK"
    ROWS_GONE = "ROWS_GONE"
    ROWS_FOUND = "ROWS_FOUND"
    TABLE_GONE = "TABLE_GONE"
    TABLE_RECREATED = "TABLE_RECREATED"
    TOPIC_RECREATED = "TOPIC_RECREATED"


@dataclass(frozen=True, slots=True)
class Rule(Generic[Case, Verdict]):
    """``when`` is ``holds`` in words; ``then`` says what follows from the verdict."""

    name: str
    when: str
    holds: Callable[[Case], bool]
    verdict: Verdict | CommitHalt
    then: str


def first(rules: tuple[Rule[Case, Verdict], ...], case: Case) -> Rule[Case, Verdict]:
    """The rule that decides the case."""
    return next(rule for rule in rules if rule.holds(case))
