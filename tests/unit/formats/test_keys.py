"""Kafka's key fills some columns, by a format of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from chsink.config import Config
from chsink.decode.columns import Column
from chsink.errors import PreflightError
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched, fingerprint
from chsink.formats.settings import JSON, FormatSettings, KeyColumns, Raw
from tests.support.examples import examples
from tests.unit.formats.decoding import alone, outcomes

COLUMNS = (Column("id", "UInt32"), Column("name", "String"), Column("region", "Nullable(String)"))
KEYS = KeyColumns(JSON, ("id", "region"))


def test_key_and_value_make_one_row() -> None:
    values = [b'{"name":"a","id":"ignored"}', b'{"name":"b"}', b'{"name":"c"}', None, b"{", b'{"name":"f"}']
    keys = [b'{"id":1,"region":"eu"}', b'{"id":-1}', None, b'{"id":4}', b"{", b'{"id":6}']

    assert outcomes(JSON, COLUMNS, values, keys, KEYS) == [
        {"id": 1, "name": b"a", "region": b"eu"},
        "id: the key: out of range for UInt32",
        "id: the key: missing or null, and the column has no DEFAULT and is not Nullable",
        "None: value is null (a tombstone)",
        "None: not valid JSON at byte 1",
        {"id": 6, "name": b"f", "region": None},
    ]


def test_a_raw_key_beside_json() -> None:
    columns = (Column("k", "String", "DEFAULT", "'none'"), Column("name", "String"))
    keys = KeyColumns(Raw(type="raw"), ("k",))

    assert outcomes(JSON, columns, [b'{"name":"a"}'] * 3, [b"\xff", b"", None], keys) == [
        {"k": b"\xff", "name": b"a"},
        {"k": b"", "name": b"a"},
        {"k": None, "name": b"a"},
    ]


MESSY = st.sampled_from([None, b"", b"{}", b"[", b'{"id":1}', b'{"id":-1}', b'{"name":"x"}', b'{"id":2,"name":"y"}'])


@hypothesis(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(MESSY, MESSY), max_size=8))
def test_a_batch_is_its_records(records: list[tuple[bytes | None, bytes | None]]) -> None:
    values, keys = [value for value, _ in records], [key for _, key in records]

    assert outcomes(JSON, COLUMNS, values, keys, KEYS) == alone(JSON, COLUMNS, values, keys=keys, reading=KEYS)


def test_keys_are_in_the_fingerprint() -> None:
    stream = Untouched("read_committed")

    def print_of(keys: KeyColumns | None) -> str:
        return fingerprint(decoder_of("d.t", COLUMNS, "UTC", stream, JSON, keys=keys), stream, ["a"])

    assert len({print_of(None), print_of(KEYS), print_of(KeyColumns(JSON, ("id",)))}) == 3


@pytest.mark.parametrize(
    ("value", "keys", "id"),
    [
        (JSON, KeyColumns(JSON, ("x",)), "CHS-212"),
        (JSON, KeyColumns(Raw(type="raw"), ("id", "name")), "CHS-213"),
        (Raw(type="raw", column="id"), KeyColumns(JSON, ("id",)), "CHS-212"),
    ],
)
def test_columns_of_the_key_must_fit(value: FormatSettings, keys: KeyColumns, id: str) -> None:
    with pytest.raises(PreflightError) as caught:
        decoder_of("d.t", COLUMNS, "UTC", Untouched("read_committed"), value, keys=keys)
    assert caught.value.id == id


def test_the_mirror_takes_the_keys_of_the_topics_route() -> None:
    topic = {"topic": "t", "table": "a.b"}
    config = Config.from_mapping(
        {
            "sink": {"name": "s"},
            "kafka": {"bootstrap": "a:1"},
            "clickhouse": {"endpoints": ["http://a:1"]},
            "route": [{"topic": "t", "table": "t", "key_format": "json", "key_columns": ["id"]}],
            "mirror": {"route": [topic, {**topic, "table": "a.c", "format": "json"}]},
        }
    )

    assert [config.mirror_keys_of(route) for route in config.mirror.routes] == [KeyColumns(JSON, ("id",)), None]


def test_a_stream_without_the_key_is_refused() -> None:
    columns = ("value", "topic", "partition", "offset", "timestamp", "timestampType")
    with pytest.raises(PreflightError, match="key") as caught:
        decoder_of("d.t", COLUMNS, "UTC", Untouched("read_committed", columns, "no key"), JSON, keys=KEYS)
    assert caught.value.id == "CHS-213"
