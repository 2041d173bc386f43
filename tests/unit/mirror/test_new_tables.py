"""New Iceberg tables: what the job file says about them, the statement for Spark, and creators that race."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitStateUnknownException, TableAlreadyExistsError
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.types import IcebergType, IntegerType, LongType, StringType, TimestamptzType

from chsink.config.mirror import NewTable
from chsink.errors import PreflightError
from chsink.mirror import new_tables
from chsink.mirror.nested_types import list_of, map_of, struct_of
from chsink.mirror.new_tables import create, defined, spark_sql
from chsink.notation.iceberg_terms import SortTerm, Term, parse_sort_term, parse_term

Open = Callable[[], Catalog]
COLUMNS: dict[str, IcebergType] = {"id": LongType(), "at": TimestamptzType(), "na`me": StringType()}
NEW = NewTable(
    partition=("day(at)", "bucket(16, id)", "truncate(4, na`me)"),
    sort=("at desc", "na`me nulls last"),
    identifier=("id",),
    properties={"write.parquet.compression-codec": "zstd", "owner's": "a\\b"},
)
SQL = """\
CREATE TABLE IF NOT EXISTS `lake`.`shop`.`orders`
(
    `id`               BIGINT NOT NULL,
    `at`               TIMESTAMP,
    `na``me`           STRING,
    `_kafka_topic`     STRING,
    `_kafka_partition` INT,
    `_kafka_offset`    BIGINT,
    `_kafka_timestamp` TIMESTAMP
)
USING iceberg
PARTITIONED BY (days(`at`), bucket(16, `id`), truncate(4, `na``me`))
TBLPROPERTIES ('format-version' = '2', 'owner\\'s' = 'a\\\\b', 'write.parquet.compression-codec' = 'zstd')"""


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("id", Term("id")),
        ("identity(id)", Term("id")),
        ("day( at )", Term("at", "day")),
        ("bucket(16, a b)", Term("a b", "bucket", 16)),
        ("truncate(4,name)", Term("name", "truncate", 4)),
    ],
)
def test_terms(text: str, term: Term) -> None:
    assert parse_term(text) == term


