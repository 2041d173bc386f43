"""Worlds in which each record of the first topic names its table, and an operator changes ``table_by``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from chsink.clickhouse.pieces import Prepared
from chsink.driver.ledger import parse_key
from chsink.driver.roles import Assignment
from chsink.formats.pipeline import digest_of
from chsink.formats.table_by import Choice
from chsink.statemachine.codec import decode
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateRecord
from chsink.statemachine.table import choice_of
from tests.sim.checkpoint import Checkpoint
from tests.sim.clickhouse import Table
from tests.sim.fan_out import MORE, FanOut
from tests.sim.kafka import serial_of
from tests.sim.services import By
from tests.sim.spark import prepare
from tests.sim.world import WORLD_STEPS

__all__ = ["WORLD_STEPS", "World"]
EDITS = 0.4
"""How often somebody changes ``table_by`` before a start."""


class World(FanOut):
    """Each record of the first topic lands in one of its tables.  An operator may change ``table_by`` before any start:
    with ranges in doubt, between two tables, between two rounds.  After CHS-309, the operator undoes the change.
    """

    def __init__(self, seed: int, allowed: frozenset[int] | None = None) -> None:
        super().__init__(seed, allowed)
        self.first = next(iter(self.routes))
        self.tables = (self.routes[self.first], MORE, "db.third")
        for server in self.servers:
            server.tables[self.tables[2]] = Table(self.kinds[MORE])
        self.kinds[self.tables[2]] = self.kinds[MORE]
        self.further = {self.first: MORE}  # asked by what all worlds share: there are several tables
        self.oracle.sharing = self.tables
        self.oracle.with_views.update(self.tables if self.kinds[MORE].views else ())
        self.oracle.takes = self._takes
        self.edits = Random(f"edits {seed}")
        self.choices: dict[str, By] = {}
        self.batches = 0
        self.round_offsets = self.edits.choice([None, 1, 2, 3])
        self.hub.factors["killed at driver.after_after"] = 6.0
        self.by = self.ran = self.choose(("kind0", (self.tables[0], *self.tables[:2])))

    def destinations(self) -> tuple[tuple[str, str | By], ...]:
        """See :class:`tests.sim.world.World`."""
        return tuple((topic, self.by if topic == self.first else table) for topic, table in self.routes.items())

    def start_driver(self) -> None:
        """Somebody may have changed ``table_by`` before."""
        if self.hub.counts["batches"] > self.batches:
            self.ran, self.batches = self.by, self.hub.counts["batches"]
        if not (self.hands_on or self.hub.calm) and self.by == self.ran and self.edits.random() < EDITS:
            header = self.edits.choice([self.by[0], f"kind{self.edits.randint(0, 5)}"])
            self.by = self.choose((header, (self.tables[0], *self.edits.choices(self.tables, k=2))))
            self.reasons.add("table_by changed")
            if self.drivers:  # one of them may wake up, and add a table that begins behind its own old plan
                self.reasons.add("rewound")
            self.hub.counts["fault table_by changed"] += 1
        super().start_driver()

    def by_table(self, why: str) -> None:
        """CHS-309, CHS-313: the change is undone.  Else what a person does is tried with one table."""
        if why in ("CHS-309", "CHS-313") and self.by != self.ran:
            self.by = self.choose(self.ran)
            self.hub.counts["table_by undone"] += 1
            self.start_soon()
        elif why == "CHS-302":  # a lost checkpoint began anew while a table that lacks records had no route
            self.checkpoint = Checkpoint()
            self.start_soon()
        else:
            super().by_table(why)

    def choose(self, by: By) -> By:
        """What starts from now on go by."""
        header, tables = by
        every = tuple(f"v{n}" for n in range(len(tables)))
        for table in tables:
            values = tuple(value for value, to in zip(every, tables, strict=True) if to == table)
            choice = Choice("header", header, values, every if table == tables[0] else None)
            self.choices[digest_of(choice.part())] = by
        self.prepare = partial(prepare_chosen, topic=self.first, by=by, bad=self.bad)
        return by

    def check_rest(self) -> None:
        """Each record is in one of the tables; those that are named now have landed all."""
        self.oracle.at_rest(self.routes, self.records(), self.forgiven)

    def records(self) -> dict[TopicPartition, StateRecord]:
        """Of the table that lacks most, of those that records name."""
        found: dict[TopicPartition, StateRecord] = {}
        for key, row in self.store.rows.items():
            if not key.startswith(f"{self.sink}/"):
                continue
            at, record = parse_key(key), decode(row.body)
            tp = at.topic_partition
            if at.topic == self.first and at.table not in self.by[1]:
                continue
            if tp not in found or record.in_doubt or record.end < found[tp].end:
                found[tp] = record
        return found

    def _takes(self, table: str, uid: int, pipeline: str) -> bool:
        """A row without a choice is one that begins where its siblings are: it has landed nothing."""
        if self.kafka.names[serial_of(uid)] != self.first:
            return True
        chosen = choice_of(pipeline)
        if not chosen:
            return False
        header, tables = self.choices[chosen]
        return bool(tables[_value(uid, header)] == table)


class Lettered(World):
    """The same, with bad values: each becomes a dead letter of the one table that its record names, or is skipped.
    Offsets of a range in doubt that Kafka deleted are listed for each table.
    """

    def __init__(self, seed: int, allowed: frozenset[int] | None = None) -> None:
        super().__init__(seed, allowed)
        if self.bad >= 100:
            self.bad = self.edits.choice([5, 11])
        if self.halt_on_bad_value:
            self.reasons.add("bad value")
        self.letters = self._draw_letters(seed, self.kinds[MORE])
        if self.letters and self.edits.random() < 0.6:
            self.in_doubt, self.oracle.lists = "dead_letter", True
        if self.special == "everything removed":  # but the topic of dead letters, and its group
            self.special = ""
        self.by = self.ran = self.choose(self.by)
        self.hub.factors.update({"retention ahead of the sink": 6.0, "retention under a read": 6.0})
        self.hub.factors.update({"killed at driver.before_after": 4.0, "killed at driver.after_before": 4.0})


def prepare_chosen(records: pa.RecordBatch, assignment: Assignment, *, topic: str, by: By, bad: int) -> Prepared:
    """As for one table, of the records that name the assignment's."""
    if assignment.key.topic != topic:
        return prepare(records, assignment, bad=bad)
    header, tables = by
    mine = np.array([table == assignment.key.table for table in tables])
    own = mine[_value(records.column("uid").to_numpy(), header)]
    made = prepare(records.filter(pa.array(own)), assignment, bad=bad)
    rows = np.flatnonzero(own)
    rejected = tuple(replace(one, row=int(rows[one.row])) for one in made.rejected)
    return replace(made, rejected=rejected, others=int(len(own) - own.sum()))


def _value(uids: Any, header: str) -> Any:
    """Which of three values the records have in this header."""
    return (uids * 7919 + sum(header.encode()) * 104729 >> 5) % 3
