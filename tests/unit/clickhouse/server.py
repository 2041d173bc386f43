"""A ClickHouse that answers from a script: what a table holds, which inserts it takes, and what it was asked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pyarrow as pa

from chsink.clickhouse.definition import Ttl
from chsink.clickhouse.table import TargetTable
from chsink.decode.columns import Column
from chsink.ports import ServerRefused
from chsink.statemachine.parts import Mark, Seen, Sending
from chsink.statemachine.records import Phase, StateKey, StateRecord
from tests.support.endpoint import OneServer

NOW_MS = 1_700_000_000_000
KEY = StateKey("sink", "topic", 3, "db.t")
MARK = Mark(50, 1_600_000_000, window=(100, 0, 0))


def table(engine: str = "MergeTree", **changes: Any) -> TargetTable:
    """A target that remembers 100 blocks, and 1000 s when it is replicated."""
    settings = {
        "non_replicated_deduplication_window": "100",
        "replicated_deduplication_window": "100",
        "replicated_deduplication_window_seconds": "1000",
    }
    columns = tuple(Column(c, "String", "", "") for c in ("n", "_kafka_topic", "_kafka_partition", "_kafka_offset"))
    whole: dict[str, Any] = {
        "database": "db", "name": "t", "identity": "u", "engine": engine, "columns": columns, "partition_key": "",
        "ttl": Ttl(), "merge_tree": settings, "timezone": "UTC", "definition": f"u {engine} d",
    }  # fmt: skip
    return TargetTable(**{**whole, **changes})


def in_doubt(age_s: float, marks: tuple[Mark, ...] | None = None) -> StateRecord:
    """[10, 20) in doubt for so long, by all clocks, announced when the table held ``MARK``."""
    held = (replace(MARK, at_s=-int(age_s)),) if marks is None else marks
    return StateRecord(Phase.BEFORE, 1, "a", 10, 20, sent=Sending(5, "l"), seen=Seen(NOW_MS - int(age_s * 1000), held))


@dataclass
class StoppedClock:
    """Time that passes only by sleeping.  ``set_by`` is how far somebody set the wall clock."""

    now: int = NOW_MS
    slept: list[float] = field(default_factory=list)
    set_by: int = 0

    def now_ms(self) -> int:
        return self.now + self.set_by

    def steady_ms(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += int(seconds * 1000)


@dataclass
class Server(OneServer):
    """``answers`` to inserts are errors to raise, in turn; then all are taken.  ``running`` counts looks that find one.

    ``lagging`` are lengths of the replica's queue in turn, and then 0.  Questions with a ``refused`` text are refused.  ``deleting`` are counts of unfinished DELETE statements in turn, the last of them from then on.
    """

    clock: StoppedClock
    mark: Mark = MARK
    definition: str = "d"
    engine: str = "MergeTree"
    altered: Collection[str] = ()
    identity: str = "u"
    defined_s: int = -1_000_000
    tokens: str = ""
    entries: int = 1
    columns: list[tuple[str, str, str, str]] = field(default_factory=list)
    answers: list[Exception] = field(default_factory=list)
    away: list[Exception] = field(default_factory=list)
    running: int = 0
    rows: int = 0
    deleting: list[int] = field(default_factory=list)
    fails: str = ""
    lagging: list[int] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    inserts: list[Mapping[str, Any]] = field(default_factory=list)
    url: str = "http://a"

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        if self.away:
            raise self.away.pop(0)
        self.asked.append((sql, parameters or {}))
        if any(part in sql for part in self.refused):
            raise ServerRefused(497, "Not enough privileges")
        if "system.processes" in sql:
            self.running -= 1
            return [(int(self.running >= 0),)]
        if "serverUUID" in sql:
            return [(self.url, "")]
        if "replica_is_active" in sql:
            return [(self.url, ["three", "five"])]
        if "queue_size" in sql:
            return [(0, 7, 8, self.lagging.pop(0) if self.lagging else 0, 0, 2)]
        if "NOT is_done" in sql:
            unfinished = self.deleting.pop(0) if self.deleting[1:] else sum(self.deleting)
            return [(f"mutation_{n}.txt", self.fails) for n in range(unfinished)]
        if "engine_full" in sql:
            return [(*name, "MergeTree ORDER BY n") for name in self._named(sql)]
        if "merge_tree_settings" in sql:
            return [*table().merge_tree.items(), ("entries of a block", str(self.entries))]
        if "dependencies_table)" in sql and "sipHash128" not in sql:
            return [(*name, []) for name in self._named(sql)]
        if "sipHash128" in sql:
            return list(self._facts(sql))
        if "system.columns" in sql:
            return [(*name, *column) for name in self._named(sql) for column in self.columns]
        return [(0, self.rows)] if "GROUP BY" in sql else [(self.rows,)]

    def _facts(self, sql: str) -> Iterator[tuple[Any, ...]]:
        """What :mod:`chsink.clickhouse.describe` asks."""
        for name in self._named(sql) if self.definition else ():
            engine, digest = self.engine, self.definition + "'" * (name[1] in self.altered)
            times = self.mark.at_s, self.mark.since_s, self.defined_s
            yield ("is", *name, self.identity, engine, digest, *times, self.tokens)
            yield ("path", *name, self.identity, "", "", 0, 0, 0, "")
            if self.mark.blocks is not None:
                yield ("blocks", *name, "", "", "", self.mark.blocks, 0, 0, "")

    def _named(self, sql: str) -> Iterator[tuple[str, str]]:
        """The tables that a question names."""
        found = re.search(r"database IN \((.*?)\) AND (?:name|table) IN \((.*?)\)", sql)
        assert found is not None, sql
        databases, tables = (re.findall(r"'([^']+)'", part) for part in found.groups())
        return product(databases, tables)

    def command(self, sql: str, settings: Mapping[str, Any] | None = None) -> None:
        raise AssertionError(sql)

    def insert(self, sql: str, body: pa.Buffer, settings: Mapping[str, Any], url: str) -> None:
        self.inserts.append({"sql": sql, **settings})
        if self.answers:
            raise self.answers.pop(0)
