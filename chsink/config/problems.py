"""A problem of a job file: an error of the catalogue, at a key, with the origin of the key's value.

All problems of a file are reported together, so that a user need not run a command once per mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from chsink.errors import ChsinkError, ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.  ``key`` is dotted as in the file; empty if the problem concerns the file itself."""

    id: str
    key: str
    message: str
    hint: str
    origin: str = ""

    def __str__(self) -> str:
        where = f" ({self.origin})" if self.origin else ""
        return f"{self.key}{where}: {self.message}" if self.key else f"{self.message}{where}"


class InvalidConfigError(ConfigError):
    """The configuration has ``problems`` (at least one).  ``id`` and ``hint`` are those of the first problem."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        assert self.problems, "an error has a reason"
        first = self.problems[0]
        super().__init__(first.id, "\n".join(map(str, self.problems)), first.hint)

    def __str__(self) -> str:
        return "\n".join(f"[{problem.id}] {problem}\n  fix: {problem.hint}" for problem in self.problems)

    def __reduce__(self) -> tuple[type[InvalidConfigError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


def problem(key: str, error: ChsinkError, origin: str = "") -> Problem:
    """A problem: an error of the catalogue, at a key."""
    return Problem(error.id, key, error.message, error.hint, origin)


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is most similar to ``name``; None if none is similar."""
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None
