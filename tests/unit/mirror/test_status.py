"""What ``chsink mirror status`` says about a table that halts the mirror."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from chsink.mirror.control import Names
from chsink.mirror.events import TableReference
from chsink.mirror.known_tables import Target
from chsink.mirror.status import _read
from chsink.mirror.tables import MirrorTable, PropertyKeys
from chsink.statemachine.ranges import TopicPartition

Open = Callable[[], Catalog]


@pytest.fixture
def target(open_catalog: Open) -> Target:
    keys = PropertyKeys("chsink-orders", "control")
    reference = TableReference("lake", ("shop",), "orders")
    return Target(MirrorTable(open_catalog(), "shop.orders", keys), reference, frozenset({"orders"}))


def problem(target: Target) -> str:
    found = _read(target, Names({}, "control", "chsink-orders", 1.0), new=False).problem
    return "" if found is None else f"{found.id}: {found.message}"


def test_a_table_that_can_continue_has_no_problem(open_catalog: Open, target: Target) -> None:
    open_catalog().create_table("shop.orders", Schema(NestedField(1, "id", LongType())))
    assert not problem(target)


def test_a_missing_table_is_named_as_the_halt_names_it(target: Target) -> None:
    assert problem(target) == "CHS-343: Iceberg table shop.orders does not exist in the catalog"


def test_a_table_that_was_created_again_is_named_before_the_start(open_catalog: Open, target: Target) -> None:
    """It was shown as one that lags."""
    open_catalog().create_table("shop.orders", Schema(NestedField(1, "id", LongType())))
    names, passed = (
        Names({}, "control", "chsink-orders", 1.0),
        [TopicPartition("orders", 1), TopicPartition("other", 0)],
    )
    found = _read(target, names, passed, new=False).problem
    assert found is not None and found.id == "CHS-342"
    assert "does not say which records it holds (orders-1)" in found.message
    assert "chsink mirror resolve shop.orders" in found.hint
    assert _read(target, names, passed[1:], new=False).problem is None


def test_a_damaged_property_is_named_as_the_halt_names_it(open_catalog: Open, target: Target) -> None:
    chain = target.table.keys.chain
    open_catalog().create_table("shop.orders", Schema(NestedField(1, "id", LongType())), properties={chain: "{"})
    assert problem(target).startswith(f"CHS-341: Iceberg table shop.orders: the table property '{chain}' contradicts")


def test_what_the_branch_holds(open_catalog: Open, target: Target) -> None:
    """O-4: its files and their size, as its newest snapshot says, whoever wrote it; and how many snapshots there are."""
    names = Names({}, "control", "chsink-orders", 1.0)
    table = open_catalog().create_table("shop.orders", Schema(NestedField(1, "id", LongType())))
    found = _read(target, names, new=False)
    assert (found.snapshots, found.files) == (0, (0, 0))
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    found, sizes = _read(target, names, new=False), [t.file.file_size_in_bytes for t in table.scan().plan_files()]
    assert (found.snapshots, found.files) == (3, (3, sum(sizes)))
    assert (_read(target, names, new=False).snapshots, len(sizes)) == (3, 3)


def test_all_damaged_shares_are_named_at_once(open_catalog: Open, target: Target) -> None:
    """⚑ Each start named one of them."""
    shares = [target.table.keys.share(TopicPartition("orders", number)) for number in (0, 1)]
    schema = Schema(NestedField(1, "id", LongType()))
    open_catalog().create_table("shop.orders", schema, properties=dict.fromkeys(shares, "5"))
    assert f"the table property '{shares[0]}', '{shares[1]}' contradicts" in problem(target)


@pytest.mark.parametrize("damage", ["orders.0", "orders.zero"])
def test_a_damaged_origin_is_named_not_the_chain(open_catalog: Open, target: Target, damage: str) -> None:
    origin = target.table.keys.origin(TopicPartition("orders", 0)).removesuffix("orders.0") + damage
    open_catalog().create_table("shop.orders", Schema(NestedField(1, "id", LongType())), properties={origin: "5"})
    assert problem(target).startswith(f"CHS-341: Iceberg table shop.orders: the table property '{origin}' contradicts")
