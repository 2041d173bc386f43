"""The decoder against the real engine: what a column takes is stored exactly, and what it cannot hold never
gets there.

Every value goes JSON → decoder → Arrow stream → INSERT with the pinned settings → SELECT as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chdb import session
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chsink.clickhouse.checks.tables import has_typed_paths, keeps_few_types
from chsink.decode import INSERT_SETTINGS, Column, Decoded, JsonDecoder
from chsink.decode.insert import SELECTED, holds_json, selection
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched
from chsink.formats.settings import Debezium
from chsink.notation.sql import quote_string
from tests.support.connect_cases import CASES as CONNECT
from tests.support.connect_cases import Case, event
from tests.support.examples import examples

TYPE_SETTINGS = (
    "SET enable_time_time64_type = 1, allow_suspicious_low_cardinality_types = 1, allow_suspicious_variant_types = 1"
)


class Engine:
    """One in-process ClickHouse with one table.  ``selects``: every INSERT selects, as beside a JSON column."""

    def __init__(self, folder: Path) -> None:
        self.selects = False
        self._columns: list[Column] = []
        self._session = session.Session(str(folder / "data"))
        self._file = folder / "rows.arrows"
        self._session.query(TYPE_SETTINGS)

    def close(self) -> None:
        self._session.close()

    def create(self, ddl: str) -> list[Column]:
        """A table of these columns; returns them as the server describes them."""
        self._session.query("DROP TABLE IF EXISTS t")
        self._session.query(f"CREATE TABLE t (row_ UInt64, {ddl}) ENGINE = Memory")
        described = self._session.query(
            "SELECT name, type, default_kind, default_expression FROM system.columns "
            "WHERE table = 't' AND name != 'row_' ORDER BY position",
            "JSONCompactEachRow",
        )
        columns = [Column(*json.loads(line)) for line in str(described).splitlines()]
        self._columns = [*columns, Column("row_", "UInt64")]
        return columns

    def insert(self, decoded: Decoded) -> None:
        """The decoded rows, with their number in the input."""
        size = decoded.batch.num_rows
        rows = pa.array(range(size), pa.uint64()) if decoded.rows is None else decoded.rows.cast(pa.uint64())
        batch = decoded.batch.append_column("row_", rows)
        with pa.OSFile(str(self._file), "wb") as file, pa.ipc.new_stream(file, batch.schema) as stream:
            stream.write_batch(batch)
        by_name = {column.name: column for column in self._columns}
        named = [by_name[name] for name in batch.schema.names]
        names = ", ".join(f"`{column.name}`" for column in named)
        if not self.selects and not any(holds_json(column.type) for column in named):
            self._query(f"INSERT INTO t ({names}) FROM INFILE '{self._file}'", INSERT_SETTINGS, " FORMAT ArrowStream")
            return
        made = selection(named, batch)
        source = f"file('{self._file}', ArrowStream, {quote_string(made.structure)})"
        self._query(f"INSERT INTO t ({names}) SELECT {made.expressions} FROM {source}", {**INSERT_SETTINGS, **SELECTED})

    def _query(self, sql: str, settings: Mapping[str, object], rest: str = "") -> None:
        pinned = ", ".join(f"{name} = '{value}'" for name, value in settings.items())
        self._session.query(f"{sql} SETTINGS {pinned}{rest}")

    def setting(self, name: str) -> str:
        """A setting of the session."""
        return str(self._session.query(f"SELECT value FROM system.settings WHERE name = '{name}'", "TSVRaw")).strip()

    def set(self, name: str, value: object) -> None:
        """Set it."""
        self._session.query(f"SET {name} = {value}")

    def select(self, expression: str) -> dict[int, Any]:
        """An expression by input row."""
        answer = self._session.query(f"SELECT row_, {expression} FROM t ORDER BY row_", "JSONCompactEachRow")
        return {int(row): value for row, value in map(json.loads, str(answer).splitlines())}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    opened = Engine(tmp_path_factory.mktemp("engine"))
    yield opened
    opened.close()


@pytest.fixture
def engine(opened: Engine) -> Engine:
    opened.selects = False
    return opened


@pytest.fixture(params=[False, True], ids=["read", "selected"])
def either(opened: Engine, request: pytest.FixtureRequest) -> Engine:
    """Its INSERT reads into the table's types, or selects as one with JSON does."""
    opened.selects = request.param
    return opened


