"""Where the benchmark's Iceberg tables are, and plain files beside them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
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
CHECKED = ["id", "amount"]


@dataclass(frozen=True)
class Lake:
    """A catalog in a folder, and plain files beside it."""

    folder: Path

    @property
    def properties(self) -> dict[str, str]:
        """As a job file says them."""
        uri = f"sqlite:///{self.folder}/catalog.db"
        return {"name": "lake", "type": "sql", "uri": uri, "warehouse": f"file://{self.folder}/lake"}

    def catalog(self) -> SqlCatalog:
        """Opened once more."""
        properties = self.properties
        return SqlCatalog("lake", uri=properties["uri"], warehouse=properties["warehouse"])

    def new(self, variant: str, number: int) -> str:
        """A new table's name, or a new folder's path."""
        name = f"bench.run{number}".replace("-", "_")
        if variant == "s":
            return name
        if variant == "m":
            self.catalog().create_namespace_if_not_exists("bench")
            self.catalog().create_table(name, SCHEMA)
            return name
        folder = self.folder / f"plain{number}"
        folder.mkdir()
        return str(folder)

    def rows(self, variant: str, target: str) -> pa.Table:
        """The columns that are checked."""
        if variant == "m":
            return self.catalog().load_table(target).scan(selected_fields=tuple(CHECKED)).to_arrow()
        return ds.dataset(str(self._place(variant, target)), format="parquet").to_table(columns=CHECKED)

    def remove(self, variant: str, target: str) -> None:
        """Away with a run's files."""
        place = self._place(variant, target)
        if variant == "m":
            self.catalog().drop_table(target)
        shutil.rmtree(place)

    def _place(self, variant: str, target: str) -> Path:
        if variant == "m":
            return Path(self.catalog().load_table(target).location().removeprefix("file://"))
        return Path(target) if variant == "p" else self.folder / "iceberg" / target.replace(".", "/") / "data"
