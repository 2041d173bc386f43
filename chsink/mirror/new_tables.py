"""New Iceberg tables: their definition, its statement for Spark, and their creation.

Rules:
- Creators race: the first one wins, and the others take its table.
- If it is unknown whether a table was created, the catalog is asked again.
- Partition fields have the names that Spark gives them, so that its statement makes the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import Transform, parse_transform
from pyiceberg.types import (
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from chsink.config.mirror import NewTable
from chsink.errors import preflight
from chsink.mirror.tables import CatalogFailed, said
from chsink.notation.iceberg_terms import Term, parse_sort_term, parse_term

PAUSES_S: Final = (0.1, 0.5, 2.0)
"""Between attempts to create a table."""
KAFKA: Final[Mapping[str, IcebergType]] = {
    "_kafka_topic": StringType(),
    "_kafka_partition": IntegerType(),
    "_kafka_offset": LongType(),
    "_kafka_timestamp": TimestamptzType(),
}
"""The columns for Kafka's own fields of a new table."""
_SUFFIXES: Final = {"truncate": "trunc", "identity": ""}
_SPARK_TRANSFORMS: Final = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_SPARK_TYPES: Final[dict[type[IcebergType], str]] = {
    LongType: "BIGINT",
    TimestamptzType: "TIMESTAMP",
    TimestampType: "TIMESTAMP_NTZ",
}


@dataclass(frozen=True)
class Definition:
    """A table that does not exist yet.  ``name`` is ``namespace.table``."""

    name: str
    schema: Schema
    spec: PartitionSpec
    order: SortOrder
    new: NewTable

    @property
    def properties(self) -> dict[str, str]:
        """Those of the table, with its format version."""
        return {**self.new.properties, "format-version": str(self.new.format_version)}

    @property
    def metadata(self) -> TableMetadata:
        """As a catalog would hold it, but for its location."""
        return new_table_metadata(self.schema, self.spec, self.order, "", self.properties)


def defined(name: str, columns: Mapping[str, IcebergType], new: NewTable) -> Definition:
    """The table with these columns, and those for Kafka's own fields.  PreflightError CHS-284 if ``new`` names a column
    that the table does not have, or a transform that its column cannot have.
    """
    types = {**{n: kind for n, kind in columns.items() if n not in KAFKA}, **KAFKA}
    fields = [NestedField(0, n, kind, required=n in new.identifier) for n, kind in types.items()]
    by_name = {field.name: field for field in assign_fresh_schema_ids(Schema(*fields)).fields}
    try:
        ids = [_field(by_name, each).field_id for each in new.identifier]
        partition = [_partition(by_name, parse_term(text), 1000 + i) for i, text in enumerate(new.partition)]
        order = [_sorted(by_name, text) for text in new.sort]
        return Definition(
            name,
            Schema(*by_name.values(), identifier_field_ids=ids),
            PartitionSpec(*partition),
            SortOrder(*order) if order else SortOrder(order_id=0),
            new,
        )
    except ValueError as error:
        raise preflight.MIRROR_TABLE_NOT_AS_WANTED(table=name, reason=error) from error


def _field(fields: Mapping[str, NestedField], name: str) -> NestedField:
    if name not in fields:
        raise ValueError(f"it would have no column {name!r}; its columns: {', '.join(fields)}")
    return fields[name]


def _transform(fields: Mapping[str, NestedField], term: Term) -> Transform[object, object]:
    found = parse_transform(str(term))
    source = _field(fields, term.column)
    if not found.can_transform(source.field_type):
        raise ValueError(f"{source.field_type} column {term.column!r} cannot have the transform {term}")
    return found


def _partition(fields: Mapping[str, NestedField], term: Term, field_id: int) -> PartitionField:
    suffix = _SUFFIXES.get(term.transform, term.transform)
    name = f"{term.column}_{suffix}" if suffix else term.column
    return PartitionField(_field(fields, term.column).field_id, field_id, _transform(fields, term), name)


def _sorted(fields: Mapping[str, NestedField], text: str) -> SortField:
    each = parse_sort_term(text)
    return SortField(
        _field(fields, each.term.column).field_id,
        transform=_transform(fields, each.term),
        direction=SortDirection.DESC if each.descending else SortDirection.ASC,
        null_order=NullOrder.NULLS_FIRST if each.nulls_first else NullOrder.NULLS_LAST,
    )


