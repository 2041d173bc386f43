"""Bloom filters of Parquet files, where the table's properties ask for them.

A filter is made for the rows of a file's first row group, not for ``max-bytes`` as in Iceberg's own writer: files are
often small.  It never gets larger than ``write.parquet.bloom-filter-max-bytes``.
"""

from __future__ import annotations

from math import log
from typing import Final

from pyiceberg.io.pyarrow import parquet_path_to_id_mapping
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties as P
from pyiceberg.typedef import Properties
from pyiceberg.types import BooleanType, PrimitiveType
from pyiceberg.utils.properties import property_as_int

PREFIX: Final = "write.parquet.bloom-filter-"
ENABLED: Final = f"{P.PARQUET_BLOOM_FILTER_COLUMN_ENABLED_PREFIX}."
FPP, FPP_DEFAULT = f"{PREFIX}fpp.column.", "0.01"


class BloomFilters:
    """The filters that a table asks for.  Columns that do not exist and those of booleans have none."""

    def __init__(self, schema: Schema, properties: Properties) -> None:
        paths = {number: path for path, number in parquet_path_to_id_mapping(sanitize_column_names(schema)).items()}
        asked = (
            key.removeprefix(ENABLED) for key, on in properties.items() if key.startswith(ENABLED) and on == "true"
        )
        fields = [(name, schema.find_field(name)) for name in asked if name in schema._name_to_id]
        self._fpp = {
            paths[field.field_id]: float(properties.get(f"{FPP}{name}", FPP_DEFAULT))
            for name, field in fields
            if isinstance(field.field_type, PrimitiveType) and not isinstance(field.field_type, BooleanType)
        }
        most = property_as_int(properties, P.PARQUET_BLOOM_FILTER_MAX_BYTES, P.PARQUET_BLOOM_FILTER_MAX_BYTES_DEFAULT)
        assert most is not None
        self._bytes = 1 << (max(most, 32).bit_length() - 1)  # Arrow rounds up to a power of two

    def options(self, rows: int) -> dict[str, dict[str, float]]:
        """For Arrow's writer: by the column's path, how many values and which part of wrong answers to expect."""
        return {
            path: {"ndv": max(1, min(rows, int(-self._bytes * log(1 - fpp ** (1 / 8))))), "fpp": fpp}
            for path, fpp in self._fpp.items()
        }
