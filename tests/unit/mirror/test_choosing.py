"""Which table takes a record, and what 300 tables hold in memory."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from chsink.formats.table_by import Choice
from chsink.mirror.choosing import Choosing
from chsink.mirror.files import HELD_BYTES
from chsink.mirror.sharing import sharing_of
from chsink.mirror.worker import _relieve
from chsink.statemachine.commit.chain import Sharing

ORDERS = Choice("field", "$.type", ("order",), ("order", "refund"))
REFUNDS = Choice("field", "$.type", ("refund",))


def records(*values: bytes | None, keys: list[bytes | None] | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({
        "value": pa.array(values, pa.binary()),
        "key": pa.array(keys or [None] * len(values), pa.binary()),
    })  # fmt: skip


def test_each_record_goes_to_the_table_that_it_names() -> None:
    order, refund = b'{"type": "order"}', b'{"type": "refund"}'
    chosen = Choosing({"o": ORDERS, "r": REFUNDS, "all": None}).of(records(order, refund, order))

    assert chosen("o")[0].column("value").to_pylist() == [order, order]
    assert chosen("r")[0].column("value").to_pylist() == [refund]
    assert chosen("all")[0].num_rows == 3
    assert all(not chosen(name)[1] for name in ("o", "r", "all"))


def test_one_table_reports_the_records_of_no_table() -> None:
    chosen = Choosing({"o": ORDERS, "r": REFUNDS}).of(records(b'{"type": "x"}', b"{}", None, b"{"))
    own, strays = chosen("o")

    assert own.num_rows == 0 and chosen("r")[1] == []
    assert [(bad.row, bad.tombstone) for bad in strays] == [(0, False), (1, False), (2, True), (3, False)]


def test_a_pattern_takes_whole_values_that_no_table_names() -> None:
    """F-2: ``eu`` does not take ``europe``; two matches are both tables'."""
    every = ("eu", "e.*")
    choices: dict[str, Choice | None] = {
        "x": Choice("column", "key", ("ex",), ("ex",), known_patterns=every),
        "eu": Choice("column", "key", (), patterns=("eu",), named=("ex",)),
        "e": Choice("column", "key", (), patterns=("e.*",), named=("ex",)),
    }
    keys = [b"eu", b"europe", b"ex", b"us", None, "e\xe9".encode(), b"e\n"]
    chosen = Choosing(choices).of(records(*[None] * 7, keys=keys))
    taken = {name: chosen(name)[0].column("key").to_pylist() for name in choices}

    assert taken == {"x": [b"ex"], "eu": [b"eu"], "e": [b"eu", b"europe", "e\xe9".encode()]}
    assert [bad.row for bad in chosen("x")[1]] == [3, 4, 6]


def test_a_field_is_read_once_for_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    from chsink.formats.table_by_decoder import RecordChooser

    read = list[object]()
    said = RecordChooser.said

    def counted(chooser: RecordChooser, batch: pa.RecordBatch) -> object:
        read.append(chooser)
        return said(chooser, batch)

    monkeypatch.setattr(RecordChooser, "said", counted)
    names = {f"t{n}": Choice("field", "$.type", (str(n),)) for n in range(5)}
    chosen = Choosing({**names, "k": Choice("column", "key", ("a",))}).of(records(b'{"type": 3}', keys=[b"a"]))

    assert [name for name in (*names, "k") if chosen(name)[0].num_rows] == ["t3", "k"]
    assert len(read) == 2


def test_tables_together_hold_no_more_than_one_alone() -> None:
    class Held:
        def __init__(self, held: int) -> None:
            self.held = held

        def release(self) -> None:
            self.held = 0

    files = [Held(HELD_BYTES // 2 + n) for n in (3, 1, 2)]
    _relieve(cast("Any", files))

    assert [each.held > 0 for each in files] == [False, True, False]


def test_the_fingerprint_is_of_what_goes_where() -> None:
    one = sharing_of({"o": ORDERS, "r": REFUNDS})

    assert one == sharing_of({"r": REFUNDS, "o": ORDERS}) and one.tables == {"o", "r"}
    assert one.choice != sharing_of({"o": REFUNDS, "r": ORDERS}).choice != sharing_of({"o": ORDERS}).choice
    assert sharing_of({}) == Sharing()
