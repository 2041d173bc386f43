"""Users of the front: names, passwords, grants.

The embedded engine knows one session user, ``default``, and cannot impersonate another. So a front with users gives
each of them a role with their grants, and their sessions run with that role alone: what they may do is decided by the
engine (error 497), who they are by the front (error 516). What this cannot do: ``currentUser()`` and the engine's
messages say ``default``; users made by SQL do not exist (error 514); settings and their constraints are those of the
one profile, for all users. A user with grants of their own may not change the role, and the front refuses it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from chsink.embedded.clickhouse.exceptions import AUTHENTICATION_FAILED, refused

ALL: Final = ("GRANT ALL ON *.* WITH GRANT OPTION",)


@dataclass(frozen=True, slots=True)
class ClickHouseUser:
    """A user: ``grants`` are ``GRANT … ON …`` statements without ``TO``; none given means everything."""

    name: str
    password: str = ""
    grants: tuple[str, ...] = ALL

    @property
    def role(self) -> str:
        """The role that has the user's grants."""
        return f"front_{self.name}"

    @property
    def limited(self) -> bool:
        return self.grants != ALL


DEFAULT_USER: Final = ClickHouseUser("default")


class Users:
    """The users by name."""

    def __init__(self, users: Sequence[ClickHouseUser]) -> None:
        self._users: Mapping[str, ClickHouseUser] = {user.name: user for user in users or (DEFAULT_USER,)}

    def authenticate(self, name: str, password: str) -> ClickHouseUser:
        """The user; raises ClickHouseException 516 that does not tell an unknown name from a wrong password."""
        user = self._users.get(name)
        if user is None or not hmac.compare_digest(user.password.encode(), password.encode(errors="surrogateescape")):
            raise refused(
                AUTHENTICATION_FAILED,
                f"{name}: Authentication failed: password is incorrect, or there is no user with such name",
            )
        return user


def save(users: Sequence[ClickHouseUser], path: Path) -> None:
    """Write the users where only their owner reads them."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps([asdict(user) for user in users]), encoding="utf-8")


def load(path: Path) -> tuple[ClickHouseUser, ...]:
    """The users of a file written by ``save``."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    return tuple(ClickHouseUser(entry["name"], entry["password"], tuple(entry["grants"])) for entry in entries)