def ints(bits: int, *, signed: bool) -> tuple[list[tuple[str, str]], list[str]]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    good = [(str(n), str(n)) for n in (low, low + 1, 0, 1, high - 1, high)]
    good += [(f'"{high}"', str(high)), (f"{high}.0", str(high)), ("1e2", "100"), ("-0", "0")]
    return good, [str(low - 1), str(high + 1), f'"{high + 1}"', "1.5", "true", '"x"', '""', "[]", "{}", "1e400"]


ISO = "2026-01-31T12:34:56"
CASES: list[tuple[str, list[tuple[str, str]], list[str]]] = [
    *((f"Int{bits}", *ints(bits, signed=True)) for bits in (8, 16, 32, 64, 128, 256)),
    *((f"UInt{bits}", *ints(bits, signed=False)) for bits in (8, 16, 32, 64, 128, 256)),
    (
        "Float32",
        [
            ("1.5", "1.5"),
            ("3.4028235e38", "3.4028235e38"),
            ("16777217", "16777216"),
            ('"nan"', "nan"),
            ('"-inf"', "-inf"),
            ('"NaN"', "nan"),
            ('"-Infinity"', "-inf"),
            ("-0.0", "-0"),
            ("1e-45", "1e-45"),
        ],
        ["3.5e38", "NaN", "true", '"x"', "1e400"],
    ),
    (
        "Float64",
        [
            ("0.1", "0.1"),
            ("1.7976931348623157e308", "1.7976931348623157e308"),
            ('"inf"', "inf"),
            ('"Infinity"', "inf"),
            ('"NaN"', "nan"),
            ('"2.5"', "2.5"),
            ("5e-324", "5e-324"),
        ],
        ["1.8e308", "Infinity", '"1e400"', "[]"],
    ),
    ("BFloat16", [("1.5", "1.5"), ("3.4e38", "3.3895314e38"), ('"inf"', "inf")], ["3.5e38", "false"]),
    (
        "Decimal(4, 2)",
        [("99.99", "99.99"), ("-99.99", "-99.99"), ('"1.5"', "1.5"), ("1e1", "10"), ("1.500", "1.5")],
        ["100", "127", "99.995", "0.001", '"100.00"', "1e400", "true"],
    ),
    ("Decimal(18, 18)", [("0.999999999999999999", "0.999999999999999999"), ("0", "0")], ["1", "1e-19"]),
    ("Decimal(38, 10)", [("9" * 28 + "." + "9" * 10, "9" * 28 + "." + "9" * 10)], ["1" + "0" * 28, "9" * 38, "1e-11"]),
    ("Decimal(38, 0)", [("9" * 38, "9" * 38), ("-" + "9" * 38, "-" + "9" * 38)], ["1" + "0" * 38, "1.5"]),
    ("Decimal(76, 20)", [("9" * 56 + "." + "9" * 20, "9" * 56 + "." + "9" * 20)], ["9" * 57, "9" * 76]),
    ("Decimal(76, 0)", [("9" * 76, "9" * 76)], ["9" * 77]),
    ("Bool", [("true", "true"), ("false", "false"), ("1", "true"), ("0", "false"), ('"true"', "true")], ["2", '"yes"']),
    (
        "String",
        [
            ('"\\u00e9\\u0000\\ud83d\\ude00"', "é\0😀"),
            ("1.50", "1.50"),
            ('{"a" : [1]}', '{"a" : [1]}'),
            ("true", "true"),
            ('""', ""),
        ],
        ['"\\ud800"'],
    ),
    ("LowCardinality(String)", [('"x"', "x"), ("7", "7")], []),
    ("FixedString(4)", [('"abcd"', "abcd"), ('"é\\u0000z"', "é\0z")], ['"abcde"', '"ééé"', "12345"]),
    ("LowCardinality(FixedString(2))", [('"ab"', "ab")], ['"abc"']),
    (
        "UUID",
        [
            ('"123e4567-e89b-12d3-a456-426614174000"', "123e4567-e89b-12d3-a456-426614174000"),
            ('"123E4567E89B12D3A456426614174000"', "123e4567-e89b-12d3-a456-426614174000"),
            ('"00000000-0000-0000-0000-000000000001"', "00000000-0000-0000-0000-000000000001"),
        ],
        ['"123e4567-e89b-12d3-a456-42661417400"', '"123e4567-e89b-12d3-a456-42661417400g"', "5", '""'],
    ),
    (
        "IPv4",
        [('"1.2.3.4"', "1.2.3.4"), ('"255.255.255.255"', "255.255.255.255")],
        ['"256.0.0.1"', '"1.2.3"', '"::1"', "1"],
    ),
    ("IPv6", [('"2001:db8::1"', "2001:db8::1"), ('"1.2.3.4"', "::ffff:1.2.3.4")], ['"1"', '"::g"', '"fe80::1%eth0"']),
    (
        "Enum8('a' = 1, 'it\\'s' = -128)",
        [('"a"', "a"), ('"it\'s"', "it's"), ("-128", "it's")],
        ['"b"', "2", "1.0", "300"],
    ),
    ("Enum16('a' = 1000)", [('"a"', "a"), ("1000", "a")], ["1", '"A"']),
    (
        "Date",
        [('"1970-01-01"', "1970-01-01"), ('"2149-06-06"', "2149-06-06")],
        ['"2149-06-07"', '"1969-12-31"', '"2026-02-30"', "5", f'"{ISO}"', '""'],
    ),
    ("Date32", [('"1900-01-01"', "1900-01-01"), ('"2299-12-31"', "2299-12-31")], ['"1899-12-31"', '"2300-01-01"', "5"]),
    (
        "DateTime('UTC')",
        [
            (f'"{ISO}"', "2026-01-31 12:34:56"),
            (f'"{ISO}.000Z"', "2026-01-31 12:34:56"),
            ("0", "1970-01-01 00:00:00"),
            ("4294967295", "2106-02-07 06:28:15"),
            ('"2106-02-07 06:28:15"', "2106-02-07 06:28:15"),
            (f'"{ISO}+02:00"', "2026-01-31 10:34:56"),
        ],
        [
            "4294967296",
            "-1",
            '"2106-02-07 06:28:16"',
            '"1969-12-31 23:59:59"',
            f'"{ISO}.5"',
            '"x"',
            "1.5",
            '"12:00:00"',
        ],
    ),
    (
        "DateTime('Europe/Berlin')",
        [
            (f'"{ISO}"', "2026-01-31 12:34:56"),
            (f'"{ISO}Z"', "2026-01-31 13:34:56"),
            ('"2026-10-25 02:30:00"', "2026-10-25 02:30:00"),
            ('"2050-07-01 12:00:00"', "2050-07-01 12:00:00"),
        ],
        ['"2026-03-29 02:30:00"', '"2050-03-27 02:30:00"'],
    ),
    *(
        (
            f"DateTime64({p}, 'UTC')",
            [
                ('"1900-01-01 00:00:00"', "1900-01-01 00:00:00" + ("." + "0" * p if p else "")),
                ('"1969-12-31T23:59:59Z"', "1969-12-31 23:59:59" + ("." + "0" * p if p else "")),
                (
                    f'"{ISO}{("." + "123456789"[:p]) if p else ""}"',
                    "2026-01-31 12:34:56" + ("." + "123456789"[:p] if p else ""),
                ),
                (
                    f'"2262-04-11 23:47:16{("." + "8" * p) if p else ""}"'
                    if p < 9
                    else '"2262-04-11 23:47:16.854775807"',
                    "2262-04-11 23:47:16" + ("." + "8" * p if p else "") if p < 9 else "2262-04-11 23:47:16.854775807",
                ),
                ("-1.0", "1969-12-31 23:59:59" + ("." + "0" * p if p else "")),
            ],
            ['"1899-12-31 23:59:59"', '"2300-01-01 00:00:00"', f'"{ISO}.{"0" * p}1"', '"x"', "true"],
        )
        for p in range(10)
    ),
    *(
        (
            f"DateTime64({p}, 'UTC')",
            [(f'"2299-12-31 23:59:59.{"9" * p}"', f"2299-12-31 23:59:59.{'9' * p}")],
            ["1767225600"],
        )
        for p in range(3, 9)
    ),
    (
        "DateTime64(3, 'UTC')",
        [("1767225600123", "2026-01-01 00:00:00.123"), ("1767225600.123", "2026-01-01 00:00:00.123")],
        ["1767225600", "1767225600.1234", "17672256001234567"],
    ),
    (
        "Time",
        [('"12:34:56"', "12:34:56"), ('"-999:59:59"', "-999:59:59"), ('"999:59:59"', "999:59:59"), ("5", "00:00:05")],
        ['"1000:00:00"', '"12:60:00"', '"12:34:56.5"', "3600000"],
    ),
    *(
        (
            f"Time64({p})",
            [
                (f'"-999:59:59.{"9" * p}"', f"-999:59:59.{'9' * p}"),
                (f'"00:00:00.{"0" * (p - 1)}1"', f"00:00:00.{'0' * (p - 1)}1"),
            ],
            [f'"00:00:00.{"0" * p}1"', '"1000:00:00"'],
        )
        for p in (1, 3, 6, 9)
    ),
    ("Dynamic", [('{"a": 1}', '{"a": 1}'), ('"x"', '"x"'), ("1.50", "1.50")], []),
]


