"""What can be wrong with a configuration, and how it is said.

A problem names the key, where its value came from, and the fix.  All problems of a file are collected and reported
together: a person should not have to run a command once per typing error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pydantic_core import PydanticCustomError

from chsink.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

UNREADABLE = "CHS-101"
UNKNOWN_KEY = "CHS-102"
MISSING_KEY = "CHS-103"
WRONG_VALUE = "CHS-104"
RESERVED = "CHS-105"
CONTRADICTION = "CHS-106"
PLAIN_CREDENTIAL = "CHS-107"
UNRESOLVED_REFERENCE = "CHS-108"
UNTRANSLATABLE = "CHS-109"
NO_CHECKPOINT = "CHS-110"

MEANINGS = {
    UNREADABLE: "the job file cannot be read as TOML",
    UNKNOWN_KEY: "a key that does not exist",
    MISSING_KEY: "a required key is missing",
    WRONG_VALUE: "a value of the wrong type, or not among those allowed",
    RESERVED: "an option that chsink sets itself, because the promise rests on it",
    CONTRADICTION: "keys that contradict each other",
    PLAIN_CREDENTIAL: "a credential written into the job file",
    UNRESOLVED_REFERENCE: "a reference to an environment variable or file that is not there",
    UNTRANSLATABLE: "a Kafka client property that chsink's own Kafka client cannot be given",
    NO_CHECKPOINT: "`sink.checkpoint` is missing, which running needs",
}


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

    def as_dict(self) -> dict[str, str]:
        """The problem for a machine."""
        return asdict(self)


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


def refusal(id: str, message: str, hint: str) -> PydanticCustomError:
    """What a validator raises: pydantic carries it, with the place, to :func:`chsink.config.build.problems_of`."""
    return PydanticCustomError(id, "{message}", {"message": message, "hint": hint})


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that was probably meant."""
    by_folded = {candidate.casefold(): candidate for candidate in candidates}
    found = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None
