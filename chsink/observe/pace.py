"""How fast a table catches up: what ``chsink run``, ``chsink status --watch`` and the status page share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from chsink.errors.counts import counted
from chsink.statemachine.records import TopicTable

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS: Final = ("topic", "table", "landed/s", "produced/s", "lag", "oldest", "caught up in", "in doubt")


@dataclass(frozen=True, slots=True)
class TableSpeed:
    """One topic and table.  Rates are offsets per second, ``lag`` is in offsets, ``lag_s`` the age in seconds of the
    oldest record that is missing.  ``left_s`` counts the seconds until the lag is gone at this speed, None if the lag
    does not shrink.  None also stands for what is not known.  ``in_doubt`` counts partitions.
    """

    topic: str
    table: str
    landed_per_s: float | None
    produced_per_s: float | None
    lag: int | None
    lag_s: float | None
    left_s: float | None
    in_doubt: int


@dataclass(frozen=True, slots=True)
class TableState:
    """Of all partitions of a topic, for one table: their ends added up, and what :class:`TableSpeed` says of now."""

    end: int = 0
    lag: int | None = 0
    lag_s: float | None = None
    in_doubt: int = 0


def speed_of(name: TopicTable, old: TableState | None, now: TableState, seconds: float) -> TableSpeed:
    """The speed between two looks that are ``seconds`` apart."""
    if old is None or now.end < old.end or seconds <= 0:  # the first look, or a reset in between
        return TableSpeed(*name, None, None, now.lag, now.lag_s, None, now.in_doubt)
    landed = (now.end - old.end) / seconds
    if now.lag is None or old.lag is None:
        return TableSpeed(*name, landed, None, now.lag, now.lag_s, None, now.in_doubt)
    produced = max(0.0, (now.end + now.lag - old.end - old.lag) / seconds)
    shrinks = landed - produced
    left = 0.0 if not now.lag else now.lag / shrinks if shrinks > 0 else None
    return TableSpeed(*name, landed, produced, now.lag, now.lag_s, left, now.in_doubt)


# --- words ------------------------------------------------------------------------------------------------------------


def words(speed: TableSpeed) -> Iterator[str]:
    """One line of a log: what is not known is left out."""
    _, _, landed, produced, _, oldest, done, _ = _cells(speed)
    yield f"{speed.topic} to {speed.table}: lag " + ("unknown" if speed.lag is None else counted(speed.lag, "offsets"))
    if speed.lag_s:
        yield f"the oldest has waited {oldest}"
    if speed.landed_per_s is not None:
        yield f"landed {landed}/s"
    if speed.produced_per_s is not None:
        yield f"produced {produced}/s"
    if speed.left_s:
        yield f"caught up in {done}"
    if speed.in_doubt:
        yield f"{counted(speed.in_doubt, 'partitions')} in doubt"


def table_of(found: Iterable[TableSpeed], caption: str, headings: Iterable[str] = HEADINGS) -> Table:
    """What a terminal shows: a row for each table, with these of the columns."""
    from rich.table import Table
    from rich.text import Text

    shown = [HEADINGS.index(heading) for heading in headings]
    table = Table(box=None, caption=caption, caption_justify="left")
    for n in shown:
        table.add_column(HEADINGS[n], justify="left" if n < 2 else "right")
    for speed in found:
        cells = _cells(speed)
        table.add_row(*(Text(cells[n]) for n in shown))
    return table


def _cells(speed: TableSpeed) -> tuple[str, ...]:
    counts = [_number(n) for n in (speed.landed_per_s, speed.produced_per_s, speed.lag)]
    oldest = "-" if speed.lag_s is None else _time(speed.lag_s)
    return speed.topic, speed.table, *counts, oldest, _duration(speed), str(speed.in_doubt)


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def _duration(speed: TableSpeed) -> str:
    if speed.left_s is None:
        return "-"
    return "now" if not speed.lag else _time(speed.left_s)


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