@pytest.mark.parametrize(("kind", "good", "bad"), CASES, ids=[f"{at}-{case[0]}" for at, case in enumerate(CASES)])
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("{}", "c"),
        ("Array({})", "c[1]"),
        ("Map(String, {})", "c['k']"),
        ("Tuple(f {}, g Int8)", "c.f"),
        ("Tuple({}, Int8)", "c.1"),
    ],
)
def test_a_value_is_stored_exactly_or_not_at_all(
    either: Engine, kind: str, good: list[tuple[str, str]], bad: list[str], shape: str, text: str
) -> None:
    around = {"{}": "{}", "Array({})": "[{}]", "Map(String, {})": '{{"k": {}}}', "Tuple({}, Int8)": "[{}, 1]"}
    template = around.get(shape, '{{"f": {}, "g": 1}}')
    columns = either.create(f"c {shape.format(kind)}")
    tokens = [token for token, _ in good] + bad
    records = [f'{{"c": {template.format(token)}}}'.encode() for token in tokens]
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(records, pa.binary()))
    assert [entry.row for entry in decoded.bad] == list(range(len(good), len(tokens))), decoded.bad
    either.insert(decoded)
    expected = {row: stored for row, (_, stored) in enumerate(good)}
    assert {row: value.rstrip("\0") for row, value in either.select(f"toString({text})").items()} == expected


