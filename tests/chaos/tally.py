"""What the run did to the system and what came of it: printed at the end, so that the claim can be judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class MirrorCount:
    """What the checker found for an Iceberg table the last time; ``lost`` and ``surplus`` are those of all times."""

    records: int
    lost: int
    surplus: int
    snapshots: int


@dataclass(slots=True)
class Tally:
    """Counts of one run.  ``records``, ``lost`` and ``surplus`` sum over every sink that was judged, once each;
    ``letters`` are the dead letters of those that keep them, and lost or surplus ones count with the others.
    """

    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    letters: Counter[str] = field(default_factory=Counter)
    mirror: dict[str, MirrorCount] = field(default_factory=dict)
    lost: int = 0
    surplus: int = 0

    def killed(self, what: str) -> None:
        """One process was ended by SIGKILL."""
        self.kills[what] += 1

    def fired(self, what: str, times: int = 1) -> None:
        """A fault took effect; one that did not is an error of the test."""
        assert times > 0, f"{what} did not fire"
        self.faults[what] += times

    def judged(self, sink: str, records: int, lost: int, surplus: int) -> None:
        """What the checker found for a sink, replacing what it found before."""
        self.records[sink] = records
        self.lost += lost
        self.surplus += surplus

    def kept(self, sink: str, letters: int, lost: int, surplus: int) -> None:
        """What the checker found of a sink's dead letters, replacing what it found before."""
        self.letters[sink] = letters
        self.lost += lost
        self.surplus += surplus

    def mirrored(self, table: str, records: int, lost: int, surplus: int, snapshots: int) -> None:
        """What the checker found for an Iceberg table, replacing what it found before."""
        before = self.mirror.get(table, MirrorCount(0, 0, 0, 0))
        self.mirror[table] = MirrorCount(records, before.lost + lost, before.surplus + surplus, snapshots)

    def as_plain(self) -> dict[str, Any]:
        """Builtin types only, for another process."""
        names = ("kills", "faults", "records", "letters")
        counts = {name: dict(getattr(self, name)) for name in names}
        mirror = {table: astuple(found) for table, found in self.mirror.items()}
        return {**counts, "mirror": mirror, "lost": self.lost, "surplus": self.surplus}

    def add(self, plain: Mapping[str, Any]) -> None:
        """Counts of another process, as told by :meth:`as_plain`."""
        self.kills.update(plain["kills"])
        self.faults.update(plain["faults"])
        self.records.update(plain["records"])
        self.letters.update(plain["letters"])
        self.mirror |= {table: MirrorCount(*found) for table, found in plain["mirror"].items()}
        self.lost += plain["lost"]
        self.surplus += plain["surplus"]

    def lines(self) -> list[str]:
        """The closing note."""
        return [
            f"kills: {self.kills.total()} ({_listed(self.kills)})",
            f"faults: {self.faults.total()} ({_listed(self.faults)})",
            f"sinks: {len(self.records)}, records: {self.records.total()}",
            f"of these with dead letters: {len(self.letters)}, dead letters: {self.letters.total()}",
            f"lost: {self.lost}, duplicated: {self.surplus}",
            self._mirror_line(),
        ]

    def _mirror_line(self) -> str:
        found = self.mirror.values()
        records, lost, surplus, snapshots = (
            sum(getattr(count, name) for count in found) for name in ("records", "lost", "surplus", "snapshots")
        )
        return (
            f"mirror: tables: {len(found)}, records: {records}, lost: {lost}, duplicated: {surplus}, "
            f"snapshots: {snapshots}"
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {times}" for what, times in sorted(counts.items())) or "none"
