"""Users of an embedded server: names, passwords, grants.  ClickHouse itself knows them, by its ``users.xml``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ALL: Final = ("GRANT ALL ON *.* WITH GRANT OPTION",)
DEFAULT: Final = "default"
"""The user of clients that name none.  He has no password: the script that wakes the servers runs as him."""


@dataclass(frozen=True, slots=True)
class ClickHouseUser:
    """A user: ``grants`` are ``GRANT … ON …`` statements without ``TO``; none given means everything.

    With users of its own, a server gives ``default`` rights to data only if he is among them.
    """

    name: str
    password: str = ""
    grants: tuple[str, ...] = ALL

    def __post_init__(self) -> None:
        assert self.name != DEFAULT or not self.password, "the embedded server's default user has no password"


def save(users: Sequence[ClickHouseUser], path: Path) -> None:
    """Write the users where only their owner reads them."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps([asdict(user) for user in users]), encoding="utf-8")


def load(path: Path) -> tuple[ClickHouseUser, ...]:
    """The users of a file written by ``save``."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    return tuple(ClickHouseUser(entry["name"], entry["password"], tuple(entry["grants"])) for entry in entries)