NULL_CASES = sorted({case[0] for case in CASES if case[0] != "Dynamic" and "LowCardinality" not in case[0]})


@pytest.mark.parametrize("kind", NULL_CASES)
def test_null_is_null_in_nullable_types_everywhere(either: Engine, kind: str) -> None:
    good = next(case[1] for case in CASES if case[0] == kind)[0][0]
    columns = either.create(
        f"c Nullable({kind}), a Array(Nullable({kind})), m Map(String, Nullable({kind})), t Tuple(x Nullable({kind}))"
    )
    rows = [
        f'{{"c": null, "a": [null, {good}], "m": {{"k": null}}, "t": {{}}}}',
        f'{{"c": {good}, "a": [], "m": {{"k": {good}}}, "t": {{"x": {good}}}}}',
    ]
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array([row.encode() for row in rows], pa.binary()))
    assert decoded.bad == []
    either.insert(decoded)
    nulls = either.select("[isNull(c), isNull(a[1]), isNull(a[2]), isNull(m['k']), isNull(t.x)]")
    assert nulls == {0: [1, 1, 0, 1, 1], 1: [0, 1, 1, 0, 0]}


def test_null_in_dynamic_is_null_and_never_an_empty_string(either: Engine) -> None:
    """⚑ null, a missing field and a null element of a Dynamic are NULL; an empty string is one."""
    columns = either.create("c Dynamic, a Array(Dynamic), m Map(String, Dynamic), t Tuple(x Dynamic, y UInt8)")
    rows = [
        '{"c": null, "a": [null, 1], "m": {"k": null}, "t": {"y": 1}}',
        '{"a": [null], "m": {"k": null}, "t": [null, 1]}',
        '{"c": "", "a": ["", "x"], "m": {"k": ""}, "t": ["", 1]}',
        '{"c": 1.50, "a": [{"b" : 1}, 7], "m": {"k": [1]}, "t": [true, 1]}',
    ]
    kinds = {0: ["None"] * 4, 1: ["None"] * 4, 2: ["String"] * 4, 3: ["String"] * 4}
    for some in (rows, rows[:1], rows * 100):
        either.create("c Dynamic, a Array(Dynamic), m Map(String, Dynamic), t Tuple(x Dynamic, y UInt8)")
        decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array([row.encode() for row in some], pa.binary()))
        assert decoded.bad == []
        either.insert(decoded)
        found = either.select("arrayMap(d -> dynamicType(d), [c, a[1], m['k'], t.x])")
        assert found == {row: kinds[row % len(rows)] for row in range(len(some))}
    assert either.select("toString((c, a, m, t))")[3] == "('1.50',['{\"b\" : 1}','7'],{'k':'[1]'},('true',1))"


