"""Branches on a REST catalog: every test of tests/unit/mirror/test_publish.py that needs a catalog, against Apache Iceberg's
own reference server; and the way out that CHS-353 names, with Iceberg's own cherry-pick.
"""

from __future__ import annotations

import inspect
from uuid import uuid4

import pytest

from chsink.errors import PreflightError
from chsink.mirror.publish import publish
from chsink.mirror.tables import MirrorTable
from chsink.ports import Outcome
from chsink.statemachine.commit.resolve import Log, TableVerdict, resolved
from chsink.statemachine.commit.rules import CommitHalt
from tests.support.iceberg_rest import IcebergRest
from tests.unit.mirror import test_publish
from tests.unit.mirror.test_publish import foreign, recreate, rows
from tests.unit.mirror.test_tables import TP, appended, chain_of, read

pytestmark = pytest.mark.soak
table, begun = test_publish.table, test_publish.begun
for _name, _found in list(vars(test_publish).items()):
    if _name.startswith("test_") and {"table", "begun"} & set(inspect.signature(_found).parameters):
        globals()[_name] = _found
for _name in ("test_doctor_names_a_missing_branch", "test_the_command"):  # their job file names another catalog
    del globals()[_name]


def test_the_way_out_that_is_named(rest_server: IcebergRest, begun: MirrorTable) -> None:
    """⚑ Others committed to main; what the branch has is brought there by hand, and lands once."""
    appended(begun, 6, 1)
    publish(begun)
    foreign(begun, 100)
    appended(begun, 7, 2)
    first = read(begun).view.head
    appended(begun, 8, 3)
    second = read(begun).view.head
    with pytest.raises(PreflightError, match="CHS-353"):
        publish(begun)
    for snapshot in (first, second):
        assert snapshot is not None
        rest_server.cherrypick("shop", "orders", snapshot)
    assert rows(begun, "main") == [1, 2, 3, 100]
    recreate(begun)
    assert chain_of(begun).halt is CommitHalt.ROLLED_BACK
    now = read(begun)
    decided = resolved(now.view, {TP: Log("id", 0, 9, 8)}, TableVerdict.SKIP)
    assert decided is not None and decided.chain.links[TP].until == 8
    assert begun.decide(now, decided.chain, uuid4()).outcome is Outcome.APPLIED
    appended(begun, 9, 4)
    publish(begun)
    assert rows(begun, "main") == [1, 2, 3, 4, 100]
