"""What rows say, and what a Kafka Connect sink left, in random histories: no record is lost, and none lands twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from chsink.statemachine.commit.recover import RowsFound, recovered
from chsink.statemachine.commit.takeover import ReportedFile, waits
from chsink.statemachine.ranges import OffsetRange

# --- rows ------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.integers(0, 12),
    st.sets(st.integers(0, 11)),
    st.integers(0, 12),
)
def test_a_table_continues_where_its_rows_end(records: list[bool], landed: int, gone: set[int], log_start: int) -> None:
    """P-3, P-4.  ``records``: whether an offset is a record.  Those below ``landed`` landed; the rows ``gone`` are gone."""
    log = OffsetRange(min(log_start, len(records)), len(records))
    held = {n for n, is_record in enumerate(records) if is_record}
    rows = {n for n in held if n < landed and n not in gone}
    span = OffsetRange(min(rows), max(rows) + 1) if rows else None
    lacking = [n for n in held - rows if span is not None and log.start <= n < span.end]
    rule, link = recovered(RowsFound("id", log, span, min(lacking, default=None)))
    if lacking:
        assert rule == "LACKING" and link is None
        return
    assert link is not None
    again = {n for n in held if max(link.until, log.start) <= n}
    assert not again & rows
    assert again | rows >= {n for n in held if n >= log.start}


# --- a Kafka Connect sink --------------------------------------------------------------------------------------------


@dataclass
class Table:
    """``files`` were ever committed; ``shown`` are those that a snapshot has, ``stored`` what each snapshot names."""

    files: list[tuple[int, int]] = field(default_factory=list)
    shown: set[tuple[int, int]] = field(default_factory=set)
    stored: list[dict[int, int]] = field(default_factory=list)
    whole: bool = True

    @property
    def furthest(self) -> dict[int, int]:
        return {p: max(s.get(p, 0) for s in self.stored) for s in self.stored for p in s}


class Sink:
    """Two partitions of a control topic, whose events are files of one table each; a coordinator that may die."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.log: dict[int, list[int]] = {0: [], 1: []}
        self.tables = [Table(), Table()]
        self.passed: dict[int, int] = {}
        self.restart()

    def restart(self) -> None:
        """A coordinator without an offset of its group begins at the topic's end."""
        self.at = {p: self.passed.get(p, len(self.log[p])) for p in self.log}
        self.buffer: list[tuple[int, int]] = []
        self.read: dict[int, int] = {}

    def report(self) -> None:
        self.log[self.random.randrange(2)].append(self.random.randrange(2))

    def poll(self) -> None:
        for p, events in self.log.items():
            self.buffer += [(p, n) for n in range(self.at[p], len(events))]
            if self.at[p] < len(events):
                self.read[p] = len(events)
            self.at[p] = len(events)

    def commit(self, *, whole: bool = True) -> None:
        """To the tables in turn; a coordinator that dies leaves out the last ones, and its group."""
        for number in range(2 if whole else self.random.randrange(2)):
            table = self.tables[number]
            newest = table.stored[-1] if table.stored else {}
            mine = [(p, n) for p, n in self.buffer if self.log[p][n] == number and n >= newest.get(p, 0)]
            if mine:
                table.files += mine
                table.shown |= set(mine)
                table.stored.append(dict(self.read))
        if whole:
            self.passed |= self.read
            self.buffer = []
        else:
            self.restart()

    def expire(self) -> None:
        """Compacted, and older snapshots are gone; perhaps all of the sink's."""
        table = self.random.choice(self.tables)
        if table.shown:
            table.shown, table.whole = set(), False
            table.stored = table.stored[-self.random.randrange(2) :] if self.random.random() < 0.5 else []

    def waiting(self, number: int) -> list[tuple[int, int]]:
        """What a takeover commits.  It refuses, unless a person decides, where the sink's snapshots have expired."""
        table = self.tables[number]
        found = [
            (p, n)
            for p, events in self.log.items()
            for n, of in enumerate(events)
            if of == number
            and waits(
                ReportedFile(n, table.furthest.get(p, 0), self.passed.get(p, 0), (p, n) in table.shown, table.whole)
            )
        ]
        return [] if not table.whole and any(p not in table.furthest for p, _ in found) else found


@given(st.integers(0, 10**9))
def test_every_file_of_a_connector_is_committed_once(seed: int) -> None:
    """⚑ Commits that end between two tables, a coordinator that begins at its topic's end, snapshots that expired."""
    random = Random(seed)
    sink = Sink(random)
    steps = [sink.report, sink.poll, sink.commit, lambda: sink.commit(whole=False), sink.restart, sink.expire]
    for _ in range(random.randrange(30)):
        random.choices(steps, [4, 3, 2, 1, 1, 0.3])[0]()
    taken = [sink.waiting(number) for number in range(2)]
    for number, table in enumerate(sink.tables):
        reported = [(p, n) for p, events in sink.log.items() for n, of in enumerate(events) if of == number]
        assert not set(taken[number]) & set(table.files), "twice"
        if table.whole:
            assert sorted(taken[number] + list(set(table.files))) == sorted(reported), "lost"