@pytest.mark.parametrize("kind", [*NULL_CASES, "LowCardinality(String)", "LowCardinality(UInt8)", "Dynamic"])
def test_a_missing_value_takes_the_servers_default(either: Engine, kind: str) -> None:
    token, stored = next((case[1] for case in CASES if case[0] == kind), [("7", "7")])[0]
    value = json.loads(token) if token.startswith('"') else token
    quoted = str(stored).replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    default = "'x'" if kind == "Dynamic" else f"CAST('{quoted}' AS {kind})"
    columns = either.create(f"c {kind} DEFAULT {default}, d UInt8")
    records = [b'{"d": 1}', b'{"d": 2, "c": null}', f'{{"d": 3, "c": {token}}}'.encode()]
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(records, pa.binary()))
    assert decoded.bad == [], value
    if kind == "Dynamic" and either.selects:
        beside = JsonDecoder([*columns, Column("j", "Nullable(JSON)")], timezone="UTC")
        assert [bad.row for bad in beside.decode(pa.array(records, pa.binary())).bad] == [0, 1]
        return
    either.insert(decoded)
    expected = "x" if kind == "Dynamic" else stored
    assert either.select("toString(c)") == {0: expected, 1: expected, 2: stored}


def test_defaults_of_containers_are_the_empty_value_or_a_bad_row(either: Engine) -> None:
    columns = either.create(
        "a Array(UInt8) DEFAULT [], m Map(String, UInt8) DEFAULT map(), j JSON DEFAULT '{}', "
        "t Tuple(x Int8, y Array(String)) DEFAULT (7, ['q'])"
    )
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array([b"{}", b'{"a":[1],"t":[1,[]]}'], pa.binary()))
    assert decoded.bad == []
    either.insert(decoded)
    assert either.select("toString((a, m, j, t))") == {0: "([],{},'{}',(7,['q']))", 1: "([1],{},'{}',(1,[]))"}
    columns = either.create("a Array(UInt8) DEFAULT [9], d UInt8")
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array([b'{"d":1}', b'{"a":[],"d":1}'], pa.binary()))
    assert [(bad.row, bad.column) for bad in decoded.bad] == [(0, "a")]


def test_a_default_may_use_the_other_columns(either: Engine) -> None:
    columns = either.create(
        "n UInt8, twice UInt16 DEFAULT n * 2, m UInt8 MATERIALIZED n, e UInt8 EPHEMERAL, l UInt8 ALIAS n"
    )
    decoder = JsonDecoder(columns, timezone="UTC")
    assert decoder.schema.names == ["n", "twice"]
    either.insert(decoder.decode(pa.array([b'{"n": 4}', b'{"n": 4, "twice": 1}'], pa.binary())))
    assert either.select("[twice, m]") == {0: [8, 4], 1: [1, 4]}


def test_nested_columns(either: Engine) -> None:
    columns = either.create("n Nested(a UInt8, b Nullable(String))")
    records = [
        b'{"n.a": [1], "n.b": [null]}',
        b'{"n": [{"a": 1, "b": "x"}, {"a": 2}]}',
        b'{"n": {"a": [3], "b": ["z"]}}',
        b'{"n.a": [1], "n.b": []}',
        b'{"n": [{"b": "x"}]}',
        b'{"n": [], "n.a": []}',
    ]
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(records, pa.binary()))
    assert [bad.row for bad in decoded.bad] == [3, 4, 5]
    either.insert(decoded)
    assert either.select("toString((n.a, n.b))") == {0: "([1],[NULL])", 1: "([1,2],['x',NULL])", 2: "([3],['z'])"}


