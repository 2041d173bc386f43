"""What is wrong with a job file: an error of the catalogue, at a key, with the origin of the key's value.

All problems of a file are collected and reported together: no one should have to run a command once per typing error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from chsink.errors import ChsinkError, ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: ``key`` is dotted as in the file, empty when it is about the file itself."""

    id: str
    key: str
    message: str
    hint: str
    origin: str = ""

    def __str__(self) -> str:
        where = f" ({self.origin})" if self.origin else ""
        return f"{self.key}{where}: {self.message}" if self.key else f"{self.message}{where}"


class InvalidConfigError(ConfigError):
    """The configuration has ``problems`` (at least one).  ``id`` and ``hint`` are the first one's."""

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
    """The error of the catalogue, at a key."""
    return Problem(error.id, key, error.message, error.hint, origin)


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that was probably meant."""
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None
