"""What a running job says of each table: how far it is behind, how fast it lands, and when it will have caught up."""

from __future__ import annotations

import io
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from heapq import nlargest
from time import monotonic
from typing import TYPE_CHECKING, Final, TextIO

import structlog

from chsink.errors.counts import counted
from chsink.observe.pace import TableSpeed, TableState, speed_of, table_of
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateKey, StateRecord, TopicTable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

MEASURED_S: Final = 10.0
"""Seconds that a speed is measured over, or the time between two batches if that is longer."""
LOGGED_S: Final = 30.0
"""Seconds between two log lines of a table, unless it has caught up in between."""
MOST: Final = 20
"""Tables that have a line: those that are furthest behind."""
DRAWN: Final = ("topic", "table", "landed/s", "produced/s", "lag", "caught up in")

_Look = tuple[float, Mapping[TopicTable, TableState]]


class Progress:
    """Counts with the records and the log ends that the job has at hand anyway.  On a terminal, a table below the log
    that is drawn anew after each batch; elsewhere, log lines.
    """

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        self._log = log
        self._ends: dict[TopicPartition, int] = {}
        self._start: _Look | None = None
        self._looks: deque[_Look] = deque()
        self._said_s = monotonic()
        self._behind: set[TopicTable] = set()
        """Tables whose last log line told of a lag."""
        self._closing = ExitStack()
        self._screen = self._closing.enter_context(_drawing(sys.stderr)) if sys.stderr.isatty() else None

    def begins(self, records: Mapping[StateKey, StateRecord]) -> None:
        """The records as a start finds them; later ones change nothing."""
        if self._start is None:
            self._start = monotonic(), _states(records, {}, {key.topic_table for key in records})

    def done(
        self,
        records: Mapping[StateKey, StateRecord],
        ends: Mapping[TopicPartition, int],
        routes: Collection[TopicTable],
    ) -> None:
        """A batch is done; ``ends`` are Kafka's log ends, of its partitions at least."""
        self._ends.update(ends)
        now_s, now = monotonic(), _states(records, self._ends, routes)
        while len(self._looks) > 1 and now_s - self._looks[1][0] >= MEASURED_S:
            self._looks.popleft()
        before_s, before = self._looks[0] if self._looks else self._start or (now_s, {})
        self._looks.append((now_s, now))
        self._say([speed_of(name, before.get(name), at, now_s - before_s) for name, at in sorted(now.items())], now_s)

    def close(self) -> None:
        """Remove the table."""
        self._closing.close()

    def _say(self, found: Sequence[TableSpeed], now_s: float) -> None:
        shown = sorted(nlargest(MOST, found, key=lambda speed: speed.lag or 0), key=found.index)
        hidden = [speed for speed in found if speed not in shown]
        if self._screen is not None:
            behind = counted(sum(speed.lag or 0 for speed in hidden), "offsets")
            more = f"{counted(len(hidden), 'more tables')}, {behind} behind" if hidden else ""
            self._screen.update(table_of(shown, more, DRAWN), refresh=True)
            return
        due = now_s - self._said_s >= LOGGED_S
        for speed in shown:
            name = speed.topic, speed.table
            if due or (name in self._behind and speed.lag == 0):
                self._log.info("progress", **_fields(speed))
                (self._behind.add if speed.lag else self._behind.discard)(name)
        if due:
            self._said_s = now_s
            if hidden:
                self._log.info("progress", more_tables=len(hidden), lag=sum(speed.lag or 0 for speed in hidden))


def _states(
    records: Mapping[StateKey, StateRecord], ends: Mapping[TopicPartition, int], routes: Iterable[TopicTable]
) -> dict[TopicTable, TableState]:
    """Of each route.  The lag of partitions without a known log end is left out; without any, it is not known."""
    found = dict.fromkeys(routes, TableState(lag=None))
    for key, record in records.items():
        sums = found.get(key.topic_table)
        if sums is not None:
            end = ends.get(key.topic_partition)
            lag = sums.lag if end is None else (sums.lag or 0) + max(0, end - record.end)
            found[key.topic_table] = TableState(sums.end + record.end, lag)
    return found


def _fields(speed: TableSpeed) -> dict[str, str | float]:
    """What is known, by the names of ``chsink status --watch --json``."""
    known = {name: value for name, value in asdict(speed).items() if value is not None and name != "in_doubt"}
    return {name: round(value) if isinstance(value, float) else value for name, value in known.items()}


@contextmanager
def _drawing(terminal: TextIO) -> Iterator[Live]:
    """A place below the log's lines, which are written to standard error and appear above it."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=terminal)
    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as live:
        above = _Above(terminal, console)
        sys.stderr = above
        try:
            yield live
        finally:
            sys.stderr = terminal
            above.end()


class _Above(io.TextIOBase):
    """A terminal on which each whole line appears above what is drawn, as it was written: it may be a command that
    somebody copies, so no line is broken.
    """

    def __init__(self, terminal: TextIO, console: Console) -> None:
        super().__init__()
        self._terminal, self._console = terminal, console
        self._rest = ""

    def write(self, text: str, /) -> int:
        """As any text file."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._console.out(line, highlight=False)
        return len(text)

    def isatty(self) -> bool:
        """What is behind it is a terminal."""
        return True

    def fileno(self) -> int:
        """Of the terminal, for processes that are started."""
        return self._terminal.fileno()

    def end(self) -> None:
        """Write what is no whole line."""
        self._terminal.write(self._rest)
