"""What exhaustive models have in common: the bounds of a world, a search's frame, what it saw, and wrong variants."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tests.sim.hub import Violation

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


@contextmanager
def searching(found: list[Found], trace: Callable[[], tuple[str, ...]]) -> Iterator[None]:
    """What is raised inside ends the search and is put into ``found``, with the steps before it."""
    collecting = gc.isenabled()
    gc.disable()  # states are immutable and kept: there is nothing to collect, and looking takes half of the time
    try:
        yield
    except Violation as broken:
        found.append(Found(broken.invariant, broken.what, trace()))
    except Exception as error:  # what production code raises without declaring it
        found.append(Found("no_defect", f"{type(error).__name__}: {error}", trace()))
    finally:
        if collecting:
            gc.enable()


@dataclass(frozen=True, slots=True)
class Explored:
    """What a search saw.  ``states``: distinct ones; ``counts``: steps, faults and outcomes by name.  ``whole``: all of the
    world was seen.
    """

    world: str
    states: int
    counts: Counter[str]
    found: Found | None = None
    whole: bool = field(kw_only=True)


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
