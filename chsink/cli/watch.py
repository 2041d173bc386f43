"""``chsink status --watch``: prints how fast each table catches up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import typer

from chsink.cli.output import print_json
from chsink.errors import UnavailableError
from chsink.errors.counts import counted
from chsink.status.model import SinkStatus
from chsink.status.speeds import TableSpeed, speeds

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

HEADINGS: Final = ("topic", "table", "landed/s", "produced/s", "lag", "oldest", "caught up in", "in doubt")


def watch(look: Callable[[], SinkStatus], every_s: float, *, as_json: bool) -> None:
    """Print the speeds until interrupted: on a terminal, one table, redrawn; elsewhere, a line for each table."""
    screen = _screen() if sys.stdout.isatty() and not as_json else None
    with suppress(KeyboardInterrupt), screen or nullcontext():
        for found in _looks(look, every_s):
            if as_json:
                print_json({"at": _now(), "tables": [asdict(speed) for speed in found]}, indent=None)
            elif screen is not None:
                screen.update(_table(found), refresh=True)
            else:
                for speed in found:
                    typer.echo(f"{_now()} " + ", ".join(_words(speed)))


def _looks(look: Callable[[], SinkStatus], every_s: float) -> Iterator[list[TableSpeed]]:
    before, seen_s = None, 0.0
    while True:
        try:
            now, now_s = look(), time.monotonic()
        except UnavailableError as error:
            typer.echo(f"{_now()} {error}; trying again", err=True)
        else:
            yield speeds(before, now, now_s - seen_s)
            before, seen_s = now, now_s
        time.sleep(every_s)


def _cells(speed: TableSpeed) -> tuple[str, ...]:
    counts = [_number(n) for n in (speed.landed_per_s, speed.produced_per_s, speed.lag)]
    oldest = "-" if speed.lag_s is None else _time(speed.lag_s)
    return speed.topic, speed.table, *counts, oldest, _duration(speed), str(speed.in_doubt)


def _words(speed: TableSpeed) -> Iterator[str]:
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


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def _duration(speed: TableSpeed) -> str:
    if speed.left_s is None:
        return "-"
    return "now" if not speed.lag else _time(speed.left_s)


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _screen() -> Live:
    from rich.live import Live

    return Live(auto_refresh=False)


def _table(found: Sequence[TableSpeed]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, caption=f"{_now()}  Ctrl-C stops watching; the job goes on", caption_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in {"topic", "table"} else "right")
    for speed in found:
        table.add_row(*(Text(cell) for cell in _cells(speed)))
    return table
