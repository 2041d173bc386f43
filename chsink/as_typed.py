"""Commands in messages, as they are to be typed: with the job file, unless it is the one that commands read by default,
and with the sink's name where that was given by ``--set``.

Whoever copies a command must not reach another job that happens to lie in the current folder.  A process has one job.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

DEFAULT_CONFIG: Final = Path("job.toml")
_COMMAND: Final = re.compile(r"`(chsink (?!dev\b|init\b|jars\b|(?:state|dlq|mirror|sql|kafka)`)[a-z][^`]*)`")
_given: Final[list[str]] = []


def remember_job(file: Path, sink: str | None = None) -> None:
    """The job file that this process was given, and the sink's name if it replaces the file's."""
    _given[:] = [] if file == DEFAULT_CONFIG else ["-c", str(file)]
    _given.extend([] if sink is None else ["--set", f"sink.name={sink}"])


def as_typed(text: str) -> str:
    """The text with the job file in each of its commands."""
    more = "".join(f" {shlex.quote(word)}" for word in _given)
    return _COMMAND.sub(lambda found: found[0] if " -c " in found[1] else f"`{found[1]}{more}`", text)
