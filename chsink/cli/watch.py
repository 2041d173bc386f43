"""``chsink status --watch``: prints how fast each table catches up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from chsink.cli.output import print_json
from chsink.errors import UnavailableError
from chsink.observe.pace import TableSpeed, table_of, words
from chsink.status.model import SinkStatus
from chsink.status.speeds import speeds

if TYPE_CHECKING:
    from rich.live import Live


def watch(look: Callable[[], SinkStatus], every_s: float, *, as_json: bool) -> None:
    """Print the speeds until interrupted: on a terminal, one table, redrawn; elsewhere, a line for each table."""
    screen = _screen() if sys.stdout.isatty() and not as_json else None
    with suppress(KeyboardInterrupt), screen or nullcontext():
        for found in _looks(look, every_s):
            if as_json:
                print_json({"at": _now(), "tables": [asdict(speed) for speed in found]}, indent=None)
            elif screen is not None:
                screen.update(table_of(found, f"{_now()}  Ctrl-C stops watching; the job goes on"), refresh=True)
            else:
                for speed in found:
                    typer.echo(f"{_now()} " + ", ".join(words(speed)))


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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _screen() -> Live:
    from rich.live import Live

    return Live(auto_refresh=False)
