"""Arrays are read at once as the reference reads them; arrays written in any other way are left to others."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chsink.decode import Column, JsonDecoder
from chsink.decode.exact import ExactDecoder
from chsink.decode.fields import fields_of
from chsink.decode.skeleton import Form, leaves, skeleton_of
from tests.unit.decode.test_alike import (
    ODD_NUMBERS,
    ODD_TEXTS,
    ODD_VALUES,
    THIRDS,
    check,
    odd,
    outcomes,
    read,
)

OBJECT = "Tuple(x Nullable(Int64), y String, z Float64)"
COLUMNS = {
    "a": "Int64",
    "t": "Array(String)",
    "n": "Array(UInt8)",
    "o": f"Array({OBJECT})",
    "f": "Array(Float64)",
    "d": "Array(Decimal(9, 2))",
    "w": "Array(DateTime)",
}
FIELDS = fields_of([Column(name, kind) for name, kind in COLUMNS.items()], "UTC")
GOOD = {
    "a": "1",
    "t": '["a","b]","c"]',
    "i": '["not",  "read"]'.replace("  ", ""),
    "n": "[1,255]",
    "o": '[{"x":1,"y":"}],","z":0.5},{"x":null,"y":"","z":-7}]',
    "j": '[{"k":1}]',
    "f": "[1.5,-2e3,0]",
    "d": "[1.25,-3.50]",
    "w": '["2026-01-01 10:00:00"]',
}
ELEMENTS = {
    "t": st.text(st.characters(codec="utf-8"), max_size=9).map(lambda text: json.dumps(text, ensure_ascii=False)),
    "i": st.sampled_from(['"a"', '""', '"],"', '"]"']),
    "n": st.integers(0, 255).map(str),
    "o": st.builds('{{"x":{},"y":"{}","z":{}}}'.format, st.integers(0, 9), st.sampled_from(["", "}", "]", "],"]),
                   st.sampled_from(["1", "0.5", "-1e3"])),
    "j": st.integers(0, 9).map('{{"k":{}}}'.format),
    "f": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "d": st.integers(-9999, 9999).map(lambda number: f"{number / 100:.2f}"),
    "w": st.just('"2026-01-01 10:00:00"'),
}  # fmt: skip


def record(members: dict[str, str]) -> bytes:
    """The members as one record."""
    return ("{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}").encode(errors="surrogatepass")


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A record of arrays: mostly of good elements; with a few oddities."""
    members = {"a": str(draw(st.integers(0, 9)))}
    for name, good in ELEMENTS.items():
        elements = draw(st.lists(good, max_size=3))
        fate = draw(st.integers(0, 39))
        if fate < 3:
            elements.insert(draw(st.integers(0, len(elements))), draw(odd))
        between = {3: ", ", 4: " ,", 5: ",,", 6: ""}.get(fate, ",")
        array = between.join(elements)
        members[name] = {7: draw(odd), 8: f"[ {array}]", 9: f"[{array},]", 10: f"[[{array}]]"}.get(fate, f"[{array}]")
    at, fate = draw(st.sampled_from(list(members))), draw(st.integers(0, 19))
    if fate == 0:
        del members[at]
    elif fate == 1:
        members = {at: members[at], **members}
    whole = record(members)
    cut = draw(st.integers(0, len(whole)))
    return {
        2: whole[:cut], 3: whole[:cut] + whole[cut + 1 :], 4: whole + b" ", 5: whole[:cut] + draw(st.sampled_from(BYTES)) + whole[cut:],
    }.get(fate, whole)  # fmt: skip


BYTES = [bytes([byte]) for byte in b'{}[]",:\\ 01-.eEtn\n\0\xff']


@settings(max_examples=40, deadline=None)
@given(st.lists(records(), min_size=2, max_size=12))
def test_each_record_has_the_row_that_the_reference_gives(some: list[bytes]) -> None:
    decoder = JsonDecoder([Column(name, kind) for name, kind in COLUMNS.items()], timezone="UTC")
    for _ in range(2):  # the second time by the plan of the first
        decoded = decoder.decode(pa.array(some, pa.binary()))
        rows = range(len(some)) if decoded.rows is None else decoded.rows.to_pylist()
        found = ["none"] * len(some)
        for at, row in zip(rows, range(decoded.batch.num_rows), strict=True):
            found[at] = repr([column.slice(row, 1).to_pylist() for column in decoded.batch.columns])
        assert found == outcomes(ExactDecoder(FIELDS), some)


@settings(max_examples=40, deadline=None)
@given(st.lists(records(), min_size=1, max_size=12))
def test_what_is_read_at_once_is_what_the_reference_gives(some: list[bytes]) -> None:
    check(FIELDS, some, [record(GOOD)])


@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("name", ["t", "i", "n", "o", "j", "f", "d", "w"])
def test_every_odd_value_in_every_array(name: str, third: int) -> None:
    elements = [*ODD_NUMBERS, *ODD_TEXTS, *ODD_VALUES, '{"x":1}', '{"k":1,"k":2}', '{"k":1},', "1,2", '"a","b"']
    around = [
        "[{}]",
        "[{},{}]",
        "{}",
        "[{},1]",
        '[{},"a"]',
        "[1,{}]",
        '["a",{}]',
        '[{{"k":{}}}]',
        '[{{"x":{},"y":"","z":1}}]',
    ]
    around += [
        '[{{"x":1,"y":{},"z":1}}]',
        '[{{"x":1,"y":"","z":{}}}]',
        "[{}",
        "{}]",
        "[{},]",
        "[,{}]",
        "[ {}]",
        "[{} ]",
    ]
    texts = [record({**GOOD, name: one.format(odd, odd)}) for one, odd in itertools.product(around, elements[third::3])]
    good = record(GOOD)
    reference = ExactDecoder(FIELDS)
    fitting = [text for text in texts if reference.fit(text) is not None]
    taken = sum(check(FIELDS, [good, *fitting[at : at + 100]], [good]) - 1 for at in range(0, len(fitting), 100))
    assert taken > 0 or third, "some of them are read at once"
    others = sorted({*texts} - {*fitting})
    for at in range(0, len(others), 100):
        check(FIELDS, [good, *others[at : at + 100], good], [good])


