"""A block with some bad records costs a few reads of it, and every record has the outcome that it has alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from chsink.decode import json_decoder
from chsink.decode.codec import Suspects
from chsink.decode.columns import Column
from chsink.decode.exact import ExactDecoder
from chsink.decode.fast import FastPlan
from chsink.decode.json_decoder import JsonDecoder

COLUMNS = [
    Column("id", "UInt32", "", ""),
    Column("name", "String", "", ""),
    Column("flag", "Bool", "", ""),
    Column("price", "Decimal(9, 2)", "", ""),
    Column("tags", "Array(String)", "", ""),
    Column("class", "Nullable(Float64)", "", ""),
    Column("at", "Nullable(DateTime64(3))", "", ""),
    Column("day", "Nullable(Date32)", "", ""),
    Column('odd"\\\n', "Nullable(UInt8)", "", ""),
]
GOOD = b'{"id":%d,"name":"n","flag":true,"price":1.5,"tags":["a"],"class":null,"at":"2026-01-02T03:04:05.678"}'
BAD = (
    b'{"id":"none"}', b"{", b'{"id":1,"name":{}}', b'{"id":1,"tags":"a"}', b'{"id":1,"price":[]}', b"\xff\xfe", b"[]",
    b'{"id":1,"flag":"maybe"}', b'{"id":-1}', b'{"id":1}{}', b'{"id":true}', b'{"id":1,"name":7}', b'{"id":1,"class":"x"}',
    b'{"id":1,"at":"yesterday"}', b'{"id":1,"at":"2026-01-02 03:04"}', b'{"id":1,"at":"","day":"2026-01-02"}',
    b'{"id":1,"odd\\"\\\\\\n":"x"}', b'{"id":1,"odd\\"\\\\\\n":7}',
)  # fmt: skip


def values(count: int) -> list[bytes]:
    """Every fiftieth is odd in one way or another."""
    return [BAD[n // 50 % len(BAD)] if n % 50 == 7 else GOOD % n for n in range(count)]


@pytest.mark.parametrize(
    "odd",
    [
        b'{"id":1,"at":"2026-02-30T00:00:00.000"}',  # of the shape of good ones
        b'{"id":1,"at":"2026-01-02T03:04:05.678Z"}',  # another notation, and good
        b'{"id":1,"at":null,"day":"2026-02-30"}',
        '{"id":1,"at":"٢٠٢٦"}'.encode(),
    ],
)
def test_texts_that_a_column_refuses_cost_no_other_record_its_fast_way(
    odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚑ Such a block was cut down to each bad record: 1 % of them cost 70 times the decoding."""
    decided: list[int] = []
    decode = ExactDecoder.decode

    def counted(reference: ExactDecoder, some: list[bytes]) -> Any:
        decided.append(len(some))
        return decode(reference, some)

    monkeypatch.setattr(ExactDecoder, "decode", counted)
    records = [odd if n % 100 == 7 else GOOD % n for n in range(2 * json_decoder.CUT_ROWS)]
    decoder = JsonDecoder(COLUMNS, timezone="UTC")

    whole = decoder.decode(pa.array(records, pa.binary()))

    assert sum(decided) <= records.count(odd)
    alone = {record: decoder.decode(pa.array([record], pa.binary())) for record in (odd, GOOD % 0)}
    assert bool(whole.bad) == bool(alone[odd].bad)
    assert {(b.column, b.reason) for b in whole.bad} == {(b.column, b.reason) for b in alone[odd].bad}
    assert [b.row for b in whole.bad] == ([n for n, r in enumerate(records) if r == odd] if alone[odd].bad else [])
    kept = [r for r in records if r != odd or not alone[odd].bad]
    ats = {True: alone[odd].batch.column("at").to_pylist(), False: alone[GOOD % 0].batch.column("at").to_pylist()}
    assert whole.batch.column("at").to_pylist() == [ats[r == odd][0] for r in kept]


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
