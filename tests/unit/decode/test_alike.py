"""Records with one skeleton are read as the reference reads them; whatever differs in any way is left to others."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chsink.decode import Column, JsonDecoder
from chsink.decode.alike import AlikeReader, alike
from chsink.decode.exact import ExactDecoder
from chsink.decode.fast import FastPlan
from chsink.decode.field_paths import Places
from chsink.decode.fields import Field, fields_of
from chsink.decode.refused_texts import Refused
from chsink.decode.skeleton import Skeleton, Slot, skeleton_of
from chsink.decode.values import parse_record
from tests.support.examples import examples

KINDS = ["Int64", "UInt64", "Int8", "Float64", "Float32", "Bool", "String", "DateTime", "Date", "UUID"]
EVERY_KIND = [
    *KINDS,
    "Decimal(9, 2)",
    "Decimal(38, 10)",
    "Decimal(76, 20)",
    "Decimal(4, 4)",
    "Decimal(18, 0)",
    "UInt128",
]
ODD_NUMBERS = [
    "0", "-0", "-0.0", "00", "01", "-01", "+1", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1E2", "1e2", "1.0", "1.5", "-", "--1", "1-2",
    "1e400", "-1e400", "1e-400", "1e99999999999", "0x1F", "1_0", "1 2", "1,5", "Infinity", "-Infinity", "NaN", "nan", "1f",
    str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1), str(2**64 - 1), str(2**64), "9" * 90, "127", "128", "300",
    "0.1", "3.4028236e38", "12.34", "-12.30", "1.234", "00.5", "-0.5", "0.00001", "9999999.99", "10000000.00", "-9999999.995", "1.50e1", "1..5", "1.2.3",
    "9" * 28 + ".1234567890", "9" * 29, "9" * 56 + ".5", "9" * 18, "1" + "0" * 17, "1.7976931348623157e308", "9007199254740993.0", "1234567890.12345678901234567890",
]  # fmt: skip
ODD_TEXTS = [
    '""', '"a"', '"1"', '"1.5"', '"01"', '" 1"', '"-0"', '"1e2"', '"NaN"', '"true"', '"null"', '"2026-01-01"', '"2026-01-01 10:00:00"',
    '"12.34"', '"-1.5"', '"1.234"', '"01.50"', '"+1"', '".5"', '"1."', '"1\\u0032"', '"12.34 "', '"\\x"', '"\\u12g4"', '"\\u00e9\\t"', '"\\\\\\""', '"\\',
    '"2026-02-30"', '"é"', '"\u2028"', '"\\n"', '"\\u0061"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\\\"', '"\\""', '"\n"', '"\t"', '"\x00"', '"\x7f"',
    '"a,\\"b\\":1"', '"{"', '"}"', '"[1]"', "'a'", '"123e4567-e89b-12d3-a456-426614174000"', '"', '"a', 'a"', '"\x1f"', '"},{"',
]  # fmt: skip
ODD_VALUES = [
    "null", "true", "false", "nul", "nulll", "True", "truefalse", "null1", "", " ", "1 ", " 1", "[]", "[1,]", "[1 2]", "{}", '{"x":1}', "[" * 300 + "]" * 300,
    '1,"a":2', '1,"b":2', '1,"\\u0061":2', '1,"\\u0063":"x"', "1,", "1,,", '1 "b":2', '1}{"a":2', "1}", '1}{"', "1\n", "\n1", "/*1*/1",
]  # fmt: skip
odd = st.one_of(*map(st.sampled_from, (ODD_NUMBERS, ODD_TEXTS, ODD_VALUES)), st.integers(-(2**65), 2**65).map(str),
                st.floats(allow_nan=False, allow_infinity=False).map(repr))  # fmt: skip
GOOD = {
    "Bool": st.sampled_from(["true", "false"]),
    "String": st.text(st.characters(codec="utf-8"), max_size=9).map(lambda text: json.dumps(text, ensure_ascii=False)),
    "DateTime": st.sampled_from(['"2026-01-01 10:00:00"', '"2026-01-01T10:00:00Z"']),
    "Date": st.just('"2026-01-01"'),
    "UUID": st.uuids().map(lambda uuid: f'"{uuid}"'),
    **dict.fromkeys([kind for kind in EVERY_KIND if kind.startswith("Decimal")], st.one_of(
        st.integers(-999, 999).map(lambda number: f"{number / 100:.2f}"), st.integers(0, 99).map(str),
        st.integers(-999, 999).map(lambda number: f'"{number / 100:.2f}"'),
    )),
}  # fmt: skip
NUMBERS = st.one_of(st.integers(0, 120).map(str), st.integers(0, 120).map(lambda number: f"{number}.25"))
NAMES = ("a", "b", "z", "c", "d")


@st.composite
def texts(draw: st.DrawFn, kind: str) -> bytes:
    """A record: mostly of the same members in the same order, with a good value each; with a few oddities."""
    columns = ("Nullable(Int64)", kind, "ignored", "Nullable(String)", "Float64")
    members = []
    for name, of in zip(NAMES, columns, strict=True):
        good = GOOD.get(
            of.removeprefix("Nullable(").removesuffix(")"), st.integers(0, 120).map(str) if "Int" in of else NUMBERS
        )
        value = draw(odd if draw(st.integers(0, 9)) == 0 else good)
        members.append(f'"{name}":{value}')
    fate = draw(st.integers(0, 39))
    at = draw(st.integers(0, len(members) - 1))
    if fate == 0:
        del members[at]
    elif fate == 1:
        members.append(members[at])
    elif fate == 2:
        members.reverse()
    elif fate == 3:
        members.insert(at, f'"y":{draw(odd)}')
    record = "{" + ",".join(members) + "}"
    whole = record.encode("utf-8", "surrogatepass")
    cut = draw(st.integers(0, len(whole)))
    more = draw(st.sampled_from([b"\xff", b"\0", b"\n", b" ", b'"', b",", b"}", b"\\", b"\xed\xa0\x80"]))
    changed = {
        4: whole[:cut], 5: whole + whole, 6: whole + b" ", 7: b"\xef\xbb\xbf" + whole, 8: b"\n " + whole, 9: whole[:cut] + more + whole[cut:],
        10: whole.replace(b":", b": "), 11: b"", 12: whole + b"}", 13: whole[:cut] + whole[cut + 1 :], 14: whole + b"\r\n", 15: whole + b"\n",
    }  # fmt: skip
    return changed.get(fate, whole)


def outcomes(reference: ExactDecoder, records: list[bytes]) -> list[str]:
    """Of each record: its row, or that it has none."""
    found = []
    for record in records:
        arrays, reasons = reference.decode([record])
        found.append("none" if reasons else repr([array.to_pylist() for array in arrays]))
    return found


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(EVERY_KIND), st.data())
def test_each_record_has_the_row_that_the_reference_gives(kind: str, data: st.DataObject) -> None:
    columns = [
        Column("a", "Nullable(Int64)"),
        Column("b", kind),
        Column("c", "Nullable(String)"),
        Column("d", "Float64"),
    ]
    records = data.draw(st.lists(texts(kind), min_size=2, max_size=12))
    reference = ExactDecoder(fields_of(columns, "Europe/Berlin"))

    decoder = JsonDecoder(columns, timezone="Europe/Berlin")
    for _ in range(2):  # the second time by the plan of the first
        decoded = decoder.decode(pa.array(records, pa.binary()))
        rows = range(len(records)) if decoded.rows is None else decoded.rows.to_pylist()
        found = ["none"] * len(records)
        for at, row in zip(rows, range(decoded.batch.num_rows), strict=True):
            found[at] = repr([column.slice(row, 1).to_pylist() for column in decoded.batch.columns])
        assert found == outcomes(reference, records)


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(EVERY_KIND), st.data())
@example("Int64", None)
def test_what_is_read_at_once_is_what_the_reference_gives(kind: str, data: st.DataObject | None) -> None:
    fields = fields_of([Column("a", "Nullable(Int64)"), Column("b", kind), Column("c", "Nullable(String)")], "UTC")
    records = [b'{"a":1,"b":01}', b'{"a":1,"b":2}'] if data is None else data.draw(st.lists(texts(kind), min_size=1))
    check(fields, records, records)


def check(fields: Sequence[Field], records: list[bytes], like: list[bytes]) -> int:
    """Each record that is read at once must have the reference's row.  Returns how many are."""
    reference = ExactDecoder(fields)
    records = [record for record in records if record[:1] == b"{" and is_utf8(record)]  # as the plan gives them
    plan = FastPlan(fields, [fit for fit in map(reference.fit, like) if fit is not None])
    found = plan._alike.read(pa.array(records, pa.binary())) if plan._alike is not None else None
    if found is None:
        return 0
    read = [record for at, record in enumerate(records) if found[1] is None or not found[1][at]]
    for record in read:
        parse_record(record)
    try:
        arrays, suspects = plan.run(pa.array(read, pa.binary()))
    except Refused:
        return 0
    kept = [record for at, record in enumerate(read) if suspects is None or not suspects[at]]
    expected, reasons = reference.decode(kept)
    assert not reasons
    for array, wire in zip(arrays, expected, strict=True):
        array.validate(full=True)
        assert repr(array.to_pylist()) == repr(wire.to_pylist())
    return len(read)