def test_json_columns_keep_the_document_and_never_make_the_server_refuse(engine: Engine) -> None:
    columns = engine.create("j JSON")
    good = [
        '{"a": {"b": [1, "x", null]}}',
        "{}",
        '{"":1}',
        '{"a%2Eb":1}',
        '{"n":18446744073709551615}',
        '{"n":-9223372036854775808}',
        '{"u":"\\ud83d\\ude00\\u0000"}',
        '{"a":' + "[" * 200 + "]" * 200 + "}",
    ]
    bad = [
        "[1]",
        "5",
        '"{}"',
        '{"a":1,"a":2}',
        '{"a":{"b":1},"a.b":2}',
        '{"a":null,"a.b":1}',
        '{"a.b":1}',
        '{"a":[{"b.c":1}]}',
        '{"n":18446744073709551616}',
        '{"n":-9223372036854775809}',
        '{"n":[123456789012345678901234567890]}',
        '{"a":[{"x":1,"x":2}]}',
        '{"a":1e400}',
        '{"a":"\\ud800"}',
        '{"a":null,"a":1}',
        "{" + '"a":{' * 300 + "}" * 300 + "}",
    ]
    records = [f'{{"j": {document}}}'.encode() for document in good + bad]
    for some in (records, *([record] for record in records)):
        decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(some, pa.binary()))
        assert len(decoded.bad) == (len(bad) if some is records else records.index(some[0]) >= len(good))
        if decoded.batch.num_rows:
            engine.insert(decoded)


TEXTS = ["x", "", "1", "true", "2026-01-31", "2026-02-30", "2026-01-31 10:00:00", "2026-01-31T10:00:00Z", "2026-13-01"]
TEXTS += ["2026-01-31 24:00:00", "2026-01-31 10:00:00.123456789", "2026-01-31 10:00:00.1234567891", "0000-00-00"]
JSON_VALUES = st.recursive(
    st.one_of(
        st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
        st.sampled_from([0.5, 1.5e300, True, False, None, *TEXTS]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c.d"]), inner, max_size=2),
    max_leaves=5,
)


def same_form(value: Any) -> Any:
    """What a JSON column keeps of a value: all but null members and members that are empty objects."""
    if isinstance(value, list):
        return [same_form(one) for one in value]
    if isinstance(value, dict):
        members = {key: same_form(one) for key, one in value.items()}
        return {key: one for key, one in members.items() if one not in (None, {})}
    return value if value is None or isinstance(value, str) else (type(value) is bool, value)


@settings(max_examples=examples(60), deadline=None)
@example([{"a": [0.5]}, {"a": [2**53 + 1]}])
@example([{"a": [[1]]}, {"a": [None]}, {"a": [[None]]}])
@example([{"a": [{"b": 1}]}, {"a": [None]}, {"a": [{}]}])
@example([{"a": [{"a": [{"a": 0.5}, {"a": -1}, {"a": "x"}, {"a": True}, {"a": 2**53 + 1}]}]}])
@example([{"a": [[1], None]}, {"a": [None, [1], "x"]}])
@example([{"a": ["x"]}, {"a": [1]}, {"a": [True]}, {"a": [0.5]}])
@given(st.lists(st.dictionaries(st.sampled_from(["a", "b"]), JSON_VALUES), min_size=1, max_size=20))
def test_json_columns_keep_every_value_that_they_take(opened: Engine, objects: list[dict[str, Any]]) -> None:
    """⚑ ClickHouse infers types inside an object: what it would change is refused."""
    opened.selects = False
    columns = opened.create("j JSON")
    records = [json.dumps({"j": one}).encode() for one in objects]
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(records, pa.binary()))
    if decoded.batch.num_rows:
        opened.insert(decoded)
    for row, text in opened.select("toJSONString(j)").items():
        assert same_form(json.loads(text)) == same_form(objects[row]), records[row]


def test_json_with_typed_paths_is_refused_and_without_them_keeps_every_value(engine: Engine) -> None:
    """⚑ as the server spells its types, preflight knows which change values; and the fix keeps them."""
    typed, skips, plain = engine.create(
        "a JSON(n UInt8, max_dynamic_paths = 9, SKIP REGEXP 's.*', SKIP `b c`.d), "
        "b JSON(max_dynamic_paths = 9, max_dynamic_types = 3, SKIP REGEXP 's.*', SKIP `b c`.d, SKIP e), c JSON"
    )
    assert [has_typed_paths(column.type) for column in (typed, skips, plain)] == [True, False, False]
    assert [keeps_few_types(column.type) for column in (typed, skips, plain)] == [False, True, False]
    columns = engine.create("c JSON(SKIP s), n Dynamic MATERIALIZED c.n")
    records = [f'{{"c": {{"n": {value}}}}}'.encode() for value in ("1.9", "300", '"x"', "null")]
    engine.insert(JsonDecoder(columns, timezone="UTC").decode(pa.array(records, pa.binary())))
    assert engine.select("toString(c)") == {0: '{"n":1.9}', 1: '{"n":300}', 2: '{"n":"x"}', 3: "{}"}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (
            "Variant(Bool, Decimal(18, 4), Float64, Int64, String)",
            {
                "18446744073709551615": ("String", "18446744073709551615"),
                "-9223372036854775809": ("String", "-9223372036854775809"),
                "99999999999999": ("Int64", "99999999999999"),
                "1e400": ("String", "1e400"),
                "0.12345": ("Float64", "0.12345"),
            },
        ),
        ("Variant(Float32, Float64)", {"16777217": ("Float64", "16777217"), "0.1": ("Float64", "0.1"), "1": ("Float32", "1")}),
        ("Variant(Float64, Int64)", {"18446744073709551615": None, "9007199254740993": ("Int64", "9007199254740993")}),
        ("Variant(Float64)", {"9007199254740992": ("Float64", "9007199254740992"), "9007199254740993": None}),
    ],
)  # fmt: skip
def test_variants_keep_whole_numbers(either: Engine, kind: str, values: dict[str, tuple[str, str] | None]) -> None:
    """⚑ A float alternative takes a whole number only if it is that number."""
    columns = either.create(f"v {kind}")
    records = [f'{{"v": {value}}}'.encode() for value in values]
    either.insert(JsonDecoder(columns, timezone="UTC").decode(pa.array(records, pa.binary())))
    kept = {row: tuple(one) for row, one in either.select("(variantType(v), toString(v))").items()}
    assert kept == {row: fate for row, fate in enumerate(values.values()) if fate}


