"""The last result of ``chsink verify``, kept in a file for those who look at the sink."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from chsink.errors.counts import counted


@dataclass(frozen=True, slots=True)
class LastVerify:
    """``at``: when it ended, ISO 8601 in UTC.  ``part``: the options that selected a part, "" for all of the sink.
    ``offsets`` were judged; ``differences`` counts them by category, without those of which there are none.
    """

    sink: str
    at: str
    ok: bool
    part: str
    offsets: int
    records: int
    rows: int
    differences: Mapping[str, int]

    @property
    def sentence(self) -> str:
        """For a person."""
        said = ", ".join(f"{count:,} {name}" for name, count in self.differences.items()) or "differences found"
        part = f" ({self.part})" if self.part else ""
        return f"{self.at}{part}: {counted(self.offsets, 'offsets')} judged, {'no difference' if self.ok else said}"

    def keep(self, file: Path) -> None:
        """Replace the file as a whole.  Raises OSError."""
        new = file.with_name(f"{file.name}.{os.getpid()}")
        try:
            new.write_bytes(msgspec.json.encode(self))
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)


def last_verify(file: Path | None, sink: str) -> LastVerify | None:
    """What the file holds of this sink; None if there is none, or it cannot be read."""
    if file is None:
        return None
    try:
        found = msgspec.json.decode(file.read_bytes(), type=LastVerify)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.sink == sink else None
