"""``debezium``: changes of rows in Debezium's JSON envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from chsink.decode.columns import Column
from chsink.errors import PreflightError
from chsink.formats.settings import Debezium
from tests.support.examples import examples
from tests.unit.formats.decoding import alone, outcomes

COLUMNS = (
    Column("id", "UInt32"),
    Column("name", "String"),
    Column("tags", "Array(String)"),
    Column("at", "Nullable(DateTime64(6))"),
    Column("op", "LowCardinality(String)"),
    Column("version", "UInt64"),
    Column("is_deleted", "UInt8"),
)
SETTINGS = Debezium(
    type="debezium",
    fields={"op": "$.op", "name": "$.after.full_name"},
    epoch={"at": "micros"},
    version_column="version",
    deleted_column="is_deleted",
    primary_key=("id",),
)


def event(op: str, lsn: int = 5, **rows: Any) -> dict[str, Any]:
    return {"before": None, "after": None, **rows, "op": op, "source": {"lsn": lsn, "db": "d"}, "ts_ms": 1}


def wrapped(payload: dict[str, Any]) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": [{"field": "op", "type": "string"}]}, "payload": payload}


def data(*records: Any) -> list[bytes | None]:
    return [each if isinstance(each, bytes | None) else json.dumps(each).encode() for each in records]


def test_changes_become_rows() -> None:
    row = {"id": 1, "full_name": "Ann", "tags": ["a"], "at": 1767225600000001}
    inserted = {"id": 1, "name": b"Ann", "tags": [b"a"], "op": b"c", "version": 5, "is_deleted": 0}
    values = data(
        event("c", after=row),
        wrapped(event("u", 6, before=row, after={**row, "full_name": "Bob"})),
        event("r", after=row),
        event("d", 7, before=row),
        wrapped(event("d", 8, before={"id": 1, "full_name": None})),
        None,
        event("d", 9),
        wrapped(event("d", 9)),
    )
    keys = data(*[{"id": 2}] * 7, wrapped({"id": 3}))
    found = outcomes(SETTINGS, COLUMNS, values, keys)

    assert [str(row.pop("at"))[:26] for row in found if isinstance(row, dict)] == [
        *["2026-01-01 00:00:00.000001"] * 4,
        *["None"] * 3,
    ]
    without: dict[str, Any] = {"name": None, "tags": [], "op": b"d", "is_deleted": 1}
    assert found == [
        inserted,
        {**inserted, "name": b"Bob", "op": b"u", "version": 6},
        {**inserted, "op": b"r"},
        {**inserted, "op": b"d", "version": 7, "is_deleted": 1},
        {**without, "id": 1, "version": 8},
        "None: value is null (a tombstone)",
        {**without, "id": 2, "version": 9},
        {**without, "id": 3, "version": 9},
    ]


ROW = {"id": 1, "full_name": "Ann", "tags": []}
MESSY: list[tuple[Any, Any, str]] = [
    (event("t"), None, "None: a truncate, which is not a row"),
    (event("m"), None, "None: a message, which is not a row"),
    (event("x", after=ROW), None, "None: not a change event of Debezium: it has no op"),
    (ROW, None, "None: not a change event of Debezium: it has no op"),
    ({**event("c", after=ROW), "payload": event("c", after=ROW)}, None, "None: not a change event of Debezium: it has no op"),
    ({"payload": "x", "op": "c"}, None, "None: a string at $.payload, not an object"),
    (event("c"), None, "None: no object at $.after"),
    (wrapped(event("u", after=[1])), None, "None: an array at $.payload.after, not an object"),
    (event("c", after={**ROW, "id": "x"}), None, "id: a string that is not a number in UInt32"),
    (event("c", -1, after=ROW), None, "version: out of range for UInt64"),
    ({**event("c", after=ROW), "source": None}, None, "version: missing or null, and the column has no DEFAULT and is not Nullable"),
    (event("u", after={**ROW, "full_name": "__debezium_unavailable_value"}), None, "None: holds Debezium's placeholder for a value that the database did not send"),
    (event("u", after={**ROW, "full_name": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}), None, "None: holds Debezium's placeholder for a value that the database did not send"),
    (event("u", after={**ROW, "full_name": b"__debezium_unavailable_value".hex()}), None, "None: holds Debezium's placeholder for a value that the database did not send"),
    (event("u", after={**ROW, "other": list(b"__debezium_unavailable_value")}), None, "None: holds Debezium's placeholder for a value that the database did not send"),
    (event("d"), None, "None: a delete without `before`, whose key is not a primary key"),
    (event("d"), {"x": 1}, "None: a delete without `before`, whose key is not a primary key"),
    (event("d"), b"junk", "None: a delete without `before`, whose key is not a primary key"),
    (event("d", before={"full_name": "x"}), {"id": 1}, "id: missing or null, and the primary key of a delete"),
    (b'{"op":"c","op":"d","after":{}}', None, "None: the field op is given twice"),
    (b'{"op":"c","after":{"id":1},"after":{"id":2}}', None, "None: the field after is given twice"),
    (b"{", None, "None: not valid JSON at byte 1"),
    (b"", None, "None: the value is empty"),
]  # fmt: skip


def test_a_messy_event_is_bad_and_leaves_its_neighbours() -> None:
    good = event("c", after=ROW)
    values = data(*(each for value, _, _ in MESSY for each in (good, value)), good)
    keys = data(*(each for _, key, _ in MESSY for each in (None, key)), None)
    found = outcomes(SETTINGS, COLUMNS, values, keys)

    assert found[1::2] == [reason for _, _, reason in MESSY]
    assert found[::2] == outcomes(SETTINGS, COLUMNS, data(good)) * (len(MESSY) + 1)


def test_events_that_are_read_again_because_they_are_no_plain_changes() -> None:
    good = event("c", after=ROW)
    values = data(*(each for value, _, _ in MESSY for each in (*[good] * 9, value)))
    keys = data(*(each for _, key, _ in MESSY for each in (*[None] * 9, key)))
    found = outcomes(SETTINGS, COLUMNS, values, keys)

    assert found[9::10] == [reason for _, _, reason in MESSY]
    assert [row for at, row in enumerate(found) if at % 10 != 9] == outcomes(SETTINGS, COLUMNS, data(good)) * 9 * len(
        MESSY
    )


def test_a_delete_by_its_key_does_not_look_into_after() -> None:
    """⚑ In a batch it was a row; alone it had no object at ``$.after``."""
    values, keys = data(*[{**event("d"), "after": "x"}] * 2, event("d")), data(*[{"id": 7}] * 3)
    found = outcomes(SETTINGS, COLUMNS, values, keys)

    assert found == alone(SETTINGS, COLUMNS, values, keys=keys)
    assert [row["id"] for row in found] == [7, 7, 7]


def test_a_column_may_be_named_like_a_path() -> None:
    columns = (COLUMNS[0], Column("$.op", "String"), Column("$.payload.op", "String"))
    row = {"id": 1, "$.op": "mine", "$.payload.op": "d"}

    assert outcomes(Debezium(type="debezium"), columns, data(event("c", after=row))) == [
        {"id": 1, "$.op": b"mine", "$.payload.op": b"d"}
    ]


EVENTS = st.builds(
    lambda op, row, old, wrap, more: (wrapped if wrap else dict)({**event(op, before=old, after=row), **more}),
    st.sampled_from("crudtx"),
    st.sampled_from([None, ROW, {"id": 2}, {"id": -1, "full_name": "x"}, "x"]),
    st.sampled_from([None, ROW, {"id": 2}, {}]),
    st.booleans(),
    st.sampled_from([{}, {"source": {}}, {"op": None}, {"payload": {"op": "c"}}]),
)
KEYS = st.sampled_from(data(None, {"id": 7}, wrapped({"id": 8}), {"id": "x"}, b"["))


@hypothesis(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(EVENTS | st.none() | st.sampled_from([b"", b"{}", b"["]), KEYS), max_size=10))
def test_a_batch_is_its_records(records: list[tuple[Any, bytes | None]]) -> None:
    values, keys = data(*(value for value, _ in records)), [key for _, key in records]

    expected = alone(SETTINGS, COLUMNS, values, keys=keys)
    assert outcomes(SETTINGS, COLUMNS, values, keys) == expected
    many = data(event("u", after=ROW)) * 8 * len(values)
    assert outcomes(SETTINGS, COLUMNS, many + values, [None] * len(many) + keys)[len(many) :] == expected


def test_without_a_primary_key_a_delete_needs_all_columns() -> None:
    settings = Debezium(type="debezium", deleted_column="is_deleted")
    columns = (COLUMNS[0], COLUMNS[1], COLUMNS[-1])
    values = data(event("d", before={"id": 1, "name": "x"}), event("d", before={"id": 1}), event("d"))

    assert outcomes(settings, columns, values) == [
        {"id": 1, "name": b"x", "is_deleted": 1},
        "name: missing or null, and the column has no DEFAULT and is not Nullable",
        "None: no object at $.before",
    ]


def test_a_delete_that_no_column_marks_is_bad() -> None:
    values = data(event("d", before={"id": 1}), event("c", after={"id": 1}))

    assert outcomes(Debezium(type="debezium"), COLUMNS[:1], values) == [
        "None: a delete, and the route's format names no deleted_column",
        {"id": 1},
    ]


@pytest.mark.parametrize("option", ["version_column", "deleted_column"])
def test_the_columns_of_options_must_exist(option: str) -> None:
    with pytest.raises(PreflightError) as caught:
        outcomes(Debezium.model_validate({"type": "debezium", option: "x"}), COLUMNS, [])
    assert caught.value.id == "CHS-212"
