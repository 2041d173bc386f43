"""The invariants of a world of replays: each record has at most one row, and each replay mark has a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tests.sim.clickhouse import LETTERS
from tests.sim.hub import Violation
from tests.sim.oracle import Consent

INVARIANTS = ("at_most_once", "mark_means_row", "token_is_content", "complete_at_rest", "halt_justified", "progress")


class Oracle:
    """Rows by table and uid.  Servers and store of :mod:`tests.sim` use it in place of a whole sink's oracle."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[str, int]] = Counter()
        self.marks: set[tuple[str, int]] = set()
        self.consented = Consent()

    def inserted(self, name: str, _topic: str, uids: Iterable[int], _shard: int) -> None:
        """Rows of a target table, or marks in the table of dead letters."""
        for uid in uids:
            if name == LETTERS:
                self._marked("db.t", uid)
                continue
            self.rows[name, uid] += 1
            if self.rows[name, uid] > 1:
                raise Violation("at_most_once", f"{name} has {uid} {self.rows[name, uid]} times")

    def marked(self, name: str, uid: int) -> None:
        """A mark was sent to the topic, where it stays: a second one says nothing new, also after a reset."""
        if (name, uid) not in self.marks:
            self._marked(name, uid)

    def _marked(self, name: str, uid: int) -> None:
        """A mark was stored."""
        if not self.rows[name, uid]:
            raise Violation("mark_means_row", f"{uid} is marked, and {name} does not have it")
        self.marks.add((name, uid))

    def deleted(self, name: str, uids: Iterable[int]) -> None:
        """A person deleted rows."""
        for uid in uids:
            self.rows[name, uid] -= 1

    def deduplicated(self, known: Iterable[int], uids: Iterable[int], label: str) -> None:
        """An insert was dropped for its token."""
        if not set(uids) <= set(known):
            raise Violation("token_is_content", f"{label} dropped other rows than it stands for")

    def stored(self, _before: Any, _row: Any) -> None:
        """State is not checked: the rows that land are."""

    def under(self, _consent: Consent) -> AbstractContextManager[None]:
        """Whose command a write is of says nothing here."""
        return nullcontext()

    def fed(self, _name: str, _uids: Iterable[int]) -> None:
        """Views: none."""

    def at_rest(self, wanted: Mapping[tuple[str, int], bool]) -> None:
        """``wanted``: by table and uid, whether there has to be a row."""
        missing = [f"{name} {uid}" for (name, uid), must in wanted.items() if must and not self.rows[name, uid]]
        if missing:
            raise Violation("complete_at_rest", f"not replayed: {', '.join(missing[:5])}")