def test_variants_keep_the_kind_of_the_value(either: Engine) -> None:
    columns = either.create("v Variant(Bool, Decimal(9, 2), Float64, Int64, String), a Array(Variant(Int64, String))")
    values = ["1", '"1"', "true", "1.5", "1e300", "null"]
    records = [f'{{"v": {value}, "a": [1, "x", null]}}'.encode() for value in values]
    decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(records, pa.binary()))
    assert decoded.bad == []
    either.insert(decoded)
    kinds = ["Int64", "String", "Bool", "Decimal(9, 2)", "Float64", "None"]
    assert either.select("variantType(v)") == dict(enumerate(kinds))
    assert either.select("toString(a)") == dict.fromkeys(range(6), "[1,'x',NULL]")


@pytest.mark.parametrize("case", CONNECT, ids=lambda case: f"{case.names[0]}-{case.json}")
def test_values_of_kafka_connect_are_stored_as_their_schema_says(engine: Engine, case: Case) -> None:
    """⚑ Also where the job file names another unit and another scale."""
    for kind, shown in case.stored.items():
        columns = engine.create(f"c {kind}")
        options: dict[str, Any] = {"epoch": {"c": "seconds"}} if "Time" in kind else {}
        options |= {"decimals": {"c": 7}} if "Decimal" in kind else {}
        settings = Debezium(type="debezium", **options)
        decoder = decoder_of("d.t", columns, "UTC", Untouched("read_committed"), settings)
        values = pa.array([event(case, schema) for schema in case.schemas()], pa.binary())
        engine.insert(decoder.decode(pa.RecordBatch.from_pydict({"value": values})))
        assert engine.select("toString(c)") == dict.fromkeys(range(len(case.names)), shown), kind


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "America/New_York"])
def test_local_times_of_any_year_are_what_the_server_reads_them_as(engine: Engine, zone: str) -> None:
    columns = engine.create(f"c DateTime64(3, '{zone}')")
    texts = [
        f"{year}-{month:02}-15 {hour:02}:30:00"
        for year in (1975, 2026, 2037, 2038, 2050, 2106, 2199, 2282)
        for month in (1, 4, 7, 10)
        for hour in (0, 12)
    ]
    engine.insert(
        JsonDecoder(columns, timezone="UTC").decode(pa.array([f'{{"c":"{t}"}}'.encode() for t in texts], pa.binary()))
    )
    assert engine.select("toString(c)") == {row: f"{text}.000" for row, text in enumerate(texts)}