@pytest.mark.parametrize(
    "text", ["", "day()", "bucket(id)", "bucket(0, id)", "day(3, at)", "week(at)", "a, b", "f(g(x))"]
)
def test_what_is_no_term(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_term(text)


def test_the_order_of_nulls_is_that_of_spark() -> None:
    assert parse_sort_term("at") == SortTerm(Term("at"))
    assert parse_sort_term("day(at) DESC") == SortTerm(Term("at", "day"), descending=True, nulls_first=False)
    assert parse_sort_term("at desc nulls first") == SortTerm(Term("at"), descending=True)


def test_a_table_is_what_the_job_file_says(open_catalog: Open) -> None:
    """A-3."""
    made, own = create(open_catalog(), defined("shop.orders", COLUMNS, NEW))
    table = open_catalog().load_table("shop.orders")

    assert own
    assert made.metadata.table_uuid == table.metadata.table_uuid
    assert [f.name for f in table.spec().fields] == ["at_day", "id_bucket", "na`me_trunc"]
    assert [str(f.transform) for f in table.spec().fields] == ["day", "bucket[16]", "truncate[4]"]
    assert table.schema().identifier_field_names() == {"id"}
    assert [f.required for f in table.schema().fields] == [True, *[False] * 6]
    order = [(f.direction, f.null_order) for f in table.sort_order().fields]
    assert order == [(SortDirection.DESC, NullOrder.NULLS_LAST), (SortDirection.ASC, NullOrder.NULLS_LAST)]
    assert table.format_version == 2
    assert table.properties["write.parquet.compression-codec"] == "zstd"


def test_the_statement_says_the_same() -> None:
    made, identifier, order = spark_sql("lake", defined("shop.orders", COLUMNS, NEW))
    assert made == SQL
    assert identifier == "ALTER TABLE `lake`.`shop`.`orders` SET IDENTIFIER FIELDS `id`"
    assert order.endswith(" WRITE LOCALLY ORDERED BY `at` DESC NULLS LAST, `na``me` ASC NULLS LAST")


def test_nested_columns(open_catalog: Open) -> None:
    """⚑ W-5: with ids of their own, and as Spark writes them."""
    inner = struct_of({"x": LongType(), "at": TimestamptzType()})
    assert inner is not None
    columns: dict[str, IcebergType] = {"id": LongType(), "m": map_of(IntegerType(), list_of(inner)), "s": inner}
    table = defined("shop.nested", columns, NewTable(identifier=("id",), partition=("bucket(4, id)",)))
    made, _ = create(open_catalog(), table)

    assert [str(field.field_type) for field in made.schema().fields[1:3]] == [
        "map<int, list<struct<11: x: optional long, 12: at: optional timestamptz>>>",
        "struct<13: x: optional long, 14: at: optional timestamptz>",
    ]
    assert made.schema().identifier_field_names() == {"id"}
    sql = spark_sql("lake", table)[0]
    assert "`m`                MAP<INT, ARRAY<STRUCT<`x`: BIGINT, `at`: TIMESTAMP>>>,\n" in sql
    for new in (NewTable(partition=("s",)), NewTable(sort=("m",)), NewTable(identifier=("s",))):
        with pytest.raises(PreflightError, match="CHS-284"):
            defined("shop.nested", columns, new)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (NewTable(partition=("day(ts)",)), "no column 'ts'"),
        (NewTable(partition=("day(id)",)), "transform day"),
        (NewTable(identifier=("x",)), "no column 'x'"),
        (NewTable(sort=("hour(id)",)), "transform hour"),
    ],
)
def test_what_does_not_fit_the_columns(new: NewTable, words: str) -> None:
    with pytest.raises(PreflightError, match=f"CHS-284.*{words}") as raised:
        defined("shop.orders", COLUMNS, new)
    assert "add its type to create" in raised.value.hint
    assert "Error" not in raised.value.message


def test_one_of_many_creators_wins(open_catalog: Open) -> None:
    """A-4: with a namespace that none of them finds."""
    catalogs = [open_catalog() for _ in range(4)]
    tables = [defined("new.orders", {**COLUMNS, f"own_{n}": LongType()}, NewTable()) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(create, catalogs, tables))

    there = open_catalog().load_table("new.orders")
    assert {table.metadata.table_uuid for table, _ in made} == {there.metadata.table_uuid}
    assert sum(own for _, own in made) <= 1, "a lost answer may hide the winner, never make two"


class Answering:
    """The catalog, whose first answers to ``create_table`` are these errors; it created the table nevertheless, or not."""

    def __init__(self, catalog: Catalog, *answers: tuple[Exception, bool]) -> None:
        self.catalog, self.answers = catalog, list(answers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.catalog, name)

    def create_table(self, *args: Any, **more: Any) -> Any:
        """See the class."""
        if not self.answers:
            return self.catalog.create_table(*args, **more)
        error, applied = self.answers.pop(0)
        if applied:
            self.catalog.create_table(*args, **more)
        raise error


def test_an_answer_that_is_lost(open_catalog: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog is asked again: it has the table, or gets it by the next attempt."""
    monkeypatch.setattr(new_tables, "PAUSES_S", (0, 0))
    applied: Any = Answering(open_catalog(), (CommitStateUnknownException("?"), True))
    lost: Any = Answering(open_catalog(), (OSError("gone"), False), (TableAlreadyExistsError("dropped since"), False))

    assert not create(applied, defined("shop.a", COLUMNS, NEW))[1]
    assert create(lost, defined("shop.b", COLUMNS, NEW))[1]


def test_a_catalog_that_refuses(open_catalog: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_tables, "PAUSES_S", ())
    refusing: Any = Answering(open_catalog(), (PermissionError("not allowed"), False))
    with pytest.raises(PreflightError, match=r"CHS-284.*not allowed"):
        create(refusing, defined("shop.orders", COLUMNS, NEW))
