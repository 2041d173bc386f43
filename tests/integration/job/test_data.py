"""What a record's JSON becomes in its row, of every kind of type at once, and Kafka's own fields beside it.

The decoder's own tests cover each type in depth; here every kind passes through Spark, both readers (a batch and an
exact read) and the insert, beside records that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chsink.errors import HaltError
from tests.integration.job.conftest import MakeJob
from tests.support.job import WINDOW, Job, Row
from tests.support.kafka import Record

PAYLOAD = {
    "id": "UInt64",
    "big": "Int64",
    "amount": "Decimal(38, 10)",
    "ratio": "Float64",
    "at": "DateTime64(6, 'UTC')",
    "day": "Date",
    "kind": "Enum8('small' = 1, 'large' = 2)",
    "uuid": "UUID",
    "ip": "IPv4",
    "text": "String",
    "tag": "LowCardinality(Nullable(String))",
    "maybe": "Nullable(Int32)",
    "matrix": "Array(Array(Nullable(Int16)))",
    "counts": "Map(String, Array(UInt8))",
    "point": "Tuple(x Int32, deep Tuple(y String, z Nullable(Bool)))",
    "items": "Nested(sku String, n Nullable(UInt8))",
    "extra": "String DEFAULT 'none'",
}
METADATA = """_kafka_topic LowCardinality(String), _kafka_partition Int32, _kafka_offset Int64,
    _kafka_timestamp DateTime64(3, 'UTC'), _kafka_key Nullable(String),
    _kafka_headers Array(Tuple(key String, value Nullable(String))) DEFAULT []"""
EXACT = "amount_text String ALIAS toString(amount)"
"""JSON readers make a float of a decimal."""
SHOWN = [n for n in PAYLOAD if n not in ("amount", "items")] + ["amount_text", "items.sku", "items.n"]
KAFKA = ["_kafka_topic", "_kafka_timestamp", "_kafka_key", "_kafka_headers"]

TOKENS = {
    "id": "1",
    "big": "-9007199254740993",
    "amount": "12.5",
    "ratio": "0.1",
    "at": '"2026-01-31T12:34:56.789012+02:00"',
    "day": '"2026-02-28"',
    "kind": '"large"',
    "uuid": '"123E4567-E89B-12D3-A456-426614174000"',
    "ip": '"10.1.2.3"',
    "text": '"plain"',
    "tag": '"t"',
    "maybe": "7",
    "matrix": "[[1,null],[],[-32768]]",
    "counts": '{"a":[1,255],"":[]}',
    "point": '{"x":-1,"deep":{"y":"q","z":true}}',
    "items": '[{"sku":"s1","n":1},{"sku":"s2"}]',
    "extra": '"given"',
}
SHOWS = {
    "id": 1,
    "big": -9007199254740993,
    "amount_text": "12.5",
    "ratio": 0.1,
    "at": "2026-01-31 10:34:56.789012",
    "day": "2026-02-28",
    "kind": "large",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "ip": "10.1.2.3",
    "text": "plain",
    "tag": "t",
    "maybe": 7,
    "matrix": [[1, None], [], [-32768]],
    "counts": {"a": [1, 255], "": []},
    "point": {"x": -1, "deep": {"y": "q", "z": True}},
    "items.sku": ["s1", "s2"],
    "items.n": [1, None],
    "extra": "given",
}

Case = tuple[dict[str, str | None], dict[str, Any]]
"""Tokens other than ``TOKENS`` (None: the field is missing), and what is shown other than ``SHOWS``."""
FITTING: list[Case] = [
    ({}, {}),
    ({"id": "18446744073709551615", "big": "-9223372036854775808"}, {"id": 2**64 - 1, "big": -(2**63)}),
    ({"big": "9007199254740993", "id": '"9007199254740993"'}, {"big": 2**53 + 1, "id": 2**53 + 1}),
    ({"big": "25e3", "id": "1.0E2", "ratio": "1e-7"}, {"big": 25_000, "id": 100, "ratio": 1e-7}),
    (
        {"amount": "1.5e-3", "ratio": "1.7976931348623157e308"},
        {"amount_text": "0.0015", "ratio": 1.7976931348623157e308},
    ),
    (
        {"amount": "-1234567890123456789012345678.0123456789"},
        {"amount_text": "-1234567890123456789012345678.0123456789"},
    ),
    ({"text": r'"\u00e9\n\t\"\\\/\ud83d\ude00 \u0000|"'}, {"text": 'é\n\t"\\/😀 \0|'}),
    ({"text": '"Grüße, 世界 😀 \'); --"', "tag": '"ß"'}, {"text": "Grüße, 世界 😀 '); --", "tag": "ß"}),
    ({"text": '{"kept" : [1, 2.50, null]}'}, {"text": '{"kept" : [1, 2.50, null]}'}),
    ({"text": "1.50"}, {"text": "1.50"}),
    ({"tag": "null", "maybe": "null"}, {"tag": None, "maybe": None}),
    ({"tag": None, "maybe": None, "extra": None}, {"tag": None, "maybe": None, "extra": "none"}),
    ({"matrix": "[]", "counts": "{}", "items": "[]"}, {"matrix": [], "counts": {}, "items.sku": [], "items.n": []}),
    (
        {"items": None, '"items.sku"': '["a"]', '"items.n"': "[null]", "point": '[5,["w",null]]'},
        {"items.sku": ["a"], "items.n": [None], "point": {"x": 5, "deep": {"y": "w", "z": None}}},
    ),
    ({"kind": "1", "at": "1767225600.5"}, {"kind": "small", "at": "2026-01-01 00:00:00.500000"}),
    ({"unknown": '{"a":[{}]}', '"unknown" ': '"twice, and nobody asked"'}, {}),
]
SECRET = "zzz-do-not-show"
BAD: list[tuple[dict[str, str | None] | bytes | None, str]] = [
    ({"big": f'"{SECRET}"'}, "column 'big': "),
    ({"big": "9223372036854775808"}, "out of range"),
    ({"big": "1.5"}, "a fraction"),
    ({"id": "-1"}, "out of range"),
    ({"amount": "0.00000000001"}, "more digits"),
    ({"ratio": "1e400"}, "out of range"),
    ({"at": '"2026-02-30T00:00:00Z"'}, ""),
    ({"day": '"2149-06-07"'}, ""),
    ({"kind": '"medium"'}, ""),
    ({"uuid": '"123e4567"'}, ""),
    ({"ip": '"10.1.2.300"'}, ""),
    ({"matrix": "[[32768]]"}, ""),
    ({"counts": '{"a":[256]}'}, ""),
    ({"counts": '{"a":[1],"a":[2]}'}, ""),
    ({"point": '{"x":1}'}, ""),
    ({"items": '[{"n":1}]'}, ""),
    ({"text": None}, "missing"),
    ({"big": "1", '"big" ': "2"}, "given twice"),
    (None, "tombstone"),
    (b"", "empty"),
    (b"[1]", "not a JSON object"),
    (b'"text"', "not a JSON object"),
    (b"null", "not a JSON object"),
    (b'{"id": 1', "not valid JSON"),
    (b'{"id": NaN}', "not valid JSON"),
    (b'{"text": "\xff"}', "not valid UTF-8"),
]


def text_of(changes: Mapping[str, str | None]) -> bytes:
    """A record; names with their quotes are taken as they are, so that one may come twice."""
    tokens = {**TOKENS, **changes}
    names = {name: name.strip() if name.startswith('"') else f'"{name}"' for name in tokens}
    return ("{" + ",".join(f"{names[n]}:{token}" for n, token in tokens.items() if token is not None) + "}").encode()


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    """A table of every kind of type, with all of Kafka's own fields."""
    columns = ", ".join([*(f"`{n}` {kind}" for n, kind in PAYLOAD.items()), EXACT])
    engine = f"ENGINE = MergeTree ORDER BY id SETTINGS {WINDOW}"
    return make_job(partitions=3, columns=columns, metadata=METADATA, engine=engine)