# --- creation ---------------------------------------------------------------------------------------------------------


def create(catalog: Catalog, table: Definition) -> tuple[Table, bool]:
    """The table, and whether this call created it.  PreflightError CHS-284 if the catalog refuses it,
    ``CatalogFailed`` if it does not answer.
    """
    namespace = table.name.rpartition(".")[0]
    refused: Exception | None = None
    for pause in (*PAUSES_S, None):
        try:
            catalog.create_namespace_if_not_exists(namespace)
            made = catalog.create_table(
                table.name, table.schema, partition_spec=table.spec, sort_order=table.order, properties=table.properties
            )
        except TableAlreadyExistsError:
            refused = None
        except Exception as error:  # refused, or the answer was lost, or another creator is at it
            refused = error
        else:
            return made, True
        if (found := _there(catalog, table.name)) is not None:
            return found, False
        if pause is not None:
            sleep(pause)
    reason = "it was created, and dropped again at once" if refused is None else said(refused)
    raise preflight.MIRROR_TABLE_NOT_CREATED(table=table.name, reason=reason) from refused


def _there(catalog: Catalog, name: str) -> Table | None:
    try:
        return catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:  # any exception of the catalog's client
        raise CatalogFailed(f"{name}: {said(error)}") from error


# --- the statement ----------------------------------------------------------------------------------------------------


def spark_namespace(catalog: str, table: Definition) -> str:
    """The statement that creates the table's namespace in Spark's SQL, if it is missing."""
    return f"CREATE NAMESPACE IF NOT EXISTS {_full(catalog, table.name.rpartition('.')[0])}"


def spark_sql(catalog: str, table: Definition) -> tuple[str, ...]:
    """The statements with which Spark's SQL makes the same table."""
    name = _full(catalog, table.name)
    width = max(len(_quoted(field.name)) for field in table.schema.fields)
    lines = ",\n".join(f"    {_column(field, width)}" for field in table.schema.fields)
    properties = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in sorted(table.properties.items()))
    by = _all(_call(parse_term(text)) for text in table.new.partition)
    partition = f"\nPARTITIONED BY ({by})" if by else ""
    made = f"CREATE TABLE IF NOT EXISTS {name}\n(\n{lines}\n)\nUSING iceberg{partition}\nTBLPROPERTIES ({properties})"
    found = [made]
    if table.new.identifier:
        found.append(f"ALTER TABLE {name} SET IDENTIFIER FIELDS {_all(map(_quoted, table.new.identifier))}")
    if table.new.sort:
        found.append(f"ALTER TABLE {name} WRITE LOCALLY ORDERED BY {_order(table.new.sort)}")
    return tuple(found)


def _full(catalog: str, name: str) -> str:
    return ".".join(map(_quoted, (catalog, *name.split("."))))


def _column(field: NestedField, width: int) -> str:
    kind = _spark_type(field.field_type)
    return f"{_quoted(field.name):<{width}} {kind}{' NOT NULL' if field.required else ''}"


def _spark_type(kind: IcebergType) -> str:
    match kind:
        case StructType():
            return f"STRUCT<{_all(f'{_quoted(each.name)}: {_spark_type(each.field_type)}' for each in kind.fields)}>"
        case ListType():
            return f"ARRAY<{_spark_type(kind.element_type)}>"
        case MapType():
            return f"MAP<{_spark_type(kind.key_type)}, {_spark_type(kind.value_type)}>"
    return _SPARK_TYPES.get(type(kind)) or str(kind).upper()


def _call(term: Term) -> str:
    column = _quoted(term.column)
    if term.transform == "identity":
        return column
    name = _SPARK_TRANSFORMS.get(term.transform, term.transform)
    return f"{name}({column})" if term.number is None else f"{name}({term.number}, {column})"


def _order(sort: Sequence[str]) -> str:
    terms = [parse_sort_term(text) for text in sort]
    return _all(
        f"{_call(each.term)} {'DESC' if each.descending else 'ASC'} NULLS {'FIRST' if each.nulls_first else 'LAST'}"
        for each in terms
    )


def _all(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
