"""Worlds whose first topic lands in two tables: two lanes on one ledger, with all faults of the other worlds."""

from __future__ import annotations

from chsink.driver.ledger import parse_key
from chsink.statemachine.codec import decode
from chsink.statemachine.ranges import TopicPartition
from chsink.statemachine.records import StateRecord
from tests.sim.clickhouse import Table
from tests.sim.world import World

MORE = "db.more"


class FanOut(World):
    """The world ends at a halt that only a person can resolve.  There are no dead letters: those of all tables would be
    in one place, where the oracle knows a record by its offset alone.
    """

    def __init__(self, seed: int, allowed: frozenset[int] | None = None) -> None:
        super().__init__(seed, allowed)
        first = next(iter(self.routes))
        self.further = {first: MORE}
        self.kinds[MORE] = kind = self.kinds[self.routes[first]]
        for server in self.servers:
            server.tables[MORE], server.full = Table(kind), False  # what a person would have to decide
        self.oracle.with_views.update({MORE} if kind.views else ())
        self.letters, self.oracle.letters, self.disaster = "", None, ""
        self.in_doubt, self.oracle.lists = "halt", False
        self.hub.factors["state lost"] = 0.0
        if self.kafka.ids_hidden:  # one table may be in doubt, and the other one goes on with the id: a person decides
            self.special, self.kafka.ids_hidden = "", False

    def check_rest(self) -> None:
        """For both tables."""
        super().check_rest()
        elsewhere = {tp for tp in self.kafka.all() if tp.topic not in self.further}
        self.oracle.at_rest(self.further, self._records(further=True), self.forgiven | elsewhere)

    def records(self) -> dict[TopicPartition, StateRecord]:
        """Of the table that lacks most."""
        found = self._records(further=False)
        for tp, record in self._records(further=True).items():
            if record.in_doubt or record.end < found[tp].end:
                found[tp] = record
        return found

    def _records(self, *, further: bool) -> dict[TopicPartition, StateRecord]:
        keys = {parse_key(key): row for key, row in self.store.rows.items() if key.startswith(f"{self.sink}/")}
        return {k.topic_partition: decode(row.body) for k, row in keys.items() if (k.table == MORE) is further}
