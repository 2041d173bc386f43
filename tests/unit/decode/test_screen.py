"""A block with some bad records costs a few reads of it, and every record has the outcome that it has alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from chsink.decode import json_decoder
from chsink.decode.codec import Suspects
from chsink.decode.columns import Column
from chsink.decode.fast import FastPlan
from chsink.decode.json_decoder import JsonDecoder

COLUMNS = [
    Column("id", "UInt32", "", ""),
    Column("name", "String", "", ""),
    Column("flag", "Bool", "", ""),
    Column("price", "Decimal(9, 2)", "", ""),
    Column("tags", "Array(String)", "", ""),
    Column("class", "Nullable(Float64)", "", ""),
]
GOOD = b'{"id":%d,"name":"n","flag":true,"price":1.5,"tags":["a"],"class":null}'
BAD = (
    b'{"id":"none"}', b"{", b'{"id":1,"name":{}}', b'{"id":1,"tags":"a"}', b'{"id":1,"price":[]}', b"\xff\xfe", b"[]",
    b'{"id":1,"flag":"maybe"}', b'{"id":-1}', b'{"id":1}{}', b'{"id":true}', b'{"id":1,"name":7}', b'{"id":1,"class":"x"}',
)  # fmt: skip


def values(count: int) -> list[bytes]:
    """Every fiftieth is odd in one way or another."""
    return [BAD[n // 50 % len(BAD)] if n % 50 == 7 else GOOD % n for n in range(count)]


def test_a_block_with_bad_records_is_read_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    records, decoder = values(4 * json_decoder.CUT_ROWS), JsonDecoder(COLUMNS, timezone="UTC")
    runs: list[int] = []
    run = FastPlan.run

    def counted(plan: FastPlan, block: Any) -> tuple[list[Any], Suspects]:
        runs.append(len(block))
        return run(plan, block)

    monkeypatch.setattr(FastPlan, "run", counted)

    whole = decoder.decode(pa.array(records, pa.binary()))

    assert len(runs) < 10, "without the look at each record, one read and more for each bad one"
    alone = [decoder.decode(pa.array([record], pa.binary())) for record in records]
    assert whole.batch.to_pylist() == [row for one in alone for row in one.batch.to_pylist()]
    assert [(b.column, b.reason) for b in whole.bad] == [(b.column, b.reason) for one in alone for b in one.bad]
    assert [b.row for b in whole.bad] == [at for at, one in enumerate(alone) if one.bad]