def expected(fits: Mapping[bytes, Mapping[str, Any]], topic: str, record: Record) -> Iterable[Row]:
    """The row of a record, nothing when it does not fit."""
    shows = fits.get(record.value or b"")
    if shows is None:
        return []
    at = datetime.fromtimestamp(record.timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    headers = [{"key": name, "value": _text(data)} for name, data in record.headers]
    return [(*(shows[name] for name in SHOWN), topic, at, _text(record.key), headers)]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def test_every_kind_of_value_lands_as_it_was_sent_or_not_at_all(
    job: Job, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """First the job halts at what does not fit, then that is passed over, counted and reported; the rest lands."""
    fits = {text_of(changes): {**SHOWS, **shows} for changes, shows in FITTING}
    good = list(fits)
    unfit = [text_of(bad) if isinstance(bad, Mapping) else bad for bad, _ in BAD]
    assert len(good) == len(FITTING) and not set(unfit) & set(good)
    job.send_values(0, good[:5])
    first_bad, end = job.send_values(0, [unfit[0], *good[5:], *unfit[1:], good[0]])
    job.send_values(1, good[1:3])
    job.send_values(1, good[3:5], key=b"", headers=[])
    twice: list[tuple[str, bytes | None]] = [
        ("trace", b"1"),
        ("trace", b"2"),
        ("", b""),
        ("none", None),
        ("é", "ü".encode()),
    ]
    job.send_values(1, good[5:8], key="schlüssel".encode(), headers=twice)

    with pytest.raises(HaltError) as halted:
        job.drain(spark)
    said = str(halted.value)
    assert halted.value.id == "CHS-501" and halted.value.exit_code == 3
    for part in (
        f"topic '{job.topic}'",
        "partition 0",
        f"offset {first_bad}",
        BAD[0][1],
        "a string that is not a number",
    ):
        assert part in said
    assert job.in_doubt() == {0}, "recoverable; the other partition landed"
    assert not job.verdict(rows_of=lambda r: expected(fits, job.topic, r), columns=[*SHOWN, *KAFKA]).surplus

    logged = capsys.readouterr().err
    sink = job.drain_sink(spark, lambda stream: stream, {"errors.on_bad_value": "skip"})
    job.check(rows_of=lambda r: expected(fits, job.topic, r), columns=[*SHOWN, *KAFKA])
    labels = {"sink": job.name, "table": job.tables[job.topic]}
    assert sink.metrics.registry.get_sample_value("chsink_skipped_records_total", labels) == len(BAD)
    reported = capsys.readouterr().err
    assert f"skipped={len(BAD)}" in reported
    assert "records skipped" in reported
    _, found, first = said.splitlines()[0].partition("its table: ")
    assert found and first in reported, "the first one's place and reason"
    assert SECRET not in said + logged + reported
    assert job.phases() == {0: ("AFTER", 0, end), 1: ("AFTER", 0, 7), 2: ("EMPTY", 0, 0)}
    status = job.status()
    assert sum(p["skipped"] for p in status["partitions"]) == status["skipped"] == len(BAD)


def test_a_tombstone_halts_until_the_job_is_set_to_skip_it(job: Job, spark: SparkSession) -> None:
    """The range in doubt is settled under the new option: it changes no row."""
    fits = {text_of(changes): {**SHOWS, **shows} for changes, shows in FITTING[:2]}
    one, other = fits
    job.send_values(0, [one, None, other])

    with pytest.raises(HaltError, match=r"offset 1: value is null \(a tombstone\)"):
        job.drain(spark)
    assert job.in_doubt() == {0}
    sink = job.drain_sink(spark, lambda stream: stream, {"errors.on_tombstone": "skip"})

    job.check(rows_of=lambda r: expected(fits, job.topic, r), columns=[*SHOWN, *KAFKA])
    labels = {"sink": job.name, "table": job.tables[job.topic]}
    assert sink.metrics.registry.get_sample_value("chsink_skipped_records_total", labels) == 1
    assert job.phases()[0] == ("AFTER", 0, 3)