THIRDS = [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2))]
"""Of what is tried in every place: one in ``make test``, all in ``make soak``."""
PARTS = ["true", "false", "null", "0", "1", "-1", "1.5", "1e5", '"a"', '""', '"', "{", "}", "[", "]", ",", ":", " "]
PARTS += ["e", ".", "-", "+", '"b":', '"b":1', "\\", "\n"]


@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("kind", [*KINDS, "Decimal(9, 2)", "Decimal(4, 4)"])
def test_every_odd_value_in_every_place(kind: str, third: int) -> None:
    """⚑ ``truefalse`` was read as true."""
    odd = [*ODD_NUMBERS, *ODD_TEXTS, *ODD_VALUES, *map("".join, itertools.product(PARTS, repeat=2))][third::3]
    examples = {"Bool": "true", "String": '"x"', "DateTime": '"2026-01-01 10:00:00"', "Date": '"2026-01-01"'}
    examples["UUID"] = '"123e4567-e89b-12d3-a456-426614174000"'
    examples["Decimal(4, 4)"] = "0.25"
    good = {"a": "1", "b": examples.get(kind, "2"), "z": "true", "c": '"t"', "d": "2.5"}
    every = [good, *({**good, name: value} for name in good for value in odd)]
    texts = ["{" + ",".join(f'"{name}":{value}' for name, value in one.items()) + "}" for one in every]
    records = [text.encode("utf-8", "surrogatepass") for text in texts]
    columns = {"a": "Nullable(Int64)", "b": kind, "c": "Nullable(String)", "d": "Float64"}
    fields = fields_of([Column(name, of) for name, of in columns.items()], "UTC")
    fitting = [record for record in records if ExactDecoder(fields).fit(record) is not None]
    others = sorted({*records} - {*fitting})
    read = sum(check(fields, fitting[at : at + 20], records[:1]) for at in range(0, len(fitting), 20))
    assert read > len(odd) // 10, "those with other good values are read at once, too"
    for at in range(0, len(others), 20):
        check(fields, [records[0], *others[at : at + 20], records[0]], records[:1])


