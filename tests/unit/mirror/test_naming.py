"""Tables that records name by ``others``: which values do, and where such a table begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.config import Config
from chsink.config.mirror import Mirror
from chsink.errors import HaltError, services
from chsink.formats.table_by import Choice
from chsink.mirror.choosing import Choosing
from chsink.mirror.lacking import tables_named_by
from chsink.mirror.named_tables import begin_tables
from chsink.mirror.shared_topics import SharedTopics
from chsink.mirror.sharing import sharing_of
from chsink.mirror.tables import PropertyKeys
from chsink.statemachine.commit.chain import Chain, Link, StoredShare
from chsink.statemachine.commit.handover import Beginning, TablePlace, begin
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import TopicPartition

TP = TopicPartition("t", 0)


def mirror(others: str = "shop.of_{value}", **more: Any) -> Mirror:
    by = {"column": "key", "tables": {"order": "shop.orders"}, "others": others, **more}
    return Mirror.model_validate({"auto_create": True, "route": [{"topic": "t", "table_by": by}]})


def choices(of: Mirror, *named: str) -> dict[str, Choice | None]:
    return {route.table: route.choice for route in of.with_named({"shop.orders": named}).routes}


def records(*keys: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.binary()), "value": pa.array([b"{}"] * len(keys))})


def missing(of: Mirror, keys: list[bytes | None], *named: str) -> dict[str, list[bytes]]:
    chosen = Choosing(choices(of, *named)).of(records(*keys))
    assert {table for table, _, _ in chosen.missing()} <= {"shop.orders"}
    return {name: mine.column("key").to_pylist() for _, name, mine in chosen.missing()}


def test_a_value_in_lower_case_is_the_name() -> None:
    """⚑ What is no name is a bad value, reported once; so is a record without a value."""
    keys = [b"Refund", b"order", b"a b", b"", None, b"REFUND", b"x.y", "ü".encode(), b"\xff", b"g\n", b"x" * 129]
    assert missing(mirror(), keys) == {"shop.of_refund": [b"Refund", b"REFUND"]}
    chosen = Choosing(choices(mirror())).of(records(*keys))
    assert [bad.row for bad in chosen("shop.orders")[1]] == [2, 3, 4, 6, 7, 8, 9, 10]
    ignored = Choosing(choices(mirror(unknown="ignore"))).of(records(*keys))
    assert ignored("shop.orders")[1] == [] and [name for _, name, _ in ignored.missing()] == ["shop.of_refund"]


def test_where_only_the_value_separates_it_has_to() -> None:
    assert missing(mirror("{value}"), [b"Shop.Orders", b"x", b".x", b"a.b.c"]) == {
        "shop.orders": [b"Shop.Orders"],
        "a.b.c": [b"a.b.c"],
    }
    assert missing(mirror("{value}.events"), [b"Air", b"a.b"]) == {"air.events": [b"Air"]}


def test_a_table_that_exists_takes_the_values_that_name_it() -> None:
    """⚑ But those that the job file lists; and one of the job file may be named, too."""
    of = mirror("shop.{value}", tables={"order": "shop.orders", "gift": "shop.gifts"})
    keys = [b"Refund", b"gift", b"GIFTS", b"refund", b"Orders", b"order", b"new"]
    named = choices(of, "shop.refund", "shop.gifts", "shop.orders", "lake.other", "shop.UPPER")
    chosen = Choosing(named).of(records(*keys))
    assert {name: chosen(name)[0].column("key").to_pylist() for name in named} == {
        "shop.orders": [b"Orders", b"order"],
        "shop.gifts": [b"gift", b"GIFTS"],
        "shop.refund": [b"Refund", b"refund"],
    }
    assert [name for _, name, _ in chosen.missing()] == ["shop.new"]


def test_without_tables_that_records_name_a_choice_is_what_it_was() -> None:
    """A fingerprint that changed would be a changed map."""
    assert Choice("field", "kind", ("a",), ("a",)).part() == [1, "field", "kind", ["a"], ["a"]]


@given(
    committed=st.one_of(st.none(), st.integers(0, 9)),
    until=st.lists(st.integers(0, 9), min_size=2, max_size=2),
    new=st.integers(1, 3),
    waiting=st.booleans(),
    added_now=st.booleans(),
)
def test_it_begins_where_the_topics_other_tables_are(
    committed: int | None, until: list[int], new: int, waiting: bool, added_now: bool
) -> None:
    """⚑ F-3: where the others lack something, it may be one of its records.  Below, no record names it."""
    held = dict(zip(["shop.orders", "shop.of_a"], until, strict=True))
    places = placed(held, [f"shop.of_n{n}" for n in range(new)], added_now=added_now)
    found = begin("id", committed, places.values(), 0, waiting=waiting)

    reached = max(until)
    assert {name for name, place in places.items() if place.joins} == places.keys() - held.keys()
    origin = max(until) if committed is None and not reached else min(until)
    assert (found.halt, found.origin) == (None, origin), "nothing is waited for"
    assert found.group == (reached if committed is None or committed < reached else None)


def placed(
    held: dict[str, int], new: list[str], *, created_again: str = "", resolved_at: int | None = None, added_now: bool
) -> dict[str, TablePlace]:
    """Where tables are that ``held`` the topic up to these offsets, and others that records named."""
    listed = [*(name for name in held if name != "shop.orders"), *new]
    sharing = sharing_of(cast(Any, choices(mirror())))
    assert sharing.tables == {"shop.orders", "shop.of_{value}"}
    target = SimpleNamespace(topics={"t"}, sharing={"t": sharing}, table=Listed(*listed))
    topics = SharedTopics(
        cast(Any, SimpleNamespace(targets=dict.fromkeys(["shop.orders", *listed], target))), added_now=added_now
    )
    reads = {}
    for name in ["shop.orders", *listed]:
        links = {TP: Link("id", 0, held[name], sharing.choice)} if name in held else {}
        shared, uuid = {TP: StoredShare(sharing, 0, 0)} if name in held else {}, f"uuid of {name}"
        if name == created_again:
            links, shared, uuid = {}, {}, "another"
            if resolved_at is not None:  # `mirror resolve` stores both
                links = {TP: Link("id", resolved_at, resolved_at, sharing.choice)}
                shared = {TP: StoredShare(sharing, resolved_at, 0)}
        table = Listed(*(listed if name == "shop.orders" else [])).load()
        view = SimpleNamespace(shared=shared, uuid=uuid)
        reads[name] = (SimpleNamespace(view=view, table=table), Chain(links=links))
    return topics.places([TP], cast(Any, reads), {TP: ""})[TP]


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize(
    ("added_now", "resolved_at", "expected"),
    [
        (False, None, Beginning("TABLE_UNKNOWN", halt=CommitHalt.CHAIN_MISSING)),
        (True, None, Beginning("JOINS", origin=8)),
        (False, 0, Beginning("KEPT")),
        (False, 8, Beginning("KEPT")),
    ],
)
def test_one_that_was_created_again_does_not_begin_by_itself(
    resolved_at: int | None, expected: Beginning, *, added_now: bool, waiting: bool
) -> None:
    """⚑ What it held was lost silently.  ⚑ Once a person has decided, CHS-352 followed."""
    held = {"shop.orders": 8, "shop.of_a": 8}
    places = placed(held, [], created_again="shop.of_a", resolved_at=resolved_at, added_now=added_now)
    assert begin("id", 8, places.values(), 0, waiting=waiting) == expected


class Listed:
    """A table that lists others."""

    keys = PropertyKeys("g", "c")

    def __init__(self, *names: str) -> None:
        self.properties = {self.keys.named(name): f"uuid of {name}" for name in names}

    def load(self) -> Any:
        return SimpleNamespace(metadata=SimpleNamespace(properties=self.properties))


def test_too_many_are_named_before_one_is_created() -> None:
    job = Config.from_mapping({
        "sink": {"name": "s"},
        "kafka": {"bootstrap": "k:1"},
        "mirror": {
            "enabled": True, "auto_create": True, "catalog": {"name": "lake"},
            "route": [{"topic": "t", "table_by": {
                "column": "key", "tables": {"o": "shop.o"}, "others": "shop.of_{value}", "max_tables": 3}}],
        },
    })  # fmt: skip
    opened: Any = SimpleNamespace(
        config=job, names=None, targets={"shop.o": SimpleNamespace(table=Listed("shop.of_a", "shop.of_b"))}
    )
    error = services.MIRROR_TABLES_BEGIN(tp="t-0", tables='{"shop.of_x": {}, "shop.of_y": {}, "lake.z": {}}')

    def never(*_: object) -> str:
        raise AssertionError

    with pytest.raises(HaltError, match=r"CHS-360.*more Iceberg tables than the 3 .*: shop.of_x, shop.of_y\n"):
        begin_tables(opened, error, never)


def test_what_several_tasks_named_is_created_once() -> None:
    field = '{"id": 0, "name": "n", "type": "%s", "required": false}'
    errors = [
        services.MIRROR_TABLES_BEGIN(tp=f"t-{n}", tables='{"shop.x": {"n": %s}}' % (field % kind))
        for n, kind in enumerate(("long", "double"))
    ]
    from chsink.errors.several import several

    found = tables_named_by(several(errors))
    assert {t: {n: str(c["n"].field_type) for n, c in of.items()} for t, of in found.items()} == {
        "t": {"shop.x": "double"}
    }


def test_the_job_file_says_what_is_wrong() -> None:
    def problems(route: dict[str, Any], **more: Any) -> str:
        with pytest.raises(ValueError, match="CHS-106") as raised:
            Config.from_mapping({
                "sink": {"name": "s"},
                "kafka": {"bootstrap": "k:1"},
                "mirror": {"enabled": True, "catalog": {"name": "lake"}, **more, "route": [{"topic": "t", **route}]},
            })  # fmt: skip
        return str(raised.value)

    by = {"column": "key", "tables": {"o": "shop.o"}}
    named = {"table_by": {**by, "others": "shop.{value}"}}
    assert "auto_create is off" in problems(named)
    assert "auto_create is off" in problems({**named, "auto_create": False}, auto_create=True)
    assert "the coordinator does not learn" in problems(named, auto_create=True, coordinator="apart")
    assert "must contain {value} once" in problems({"table_by": {**by, "others": "shop.x"}}, auto_create=True)
    assert "nothing defines the placeholder {x}" in problems(
        {"table_by": {**by, "others": "{x}.{value}"}}, auto_create=True
    )
    assert "it names no table" in problems({"table_by": {"column": "key", "others": "shop.{value}"}}, auto_create=True)
