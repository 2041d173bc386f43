"""How many records Spark hands to a worker at a time depends on the sizes of those that it handed over before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from chsink.spark import arrow_batches
from chsink.spark.arrow_batches import (
    BYTES,
    EXPECTED_BYTES,
    MANY,
    MOST_BYTES,
    MOST_ROWS,
    ROWS,
    UNBOUNDED,
    RecordSizes,
    bound_rows,
    learn,
)

FIELDS = ("topic", "value")


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_batches, "_known", {})


def bounds(topics: set[str], most_rows: int = 100_000, fields: tuple[str, ...] = FIELDS) -> tuple[int, int]:
    """Rows and bytes for the next action."""
    conf: dict[str, str] = {}
    spark = SimpleNamespace(conf=SimpleNamespace(set=conf.__setitem__))
    bound_rows(cast(SparkSession, spark), topics, fields, most_rows)
    return int(conf[ROWS]), int(conf[BYTES])


def test_bytes_are_bounded_until_the_sizes_of_all_topics_are_known() -> None:
    assert bounds({"a", "b"}) == (MOST_ROWS, MOST_BYTES)
    learn(FIELDS, [("a", 100)])
    assert bounds({"a", "b"}) == (MOST_ROWS, MOST_BYTES)
    learn(FIELDS, [("b", 100), (None, 5)])
    assert bounds({"a", "b"}) == (MOST_ROWS, UNBOUNDED)
    assert bounds({"a"}, fields=("value", "key")) == (MOST_ROWS, MOST_BYTES), "other columns are of another size"


def test_a_batch_has_as_many_records_as_take_the_expected_bytes() -> None:
    learn(FIELDS, [("a", 100), ("a", 4096), ("b", 1)])
    assert bounds({"a", "b"}) == (EXPECTED_BYTES // 4096, UNBOUNDED)
    assert bounds({"b"}) == (MOST_ROWS, UNBOUNDED)
    assert bounds({"b"}, most_rows=10) == (10, UNBOUNDED)
    learn(FIELDS, [("a", 3 * EXPECTED_BYTES)])
    assert bounds({"a", "b"}) == (1, UNBOUNDED)
    learn(FIELDS, [("a", 200)])
    assert bounds({"a"}) == (MOST_ROWS, UNBOUNDED), "the last batch counts"


def test_few_records_say_nothing() -> None:
    learn(FIELDS, [("a", 100)])
    learn(FIELDS, [("a", 0)])
    assert bounds({"a"}) == (MOST_ROWS, UNBOUNDED)
    learn(FIELDS, [("new", 0)])
    assert bounds({"new"}) == (MOST_ROWS, MOST_BYTES)


def test_a_task_counts_what_it_reads() -> None:
    batch = pa.RecordBatch.from_pydict({"offset": pa.array(range(MANY - 1), pa.int64())})
    sizes = RecordSizes()
    assert list(sizes.counted([batch])) == [batch]
    assert sizes.mean == 0, "one record is missing"
    assert len(list(sizes.counted([batch, batch.slice(0, 0)]))) == 2
    assert sizes.mean == 8