@pytest.mark.parametrize(
    "record",
    [
        b'{"a":10,"b":true,"z":null,"c":"t","d":-2.5e3}',
        b'{"c":"t","p":{"x":1,"y":{"u":-7}},"b":false}',
        b'{"b": null, "c": "", "z": {"a": 0}, "a": 0, "d": 0.5}',
    ],
)
def test_every_change_of_one_byte(record: bytes) -> None:
    columns = {"a": "Nullable(Int64)", "b": "Nullable(Bool)", "c": "Nullable(String)", "d": "Nullable(Float64)"}
    fields = fields_of([*(Column(name, of) for name, of in columns.items()), Column("p", PLACE, "DEFAULT")], "UTC")
    bytes_ = [bytes([byte]) for byte in b'{}[]",:\\ 017-+.eEtrufalsnz\n\0\xff']
    changed = [record[:at] + record[at + 1 :] for at in range(len(record))]
    for at, byte in itertools.product(range(len(record) + 1), bytes_):
        changed += [record[:at] + byte + record[at:], record[:at] + byte + record[at + 1 :]]
    changed += [record[at:] for at in range(len(record))] + [record[:at] for at in range(len(record))]
    read = sum(check(fields, [record, *changed[at : at + 20], record], [record]) for at in range(0, len(changed), 20))
    assert read > 2 * len(changed) // 20


PLACE = "Tuple(x Nullable(UInt8), y Tuple(u Nullable(Int8)))"


def is_utf8(record: bytes) -> bool:
    """Whether it is."""
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True


SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.struct([("x", pa.float64()), ("y", pa.float64())])), ("name", pa.string())]
)
RECORD = '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":"n"}'


def read(records: list[str], schema: pa.Schema = SCHEMA, like: str = RECORD) -> tuple[list[Any], list[int]]:
    """The rows, and the numbers of those that were not read."""
    reader = alike(schema, like)
    assert isinstance(reader, AlikeReader)
    found = reader.read(pa.array([record.encode() for record in records], pa.binary()))
    assert found is not None
    table, unread = found
    table.validate(full=True)
    left = [] if unread is None else unread.nonzero()[0].tolist()
    return table.to_pylist(), left


