"""The benchmark's Iceberg tables, and plain files beside them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import BooleanType, DoubleType, LongType, NestedField, StringType, TimestamptzType

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "ts", TimestamptzType()),
    NestedField(4, "amount", DoubleType()),
    NestedField(5, "flag", BooleanType()),
    NestedField(6, "city", StringType()),
    NestedField(7, "note", StringType()),
)
DAY = PartitionSpec(PartitionField(3, 1000, DayTransform(), "day"))
BUCKET = PartitionSpec(PartitionField(1, 1000, BucketTransform(16), "bucket"))
CHECKED = ["id", "amount"]


@dataclass(frozen=True)
class Lake:
    """A catalog in a folder, and plain files beside it."""

    folder: Path

    @property
    def properties(self) -> dict[str, str]:
        """The catalog's properties, as in a job file."""
        uri = f"sqlite:///{self.folder}/catalog.db"
        return {"name": "lake", "type": "sql", "uri": uri, "warehouse": f"file://{self.folder}/lake"}

    def catalog(self) -> SqlCatalog:
        """Opened once more."""
        properties = self.properties
        return SqlCatalog("lake", uri=properties["uri"], warehouse=properties["warehouse"])

    def new(self, variant: str, number: int) -> str:
        """A new table's name, or a new folder's path."""
        name = f"run{number}".replace("-", "_")
        if variant == "s":
            return f"bench.{name}"
        if variant == "m":
            return self.table(name)
        folder = self.folder / f"plain{number}"
        folder.mkdir()
        return str(folder)

    def table(self, name: str, schema: Schema = SCHEMA, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC) -> str:
        """A new table, by its identifier; of the benchmark's columns unless others are given."""
        identifier = f"bench.{name}".replace("-", "_")
        self.catalog().create_namespace_if_not_exists("bench")
        self.catalog().create_table(identifier, schema, partition_spec=spec)
        return identifier

    def rows(self, variant: str, target: str, columns: Sequence[str] = CHECKED) -> pa.Table:
        """The columns that are checked."""
        if variant == "m":
            return self.catalog().load_table(target).scan(selected_fields=tuple(columns)).to_arrow()
        return ds.dataset(str(self._place(variant, target)), format="parquet").to_table(columns=list(columns))

    def remove(self, variant: str, target: str) -> None:
        """Remove a run's files."""
        place = self._place(variant, target)
        if variant == "m":
            self.catalog().drop_table(target)
        shutil.rmtree(place)

    def _place(self, variant: str, target: str) -> Path:
        if variant == "m":
            return Path(self.catalog().load_table(target).location().removeprefix("file://"))
        return Path(target) if variant == "p" else self.folder / "iceberg" / target.replace(".", "/") / "data"


def wrong(rows: pa.Table, records: int) -> str | None:
    """What is wrong with a run's rows, None when they are exactly the first ``records``."""
    ids = np.sort(rows.column("id").to_numpy())
    if len(ids) != records or not np.array_equal(ids, np.arange(records)):
        return f"{len(ids)} rows, expected {records}, or other ids"
    differ = pc.sum(pc.not_equal(rows.column("amount"), pc.add(_remainder(rows.column("id"), 1000), 0.25))).as_py()
    return f"{differ} rows with another amount" if differ else None


def _remainder(numbers: pa.ChunkedArray, by: int) -> pa.ChunkedArray:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by))