@pytest.mark.parametrize(
    "whole",
    [
        b'{"a":1,"t":["a","b"],"n":[1,20],"z":null}',
        b'{"n":[1, 2],"o":[{"x":1,"y":"b","z":2},{"x":2,"y":"","z":0.5}],"a":0}',
        b'{"i":["a"],"a":0,"j":[{"k":[1,2],"l":"b"},{"k":[],"l":"c"}],"t":[],"f":[0.5]}',
    ],
)
def test_every_change_of_one_byte(whole: bytes) -> None:
    changed = [whole[:at] + whole[at + 1 :] for at in range(len(whole))]
    for at, byte in itertools.product(range(len(whole) + 1), BYTES):
        changed += [whole[:at] + byte + whole[at:], whole[:at] + byte + whole[at + 1 :]]
    changed += [whole[at:] for at in range(len(whole))] + [whole[:at] for at in range(len(whole))]
    named = json.loads(whole)
    fields = fields_of([Column(name, kind) for name, kind in COLUMNS.items() if name in named], "UTC")
    taken = sum(check(fields, [whole, *changed[at : at + 40], whole], [whole]) for at in range(0, len(changed), 40))
    assert taken > 2 * len(changed) // 40


ITEM = pa.struct([("x", pa.int64()), ("y", pa.string()), ("z", pa.list_(pa.int64()))])
SCHEMA = pa.schema([("t", pa.list_(pa.string())), ("o", pa.list_(ITEM)), ("n", pa.list_(pa.float64()))])
LIKE = '{"t":["a"],"o":[{"x":1,"y":"b","z":[1]}],"n":[1]}'


def test_arrays_are_read_whatever_their_lengths() -> None:
    rows: list[dict[str, Any]] = [
        {"t": [], "o": [], "n": []},
        {"t": ["a"] * 40, "o": [{"x": n, "y": "],", "z": list(range(n))} for n in range(40)], "n": [n / 2 for n in range(40)]},
        {"t": ["", "]", "[", '","', "\\", "é\n"], "o": [{"x": -1, "y": '{"x":1', "z": []}], "n": [-1.5e300, 0]},
        {"t": None, "o": None, "n": None},
        {"t": ["b"], "o": [{"x": None, "y": None, "z": None}], "n": [7]},
    ]  # fmt: skip
    texts = [json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows]
    for some in (rows, rows[:3], rows[2::-1], rows[3:]):
        assert read([texts[rows.index(row)] for row in some], SCHEMA, LIKE) == (some, [])


def test_members_that_are_left_out() -> None:
    like = '{"n":[1],"t":["a"],"o":[{"x":1,"y":"b","z":[1]}]}'
    rows, left = read(['{"n":[1]}', like, '{"n":[2],"t":["b"]}', '{"n":[],"o":[]}'], SCHEMA, like)
    assert [row["n"] for row in rows] == [[1.0]]
    assert left == [0, 2, 3], "an array's end is found by what follows it"
    rows, left = read(
        ['{"o":[{"x":1,"y":"b"},{"x":2}]}', '{"o":[{"x":3,"y":"c"}]}'],
        pa.schema([("o", pa.list_(ITEM))]),
        '{"o":[{"x":1,"y":"b"}]}',
    )
    assert (left, [len(row["o"]) for row in rows]) == ([], [2, 1])


def test_a_skeleton_says_how_arrays_are_written() -> None:
    kinds = dict(leaves((), SCHEMA))
    skeleton = skeleton_of('{"t":["a", "b"],"o":[{"x":1}, {"x":2,"y":"b"}],"n":[],"z":[1,2]}', kinds)
    assert skeleton is not None
    found = [slot.elements for slot in skeleton.slots if slot.elements is not None]
    assert [one.form for one in found] == [Form.TEXTS, Form.OBJECTS, Form.NONE, Form.NUMBERS]
    assert [one.between for one in found] == [b", ", b", ", b",", b","]
    assert [one.behind for one in found] == [b',"o":', b',"n":', b',"z":', None]
    each = found[1].each
    assert each is not None
    assert [slot.path for slot in each.slots] == [("x",), ("y",)]


@pytest.mark.parametrize(
    "array",
    ["[[1]]", "[1,[2]]", "[{}]", "[ 1]", "[1 ]", "[1 ,2]", "[true]", "[null]", '["a",1]', "[1, 2,3]", '["a",{"x":1}]'],
)
def test_an_array_that_is_not_simple_has_no_skeleton(array: str) -> None:
    assert skeleton_of(f'{{"a":1,"b":{array}}}', {("a",): pa.int64()}) is None


def test_an_array_where_another_type_is_read_has_no_skeleton() -> None:
    for kind in (pa.string(), pa.list_(pa.string()), pa.list_(ITEM)):
        assert skeleton_of('{"b":[1]}', {("b",): kind}) is None