def test_a_skeleton_is_the_text_around_the_values() -> None:
    assert skeleton_of(RECORD, {("id",): pa.int64(), ("at", "x"): pa.float64()}) == Skeleton(
        (
            Slot(b'{"id":', ("id",), pa.int64(), optional=False, gap=1),
            Slot(b',"at":{"x":', ("at", "x"), pa.float64(), optional=False, gap=1),
            Slot(b',"y":', ("at", "y"), None, optional=False, gap=2),
            Slot(b'},"old":', ("old",), None, optional=False, gap=1),
            Slot(b',"name":', ("name",), None, optional=True, gap=0),
        ),
        b"}",
        14,
    )


@pytest.mark.parametrize(
    "record",
    [
        '{"a":[]}',
        '{"a":[1]}',
        '{"a":{}}',
        "{}",
        '{"a\\n":1}',
        '{"a":1,"a":1}',
        '{"a":1,"a":{"b":1}}',
        '{"a": \t1}',
        '{"a":{"c":1}}',
    ],
)
def test_a_record_that_is_not_simple_has_none(record: str) -> None:
    assert skeleton_of(record, {("a",): pa.int64()}) is None
    assert skeleton_of('{"a":1}', {("a", "b"): pa.int64()}) is None, "a number where an object is read"


def test_records_like_the_first_are_read() -> None:
    like = [
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":"n"}',
        '{"id":-2,"at":{"x":-1e5,"y":0},"old":"x","name":"a,b"}',
        '{"id":null,"at":{"x":null,"y":null},"old":null,"name":null}',
        '{"id":3,"at":{"x":0.5,"y":1},"old":-1.5e-7}',
        '{"id":4,"at":{"x":0,"y":1},"old":false,"name":""}',
    ]
    rows, left = read(like)
    assert rows == [{name: json.loads(text).get(name) for name in ("id", "at", "name")} for text in like]
    assert left == []


@pytest.mark.parametrize(
    "other",
    [
        '{"at":{"x":1.5,"y":2},"id":1,"old":true,"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":"n","name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":"\\x"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":"\\u00g0"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":"\\ud83d\\ude00"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":\\"a","name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"n\\u0061me":"n"}',
        '{"id":9223372036854775808,"at":{"x":1.5,"y":2},"old":true,"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":[1],"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2,"old":true,"name":"n"}',
        '{"id":1,"at":{"x":1.5},"old":true,"name":"n"}',
        '{"id":1,"at":{"x":01,"y":2},"old":true,"name":"n"}',
        '{"id":1,"at":{"x":1.,"y":2},"old":true,"name":"n"}',
        '{"id":1.0,"at":{"x":1.5,"y":2},"old":true,"name":"n"}',
        '{"id":"1","at":{"x":1.5,"y":2},"old":true,"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":truE,"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":01,"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":truefalse,"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":truenull,"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":nullnull,"name":"n"}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":"n"},',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":"n',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,"name":5}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":true,}',
        '{"id":1,"at":{"x":1.5,"y":2},"old":,"name":"n"}',
        '{"id":,"at":{"x":1.5,"y":2},"old":true,"name":"n"}',
        "{",
    ],
)
def test_whatever_differs_is_left(other: str) -> None:
    rows, left = read([RECORD, other, RECORD])
    assert left == [1]
    assert rows == [{"id": 1, "at": {"x": 1.5, "y": 2}, "name": "n"}] * 2
    assert read([RECORD, other])[1] == [1], "nothing stands behind it"


def test_a_record_that_ends_with_white_space_is_read() -> None:
    rows, left = read([RECORD + " ", RECORD + "\r\n", RECORD, RECORD + "\n\n\n"])
    assert (len(rows), left) == (3, [3]), "two blanks are few, three are left to others"


