"""Whether a table of Kafka Connect's sink tells all files that it ever had: no snapshot has expired."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from chsink.mirror.tables import none_expired

ROW = pa.table({"id": pa.array([1], pa.int64())})


@pytest.mark.parametrize(
    ("of_version_1", "later", "expired", "expected"),
    [
        (0, 0, 0, True),
        (0, 3, 0, True),
        (0, 3, 1, False),
        (1, 0, 0, False),
        (1, 2, 0, False),
        (2, 2, 2, False),
        (2, 3, 1, False),
        (2, 3, 3, False),
    ],
)
def test_a_table_that_was_upgraded_does_not_tell(
    open_catalog: Callable[[], Catalog], of_version_1: int, later: int, expired: int, *, expected: bool
) -> None:
    """⚑ Snapshots of format version 1 have no sequence number: as many that had expired were not missed, or all of them.
    A file that they had would land again.
    """
    catalog = open_catalog()
    version = "1" if of_version_1 else "2"
    table = catalog.create_table(
        "shop.orders", Schema(NestedField(1, "id", LongType())), properties={"format-version": version}
    )
    for _ in range(of_version_1):
        table.append(ROW)
    if of_version_1:
        with table.transaction() as change:
            change.upgrade_table_version(2)
    for _ in range(later):
        table.append(ROW)
    if expired:
        ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
        table.maintenance.expire_snapshots().by_ids(ids[:expired]).commit()

    assert none_expired(catalog.load_table("shop.orders").metadata) is expected