@pytest.mark.parametrize("kind", ["Point", "Ring", "Polygon", "MultiPolygon", "LineString", "MultiLineString"])
def test_geo_types_are_tuples_and_arrays(either: Engine, kind: str) -> None:
    depth = {"Point": 0, "Ring": 1, "LineString": 1, "MultiPolygon": 3}.get(kind, 2)
    columns = either.create(f"g {kind}")
    record = '{"g": ' + "[" * depth + "[1.5, -2]" + "]" * depth + "}"
    either.insert(JsonDecoder(columns, timezone="UTC").decode(pa.array([record.encode()], pa.binary())))
    assert either.select("toString(g)") == {0: "[" * depth + "(1.5,-2)" + "]" * depth}


LIKE_OTHER_TYPES = [
    *("2026-01-31", "2026-1-31", "2026/01/31", "2026.01.31", "2026 01 31", "20260131", "4917012345", "1950-05-05"),
    *("2026-01-31 10:00:00", "2026-01-31 10:00:00.5", "2026-01-31 10:00:00.1234567891", "2026-01-31T10:00:00Z"),
    *("0000-00-00", "9999-12-31", "2026-02-30", "2026-13-01", "2026-01-31 24:00:00", "2300-01-01 00:00:00"),
    *("1", "01", "1.50", "1e5", "true", "null", "nan", "", "192.0.2.1", "61f0c404-5cb3-11e7-907b-a6006ad3dba0"),
]


@pytest.mark.parametrize(
    "kind", ["JSON", "Nullable(JSON)", "Array(JSON)", "Map(String, JSON)", "Tuple(a JSON, b UInt8)"]
)
def test_a_text_in_json_stays_that_text_whatever_lies_beside_it(engine: Engine, kind: str) -> None:
    """⚑ A text took the type of an earlier one at its path: beside a time, 20260131 became another one, without error."""
    around = {"Array": "[%s]", "Map": '{"k": %s}', "Tuple": '{"a": %s, "b": 1}'}.get(kind.partition("(")[0], "%s")
    columns = engine.create(f"j {kind}")
    for texts in (LIKE_OTHER_TYPES, LIKE_OTHER_TYPES[::-1], LIKE_OTHER_TYPES[9:] + LIKE_OTHER_TYPES[:9]):
        engine.create(f"j {kind}")
        objects = [{"a": text, "l": [text, "x"], "o": {"b": [{"c": text}]}} for text in texts]
        records = [f'{{"j": {around % json.dumps(one)}}}'.encode() for one in objects]
        decoded = JsonDecoder(columns, timezone="UTC").decode(pa.array(records, pa.binary()))
        assert decoded.bad == []
        engine.insert(decoded)
        shown = {row: json.loads(text) for row, text in engine.select("toJSONString(j)").items()}
        assert shown == {row: json.loads(around % json.dumps(one)) for row, one in enumerate(objects)}


PROFILE = {
    "input_format_json_try_infer_numbers_from_strings": 1,
    "input_format_json_infer_incomplete_types_as_strings": 0,
    "allow_simdjson": 0,
}


def test_a_profile_changes_no_value_in_json(engine: Engine, request: pytest.FixtureRequest) -> None:
    """⚑ By a user's profile, ["01"] became [1], 123456789.12345679 another number, and [] refused the insert."""
    columns = engine.create("j JSON")
    objects = [{"a": ["01", "2"]}, {"n": 123456789.12345679}, {"n": 0.30000000000000004}, {"e": []}]
    decoded = JsonDecoder(columns, timezone="UTC").decode(
        pa.array([json.dumps({"j": one}).encode() for one in objects])
    )
    for name, value in PROFILE.items():
        before = engine.setting(name)
        request.addfinalizer(partial(engine.set, name, before))
        engine.set(name, value)
    engine.insert(decoded)
    assert {row: json.loads(text) for row, text in engine.select("toJSONString(j)").items()} == dict(enumerate(objects))
