"""No record, however broken, may shift, merge or change its neighbours."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chsink.decode import Column, JsonDecoder
from chsink.decode.exact import ExactDecoder
from chsink.decode.fast import FastPlan
from chsink.decode.fields import fields_of
from chsink.decode.refused_texts import Refused
from tests.support.examples import examples

COLUMNS = [Column("a", "Nullable(Int64)"), Column("s", "Nullable(String)")]
# Pieces that close, open or fake the wrapping around a record, and what ends or hides text.
PIECES = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "\\",
    "\n",
    "\r",
    "\0",
    " ",
    "1",
    "null",
    "{}",
    "[]",
    '""',
    '{"r":',
    '}\n{"r":',
    "}}{",
    '{"r":{',
    '"a":1',
    '{"a":1}',
    '{"a":1',
    ',"a":2}',
    '"r":{"a":3}',
    '"s":"',
    '\\"',
    "\\u0000",
    '{"s":"x\ny"}',
    "/*",
    "//",
    '{"m":{"k":1}}',
    '"m":{"k":1',
    "\ufeff",
    "\u2028",
    "NaN",
    "}\n",
    '{"s":"}\\n{"}',
]
junk = st.lists(st.sampled_from(PIECES), max_size=8).map(lambda pieces: "".join(pieces).encode())


def good(at: int) -> bytes:
    return json.dumps({"a": at, "s": f"row {at}"}).encode()


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), junk), min_size=1, max_size=5))
@example([(50, b'{}}{"r":{}')])
@example([(50, b'{"a":1'), (51, b',"a":2}')])
@example([(10, b'{"a":1}{"a":2}'), (20, b'{"a":1}\0')])
@example([(10, b'{}}{"r":{}'), (100, b"{}}\0")])
@example([(10, b'{"s":"'), (11, b'"}')])
@example([(10, b'{"s":"'), (11, b'"}'), (99, b'{}}{"r":{}')])
@example([(10, b'{"z":[{"r":1}'), (11, b"]}")])
@example([(10, b'{"z":['), (11, b'{"a":1}]}')])
@example([(10, b'{"z":['), (11, b'{"a":1}]}'), (12, b'{"a":2}{"a":3}')])
def test_neighbours_of_junk_are_untouched(placed: list[tuple[int, bytes]]) -> None:
    records: list[bytes | None] = [good(at) for at in range(101)]
    for at, bad in placed:
        records[at] = bad
    decoded = JsonDecoder(COLUMNS, timezone="UTC").decode(pa.array(records, pa.binary()))
    rows = range(101) if decoded.rows is None else decoded.rows.to_pylist()
    found = dict(zip(rows, decoded.batch.to_pylist(), strict=True))
    for at in set(range(101)) - {at for at, _ in placed}:
        assert found[at] == {"a": at, "s": f"row {at}".encode()}


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(junk, min_size=1, max_size=4))
@example([b'{}}{"r":{}', b"{}}\0"])
@example([b'{}}{"r":{}', b""])
@example([b"{}", b"\n", b'{}}{"r":{}'])
@example([b'{"s":"', b'"}', b'{}}{"r":{}'])
@example([b'{"a":1},"s":"x"'])
@example([b'{"a":1},"z":{}'])
@example([b'{"z":[', b'{"a":1}]}', b'{"a":2}{"a":3}'])
def test_a_block_of_junk_passes_only_if_each_record_is_one_object(records: list[bytes]) -> None:
    fields = fields_of(COLUMNS, "UTC")
    reference = ExactDecoder(fields)
    try:
        arrays, suspects = FastPlan(fields, []).run(pa.array(records, pa.binary()))
    except Refused:
        return
    expected, reasons = reference.decode(records)
    if suspects is None:
        assert not reasons
        assert [array.to_pylist() for array in arrays] == [array.to_pylist() for array in expected]
    else:
        assert set(reasons) <= {at for at, suspect in enumerate(suspects) if suspect}


@pytest.mark.parametrize("kind", ["Int64", "String", "Map(String, Int8)", "JSON", "Array(Int8)"])
def test_one_bad_record_among_many_leaves_all_others(kind: str) -> None:
    value = {"Int64": 7, "String": "x"}.get(kind, {"k": 1} if kind[0] in "MJ" else [1])
    records = [json.dumps({"c": value}).encode()] * 40_000
    records[12_345] = b'{"c": 1.5}' if kind == "Int64" else b'{"c": '
    decoded = JsonDecoder([Column("c", kind)], timezone="UTC").decode(pa.array(records, pa.binary()))
    assert [bad.row for bad in decoded.bad] == [12_345]
    assert decoded.rows is not None
    assert decoded.rows.to_pylist() == [*range(12_345), *range(12_346, 40_000)]
    assert len(set(map(repr, decoded.batch.slice(0, 100).to_pylist()))) == 1


def test_the_marker_is_in_every_row_and_guards_against_rows_that_one_record_adds_and_another_hides() -> None:
    fields = fields_of(COLUMNS, "UTC")
    for records in ([b'{"z":[', b'{"a":1}]}', b'{"a":2}{"a":3}'], [b'{"a":2}{"a":3}', b'{"z":{"y":', b'{"a":1}}}']):
        with pytest.raises(Refused):
            FastPlan(fields, []).run(pa.array(records, pa.binary()))
