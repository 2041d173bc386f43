"""Where the parser, left alone, takes what the reference refuses: among good rows, only the bad one is left out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from chsink.decode import Column, JsonDecoder

WIDE = "12345678901234567890123456789012345678"
CASES = {
    "NaN in an ignored field": ("Int8", b'{"c":1}', b'{"c":1,"z": NaN}'),
    "-NaN": ("Int8", b'{"c":1}', b'{"c":1,"z":[-NaN]}'),
    "Inf in an ignored field": ("Int8", b'{"c":1}', b'{"c":1,"z":{"y":[1,-Inf]}}'),
    "Infinity": ("Int8", b'{"c":1}', b'{"z":Infinity,"c":1}'),
    "NaN in a float": ("Float64", b'{"c":1.5}', b'{"c":NaN}'),
    "NaN as the record's first token": ("Int8", b'{"c":1}', b"NaN"),
    "too deep": ("Int8", b'{"c":1}', b'{"c":1,"z":' + b"[" * 300 + b"]" * 300 + b"}"),
    "too deep, brackets in text": ("Int8", b'{"c":1}', b'{"y":"]]\\"}","z":' + b"[" * 300 + b"]" * 300 + b',"c":1}'),
    "not UTF-8 in an ignored field": ("Int8", b'{"c":1}', b'{"c":1,"z":"\xff"}'),
    "an unpaired surrogate as UTF-8": ("Int8", b'{"c":1}', b'{"c":1,"z":"\xed\xa0\x80"}'),
    "two objects": ("Nullable(Int8)", b'{"c":1}', b'{"c":2}{"c":3}'),
    "a faked wrapper": ("Nullable(Int8)", b'{"c":1}', b'{"c":2}}{"r":{"c":3}'),
    "a null record": ("Nullable(Int8)", b'{"c":1}', b"null"),
    "a zero byte": ("Nullable(Int8)", b'{"c":1}', b'{"c":1}\0'),
    "float32 overflow": ("Float32", b'{"c":1.5}', b'{"c":3.5e38}'),
    "decimal with too long an integer part": ("Decimal(4, 2)", b'{"c":1.5}', b'{"c":127}'),
    "decimal that wraps in 128 bits": ("Decimal(38, 10)", b'{"c":1.5}', f'{{"c":{WIDE}}}'.encode()),
    "decimal that wraps in 256 bits": ("Decimal(76, 20)", b'{"c":1.5}', f'{{"c":{WIDE}{WIDE}}}'.encode()),
    "decimal that wraps to zero": ("Decimal(38, 10)", b'{"c":1.5}', f'{{"c":{2**118}}}'.encode()),
    "integer that wraps to zero when read as a decimal": ("Int64", b'{"c":1.0}', f'{{"c":{2**119}}}'.encode()),
    "decimal of too many places": ("Decimal(9, 0)", b'{"c":1}', b'{"c":0.' + b"0" * 50 + b"1}"),
    "decimal of a negative exponent": ("Decimal(38, 0)", b'{"c":1}', b'{"c":-66.560675631495921789068590998681E-38}'),
    "quoted decimal of a negative exponent": ("Decimal(38, 0)", b'{"c":"1"}', b'{"c":"10.4e-38"}'),
    "integer of a negative exponent": ("Int8", b'{"c":1.0}', b'{"c":412.499953004431418886e-30}'),
    "Int128 beyond its range": ("Int128", b'{"c":1}', f'{{"c":{2**127}}}'.encode()),
    "negative UInt256": ("UInt256", b'{"c":1}', b'{"c":-1}'),
    "Enum number that is no member": ("Enum8('a' = 1)", b'{"c":1}', b'{"c":2}'),
    "hexadecimal text as a number": ("Int64", b'{"c":"1"}', b'{"c":"0x1F"}'),
    "nan with a payload": ("Float64", b'{"c":"1.5"}', b'{"c":"nan(1)"}'),
    "overflowing quoted float": ("Float32", b'{"c":"1.5"}', b'{"c":"1e39"}'),
    "two in a Bool": ("Bool", b'{"c":1}', b'{"c":2}'),
    "Date beyond its range": ("Date", b'{"c":"2026-01-01"}', b'{"c":"2149-06-07"}'),
    "DateTime beyond its range": ("DateTime", b'{"c":"2026-01-01"}', b'{"c":"2106-02-07 06:28:16"}'),
    "DateTime with a fraction": ("DateTime", b'{"c":"2026-01-01"}', b'{"c":"2026-01-01 00:00:00.5"}'),
    "DateTime64 before 1900": ("DateTime64(3)", b'{"c":"2026-01-01"}', b'{"c":"1899-12-31"}'),
    "ambiguous DateTime64": ("DateTime64(3)", b'{"c":1767225600123}', b'{"c":1767225600}'),
    "a skipped local time": ("DateTime('Europe/Berlin')", b'{"c":"2026-01-01"}', b'{"c":"2026-03-29 02:30:00"}'),
    "FixedString too long": ("FixedString(2)", b'{"c":"ab"}', '{"c":"é€"}'.encode()),
    "UUID with a wrong digit": (
        "UUID", b'{"c":"123e4567-e89b-12d3-a456-426614174000"}', b'{"c":"123e4567-e89b-12d3-a456-42661417400g"}',
    ),
    "UUID with a wrong hyphen": (
        "UUID", b'{"c":"123e4567-e89b-12d3-a456-426614174000"}', b'{"c":"123e4567-e89b-12d3-a456_426614174000"}',
    ),
    "null in an array": ("Array(Int8)", b'{"c":[1]}', b'{"c":[1,null]}'),
    "null in a tuple": ("Tuple(a Int8)", b'{"c":{"a":1}}', b'{"c":{}}'),
    "null missing": ("Int8", b'{"c":1}', b"{}"),
    "repeated field": ("Int8", b'{"c":1}', b'{"c":1,"c":1}'),
    "repeated member": ("Tuple(a Int8)", b'{"c":{"a":1}}', b'{"c":{"a":1,"a":1}}'),
    "repeated map field": ("Map(String, Int8)", b'{"c":{"a":1}}', b'{"c":{"a":1},"c":{}}'),
    "repeated raw field": ("Dynamic", b'{"c":5}', b'{"c":5,"c":6}'),
    "repeated raw field, escaped": ("Dynamic", b'{"c":5}', b'{"c":5,"\\u0063":6}'),
    "repeated mixed text": ("String", b'{"c":5}', b'{"c":5,"c":"x"}'),
    "repeated map key": ("Map(String, Int8)", b'{"c":{"a":1,"b":2}}', b'{"c":{"a":1,"a":2}}'),
    "map key repeated in other words": ("Map(UInt8, Int8)", b'{"c":{"1":1}}', b'{"c":{"1":1,"01":2}}'),
    "null map value": ("Map(String, Int8)", b'{"c":{"a":1}}', b'{"c":{"a":null}}'),
    "repeated key in a document": ("JSON", b'{"c":{"a":1}}', b'{"c":{"a":{"b":1,"b":2}}}'),
    "repeated path in a document": ("JSON", b'{"c":{"a":1}}', b'{"c":{"a":{"b":1},"a.b":2}}'),
    "map value of the wrong kind": ("Map(String, Nullable(Enum8('a' = 1)))", b'{"c":{"k":"a"}}', b'{"c":{"k":"b"}}'),
    "infinite number in a document": ("JSON", b'{"c":{"a":1}}', b'{"c":{"a":1e400}}'),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_only_the_bad_row_is_left_out(name: str) -> None:
    kind, good, bad = CASES[name]
    records = [good] * 50 + [bad] + [good] * 50
    decoded = JsonDecoder([Column("c", kind)], timezone="UTC").decode(pa.array(records, pa.binary()))
    assert [entry.row for entry in decoded.bad] == [50]
    assert len(set(map(repr, decoded.batch.to_pylist()))) == 1


NESTED = [Column("n.a", "Array(UInt8)"), Column("n.b", "Array(Nullable(String))")]


@pytest.mark.parametrize("good", [b'{"n.a":[1],"n.b":["x"]}', b'{"n":[{"a":1,"b":"x"}]}', b'{"n":{"a":[1],"b":["x"]}}'])
@pytest.mark.parametrize(
    "bad",
    [
        b'{"n.a":[1],"n.b":[]}',
        b'{"n":{"a":[1],"b":[]}}',
        b'{"n":[{"a":1},null]}',
        b'{"n":[{"b":"x"}]}',
        b'{"n":[],"n.a":[],"n.b":[]}',
        b'{"n":{},"n.a":[1],"n.b":["x"]}',
        b'{"n":[{"a":1,"a":2}]}',
        b"{}",
    ],
)
def test_nested_columns_that_do_not_add_up(good: bytes, bad: bytes) -> None:
    decoded = JsonDecoder(NESTED, timezone="UTC").decode(pa.array([good] * 50 + [bad] + [good] * 50, pa.binary()))
    assert [entry.row for entry in decoded.bad] == [50]
    assert decoded.batch.to_pylist() == [{"n.a": [1], "n.b": [b"x"]}] * 100


def test_an_object_that_is_null_is_no_row_of_a_nested_column_even_where_all_its_columns_are_nullable() -> None:
    good, bad = b'{"n":[{"b":"x"}]}', b'{"n":[{"b":"x"},null]}'
    decoded = JsonDecoder(NESTED[1:], timezone="UTC").decode(pa.array([good] * 50 + [bad], pa.binary()))
    assert [entry.row for entry in decoded.bad] == [50]
