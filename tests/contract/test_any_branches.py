"""A branch and main under any sequence of commits, publications, foreign commits, expiries and new beginnings, in a SQL
catalog: no record is twice on either, and main loses nothing.

A record's id is its offset, so what a branch holds is what its chain says.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyiceberg.catalog.sql import SqlCatalog

from chsink.errors import PreflightError
from chsink.mirror.expiry import expired
from chsink.mirror.publish import publish
from chsink.mirror.tables import MirrorTable, TableRead
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain, read_chain, with_origin
from chsink.statemachine.commit.resolve import Log, TableVerdict, resolved
from chsink.statemachine.commit.rules import CommitHalt
from tests.unit.mirror.test_publish import AUDIT, foreign, recreate, rows
from tests.unit.mirror.test_tables import SCHEMA, TP, files, read, until

pytestmark = pytest.mark.soak
FOREIGN = 1000
LATER_MS = 4_102_444_800_000


class Branches(RuleBasedStateMachine):
    """``skipped`` are the offsets that a person gave up; ``seen`` is what readers of main have seen."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        catalog = SqlCatalog("lake", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=f"file://{self.folder}/lake")
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", SCHEMA)
        self.table = MirrorTable(catalog, "shop.orders", AUDIT)
        self.handed_over, self.others = 0, FOREIGN
        self.skipped: set[int] = set()
        self.seen: set[int] = set()
        self.stale: TableRead | None = None
        assert self.table._branched(read(self.table)).outcome is Outcome.APPLIED

    def teardown(self) -> None:
        self.table.catalog.close()
        shutil.rmtree(self.folder)

    def chain(self, now: TableRead) -> Chain:
        """As a coordinator reads it."""
        found = read_chain(now.view)
        assert found.halt is None, found
        return found.chain or with_origin(Chain(), TP, "id", 0)

    def append(self, now: TableRead, chain: Chain) -> Outcome:
        """The next record."""
        at = chain.links[TP].until
        self.handed_over = max(self.handed_over, at + 1)
        return self.table.append(now, files(now, at), until(chain, at + 1), uuid4(), None).outcome

    @rule()
    def commit(self) -> None:
        now = read(self.table)
        assert self.append(now, self.chain(now)) is Outcome.APPLIED

    @rule()
    def remember(self) -> None:
        """What a coordinator read before it was suspended."""
        self.stale = read(self.table)

    @precondition(lambda self: self.stale is not None)
    @rule()
    def wake(self) -> None:
        assert self.stale is not None
        same = read(self.table).view.head == self.stale.view.head
        assert self.append(self.stale, self.chain(self.stale)) is (Outcome.APPLIED if same else Outcome.REFUSED)

    @rule(back=st.integers(0, 4))
    def publish(self, back: int) -> None:
        """Up to one of the newest snapshots."""
        now = read(self.table)
        at, metadata = now.view.head, now.table.metadata
        for _ in range(back):
            snapshot = None if at is None else metadata.snapshot_by_id(at)
            if snapshot is not None and snapshot.parent_snapshot_id is not None:
                at = snapshot.parent_snapshot_id
        with suppress(PreflightError):
            publish(self.table, at)

    @rule()
    def others_commit(self) -> None:
        foreign(self.table, self.others)
        self.others += 1

    @rule()
    def expire(self) -> None:
        now = read(self.table)
        gone = expired(now.table.metadata, self.chain(now).snapshot_id, LATER_MS, AUDIT.branch)
        if gone:
            assert self.table.expire(now, gone).outcome is Outcome.APPLIED

    @rule(choice=st.sampled_from(list(TableVerdict)))
    def begin_anew(self, choice: TableVerdict) -> None:
        """The branch is made of main again, and a person decides."""
        recreate(self.table)
        self.stale = None
        now = read(self.table)
        if read_chain(now.view).halt is None:
            return
        assert read_chain(now.view).halt in {CommitHalt.ROLLED_BACK, CommitHalt.ROWS_GONE}
        log = Log("id", 0, self.handed_over, self.handed_over)
        decided = resolved(now.view, {TP: log}, choice) or resolved(now.view, {TP: log}, TableVerdict.SKIP)
        assert decided is not None
        held = {n for n in rows(self.table, AUDIT.branch) if n < FOREIGN}
        self.skipped = (
            set(range(decided.chain.links[TP].until)) - held
        )  # some may be read again: an empty table gets all
        assert self.table.decide(now, decided.chain, uuid4()).outcome is Outcome.APPLIED

    @invariant()
    def no_record_is_twice(self) -> None:
        for branch in ("main", AUDIT.branch):
            held = rows(self.table, branch)
            assert len(held) == len(set(held)), (branch, held)

    @invariant()
    def the_branch_is_what_its_chain_says(self) -> None:
        held = {n for n in rows(self.table, AUDIT.branch) if n < FOREIGN}
        end = self.chain(read(self.table)).links[TP].until
        assert held == set(range(end)) - self.skipped, (held, end, self.skipped)

    @invariant()
    def main_loses_nothing(self) -> None:
        now = set(rows(self.table, "main"))
        assert self.seen <= now
        self.seen = now


TestBranches = Branches.TestCase
TestBranches.settings = settings(max_examples=12, stateful_step_count=12)
