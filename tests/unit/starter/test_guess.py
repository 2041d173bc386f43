"""The format that ``chsink init --from-topic`` guesses from values."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.config import load
from chsink.starter.guess import Guess, guess
from chsink.starter.job import StartingPoint, job_text

START = StartingPoint('or"ders', "shop.orders", "k:9092", ["http://a:8123"], None, Path("/x/checkpoints/orders"))
CHANGE = b'{"before": null, "after": {"id": 1}, "op": "c", "source": {"lsn": 5}, "ts_ms": 1}'


def no_registry(schema_id: int) -> str:
    raise AssertionError(schema_id)


def of(*values: bytes) -> Guess:
    return guess(values, no_registry)


@pytest.mark.parametrize(
    ("value", "format_", "options"),
    [
        (b'{"id": 1}', "json", {}),
        (b' {"id": 1}\n', "json", {}),
        (b"{}", "json", {}),
        (b'{"schema": {"type": "struct"}, "payload": {"id": 1}}', "json", {"envelope": "$.payload"}),
        (b'{"payload": {"id": 1}}', "json", {}),
        (b'{"schema": "v1", "payload": {"id": 1}, "at": 5}', "json", {}),  # an envelope would leave out the others
        (b'{"schema": {}, "payload": 1}', "json", {}),
        (CHANGE, "debezium", {"deleted_column": "__deleted"}),
        (b'{"schema": {}, "payload": ' + CHANGE + b"}", "debezium", {"deleted_column": "__deleted"}),
        (b'{"op": "add", "after": 1}', "json", {}),
        (b"1,Bonn,3.5", "csv", {"columns": ["field_1", "field_2", "field_3"]}),
        (b'1,"a, b"', "csv", {"columns": ["field_1", "field_2"]}),
        (b"1;Bonn", "csv", {"delimiter": ";", "columns": ["field_1", "field_2"]}),
        (b"1\tBonn, am Rhein", "tsv", {"columns": ["field_1", "field_2"]}),
        (b"plain words", "string", {}),
        (b"[1, 2]", "string", {}),
        (b"42", "string", {}),
        ("Köln".encode(), "string", {}),
        (b"\xff\xfe", "raw", {}),
        (b"a\0b", "raw", {}),
        (b"\0\0\0", "raw", {}),
        (b"[" * 100_000, "string", {}),
    ],
)
def test_one_kind_of_value(value: bytes, format_: str, options: dict[str, object]) -> None:
    found = of(*[value] * 3)
    assert (found.format, found.options, found.count) == (format_, options, 3)


@pytest.mark.parametrize(
    ("kind", "format_", "name"),
    [("AVRO", "avro", "Avro"), ("PROTOBUF", "protobuf", "Protobuf"), ("JSON", "json_schema", "JSON")],
)
def test_registered_schemas(kind: str, format_: str, name: str) -> None:
    asked: list[int] = []

    def kind_of(schema_id: int) -> str:
        asked.append(schema_id)
        return kind

    values = [b"\0\0\0\0\7rest"] * 9 + [b"\0\0\0\0\10rest"]
    found = guess(values, kind_of)
    assert (found.format, found.what) == (format_, f"{name} with a registered schema")
    assert asked == [7]


def test_a_few_bad_values_do_not_hide_the_format() -> None:
    found = of(*[b'{"a": 1}'] * 9, b"oops")
    assert (found.format, found.count) == ("json", 9)


def test_many_of_another_kind_do() -> None:
    assert of(*[b'{"a": 1}'] * 8, b"oops", b"oops").format == "string"


def test_rows_of_different_lengths_are_text() -> None:
    assert of(b"a,b", b"a,b,c", b"a", b"a,b,c,d").format == "string"


@given(st.lists(st.binary(min_size=1).filter(lambda v: v[:1] != b"\0"), min_size=1))
def test_any_values_have_a_format_and_a_job_file(values: list[bytes]) -> None:
    found = of(*values)
    assert 0 < found.count <= len(values)
    route = tomllib.loads(job_text(START, found))["route"][0]
    assert route["topic"] == 'or"ders'


@pytest.mark.parametrize("registry", [None, "http://r:8081"])
def test_the_job_file_is_valid(tmp_path: Path, registry: str | None) -> None:
    for found in (of(CHANGE), of(b"1;2"), of(b"1\t2"), of(b"words"), of(b"\xff"), of(b'{"a": 1}')):
        path = tmp_path / "job.toml"
        start = StartingPoint("orders", "shop.orders", "k:9092", ["http://a:8123"], registry, tmp_path)
        path.write_text(job_text(start, found), encoding="utf-8")
        config = load(path, environ={})
        assert config.routes[0].format.type == found.format
        assert config.errors.on_tombstone == ("skip" if found.format == "debezium" else "bad")


@pytest.mark.parametrize(("key", "function"), [((), "rand"), (("id", "city"), "xxHash64")])
def test_several_servers_are_shards(tmp_path: Path, key: tuple[str, ...], function: str) -> None:
    path, urls = tmp_path / "job.toml", ["http://a:8123", "http://b:8123"]
    start = StartingPoint("orders", "shop.orders", "k:9092", urls, None, tmp_path, key)
    path.write_text(job_text(start, of(b'{"a": 1}')), encoding="utf-8")
    config = load(path, environ={})
    assert (config.clickhouse.shard_key, config.clickhouse.hash_function) == (key, function)
