"""What exhaustive models have in common: the bounds of a world, what a search of it saw, and wrong variants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Rules = TypeVar("Rules")


@dataclass(frozen=True)
class Bounds:
    """Of a small world.  ``faults``: how often each may happen, ``any``: how many in all."""

    name: str
    about: str
    faults: Mapping[str, int]
    any: int


@dataclass(frozen=True, slots=True)
class Found:
    """A violation, and the way to it."""

    invariant: str
    what: str
    trace: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explored:
    """What a search saw.  ``states``: distinct ones; ``counts``: steps, faults and outcomes by name.  ``whole``: all of the
    world was seen.
    """

    world: str
    states: int
    counts: Counter[str]
    found: Found | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Control(Generic[Rules]):
    """``rules`` are wrong; ``invariant`` breaks in ``world``."""

    name: str
    rules: Rules
    world: str
    invariant: str

    def check(self, found: Found | None) -> None:
        """AssertionError unless this is what a search under these rules found."""
        assert found is not None, f"{self.name} survived in {self.world!r}"
        assert found.invariant == self.invariant, found
        assert found.trace[0] == "world: begins" and len(found.trace) > 3