def test_texts_with_escapes_are_read() -> None:
    texts = ["\\n", '\\"', "\\\\", '\\\\\\"', "\\u00e9\\/", "a\\tb\\\\", "\\u0000", "none"]
    records = [RECORD.replace('"n"', f'"{text}"').replace("true", f'"{text}"') for text in texts]
    rows, left = read(records)
    assert left == []
    assert [row["name"] for row in rows] == [json.loads(f'"{text}"') for text in texts]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_a_number_that_is_too_large_is_left_alone(kind: str) -> None:
    bits = int(kind.strip("uint")) - (not kind.startswith("u"))
    most, least = 2**bits - 1, 0 if kind.startswith("u") else -(2**bits)
    records = [f'{{"a":{number}}}' for number in (1, most + 1, 0, least - 1, 7, 10**30)]
    rows, left = read(records, pa.schema([("a", pa.type_for_alias(kind))]), records[0])
    assert ([row["a"] for row in rows], left) == ([1, 0, 7], [1, 3, 5])
    rows, left = read([f'{{"a":{most}}}', f'{{"a":{least}}}'], pa.schema([("a", pa.type_for_alias(kind))]), records[0])
    assert ([row["a"] for row in rows], left) == ([most, least], [])


@pytest.mark.parametrize(
    "kind", [pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal256(40, 2), pa.decimal128(18, 0)]
)
def test_decimals_are_read(kind: pa.Decimal128Type) -> None:
    whole, fraction = 10 ** (kind.precision - kind.scale) - 1, 10**kind.scale - 1
    most = f"{whole}.{fraction}" if kind.scale else str(whole)
    texts = ["1", "0", "null", "-7", most, f"-{most}", *(["0.05", "-0.50", "12.5"] if kind.scale else [])]
    texts += [f'"{text}"' for text in texts if text != "null"]
    for some in (texts, ["1.25", "-3.75", "0.01"] if kind.scale else ["1", "2"]):
        rows, left = read([f'{{"a":{text}}}' for text in some], pa.schema([("a", kind)]), '{"a":1}')
        assert left == []
        expected = [None if text == "null" else Decimal(text.strip('"')) for text in some]
        assert [row["a"] for row in rows] == expected
    wrong = ["1", "01", "1e2", "1.", "+1", "1.005", f"1{most}", '"x"', '""', '"1 "', "1.2.3", "--1", '"-"', "5"]
    rows, left = read([f'{{"a":{text}}}' for text in wrong], pa.schema([("a", kind)]), '{"a":1}')
    assert ([row["a"] for row in rows], left) == ([1, 5], list(range(1, len(wrong) - 1)))


def test_a_record_cut_in_two_is_not_one() -> None:
    half = RECORD.index('{"x"')
    assert read([RECORD, RECORD[:half], RECORD[half:], RECORD])[1] == [1, 2]


def test_members_of_objects_at_other_places_are_read() -> None:
    columns = [Column("id", "Int64"), Column("x", "Nullable(Float64)")]
    fields, places = fields_of(columns, "UTC"), Places(("after",), {"id": ("key", "id")})
    records = [b'{"key":{"id":%d},"op":"c","after":{"x":%d.5,"y":1}}' % (n, n) for n in range(9)]
    fits = [fit for fit in map(ExactDecoder(fields, places).fit, records) if fit is not None]
    plan = FastPlan(fields, fits, places)
    arrays, suspects = plan.run(pa.array(records, pa.binary()))
    assert suspects is None
    assert [array.to_pylist() for array in arrays] == [list(range(9)), [n + 0.5 for n in range(9)]]
    assert plan.suits


def test_a_plan_is_kept_while_it_suits_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    sample = JsonDecoder._sample

    def counted(*some: Any) -> Any:
        made.append(1)
        return sample(*some)

    monkeypatch.setattr(JsonDecoder, "_sample", counted)
    decoder = JsonDecoder([Column("a", "String")], timezone="UTC")
    for value, plans in (("1", 1), ("2", 1), ("[]", 1), ("[]", 2), ("3", 3), ("4", 3)):
        decoded = decoder.decode(
            pa.array([f'{{"a":{json.dumps(value) if value.isdigit() else value}}}'.encode()] * 40, pa.binary())
        )
        assert decoded.batch.column("a").to_pylist() == [value.encode()] * 40
        assert len(made) == plans


def test_records_that_are_not_alike_are_not_read_so() -> None:
    fields = fields_of([Column(name, "Nullable(Int64)") for name in "abcd"], "UTC")
    texts = ['{"a":1,"b":2,"c":3,"d":4}', '{"b":1,"a":2}', '{"c":1,"a":2}', '{"d":1,"b":2}', '{"a":1,"b":2}']
    fits = [fit for fit in map(ExactDecoder(fields).fit, map(str.encode, texts)) if fit is not None]
    assert FastPlan(fields, fits)._alike is None
    assert FastPlan(fields, [fits[0], fits[0], fits[1]])._alike is not None
