"""Commands in messages, as they are to be typed: with the job file, unless it is the one that commands read by default,
and with the sink's name where that was given by ``--set``.  What is quoted in them may hold backticks.

Whoever copies a command must not reach another job that happens to lie in the current folder.  A process has one job.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

DEFAULT_CONFIG: Final = Path("job.toml")
_COMMAND: Final = re.compile(
    r"`(chsink (?!dev\b|init\b|jars\b|(?:state|dlq|mirror|sql|kafka)`)[a-z](?:'[^']*'|[^`'])*)`"
)
_given: Final[list[str]] = []


def remember_job(file: Path, sink: str | None = None) -> None:
    """The job file that this process was given, and the sink's name if it replaces the file's."""
    _given[:] = job_words(None if file == DEFAULT_CONFIG else str(file), sink)


def job_words(file: str | None, sink: str | None) -> list[str]:
    """What commands need to reach the job of this file, and the sink of this name if it replaces the file's."""
    return [*(() if file is None else ("-c", file)), *(() if sink is None else ("--set", f"sink.name={sink}"))]


def as_typed(text: str, words: Sequence[str] = _given) -> str:
    """The text with these words, by default those that name this process's job, in each of its commands."""
    more = "".join(f" {shlex.quote(word)}" for word in words)
    return _COMMAND.sub(lambda found: found[0] if " -c " in found[1] else f"`{found[1]}{more}`", text)
