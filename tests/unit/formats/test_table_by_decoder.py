"""Which of a topic's tables takes a record: each record has one, or is bad once."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from chsink.decode.columns import Column
from chsink.errors import PreflightError
from chsink.formats.announced_columns import as_announced
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched, digest_of, fingerprint
from chsink.formats.settings import JSON, JsonSchema
from chsink.formats.table_by import Choice
from chsink.formats.table_by_decoder import own_records
from chsink.kafka.records import SCHEMA
from chsink.ports import Decoded, Decoder
from chsink.statemachine.table import choice_of

STREAM = Untouched("read_committed")
COLUMNS = [Column("id", "Int64"), Column("_kafka_offset", "UInt64")]
KNOWN = ("order", "big order", "refund")
ORDERS, REFUNDS = ("order", "big order"), ("refund",)


def decoder(choice: Choice | None, **more: Any) -> Decoder:
    return decoder_of("d.t", COLUMNS, "UTC", STREAM, more.pop("format", JSON), choice=choice, **more)


def by_field(values: tuple[str, ...], known: tuple[str, ...] | None = KNOWN, header: int = 0) -> Choice:
    return Choice("field", "$.about.type", values, known, header)


def records(values: list[bytes | None], headers: list[Any] | None = None, keys: list[Any] | None = None) -> Any:
    n = len(values)
    columns = {
        "key": keys or [None] * n,
        "value": values,
        "topic": ["t"] * n,
        "partition": [0] * n,
        "offset": list(range(100, 100 + n)),
        "timestamp": [0] * n,
        "timestampType": [0] * n,
        "headers": headers or [None] * n,
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def said(*types: Any) -> list[bytes | None]:
    """JSON records that say these types; what is no text or None is the record itself."""
    return [
        t if isinstance(t, bytes) else json.dumps({"id": at, "about": {"type": t}}).encode()
        for at, t in enumerate(types)
    ]


def fates(decoded: Decoded) -> tuple[list[int], list[int], int]:
    """The offsets of the rows, 100 + those of the bad rows, and how many others there are."""
    return decoded.batch.column("_kafka_offset").to_pylist(), [100 + b.row for b in decoded.bad], decoded.others


def test_each_record_has_one_table_or_is_bad_once() -> None:
    """⚑ Over all tables, every offset has exactly one fate."""
    given = records([*said("order", "refund", "return", 5, None, b"{}", b"nonsense", "big order"), None])
    first, second = decoder(by_field(ORDERS)), decoder(by_field(REFUNDS, None))

    assert fates(first.decode(given)) == ([100, 107], [102, 103, 104, 105, 106, 108], 1)
    assert fates(second.decode(given)) == ([101], [], 8)
    assert {b.row: b.reason for b in first.decode(given).bad if b.row < 6} == {
        2: "no table is configured for the value of its field $.about.type",
        3: "no table is configured for the value of its field $.about.type",
        4: "names no table: its field $.about.type is missing or null",
        5: "names no table: its field $.about.type is missing or null",
    }
    assert [b.row for b in first.decode(given).bad if b.tombstone] == [8]


def test_a_record_that_is_bad_for_its_table_is_bad_there_only() -> None:
    given = records([b'{"id": "x", "about": {"type": "refund"}}', *said("order", "refund")])

    assert fates(decoder(by_field(ORDERS)).decode(given)) == ([101], [], 2)
    assert fates(decoder(by_field(REFUNDS, None)).decode(given)) == ([102], [100], 1)
    assert decoder(by_field(REFUNDS, None)).decode(given).bad[0].column == "id"


def test_a_table_that_has_all_records_or_none() -> None:
    given = records(said("order", "order"))
    assert fates(decoder(by_field(ORDERS)).decode(given)) == ([100, 101], [], 0)
    assert fates(decoder(by_field(REFUNDS, None)).decode(given)) == ([], [], 2)
    assert fates(decoder(by_field(ORDERS)).decode(given.slice(0, 0))) == ([], [], 0)


def test_a_record_that_cannot_be_read_is_bad_where_others_are_ignored() -> None:
    """⚑ Found by a newcomer: broken payments were left out, and nothing counted them."""
    given = records([*said("order", "return", None), b"nonsense", b"", b"[1]", None])
    assert fates(decoder(replace(by_field(ORDERS), ignores=True)).decode(given)) == ([100], [103, 104, 105, 106], 2)
    assert fates(decoder(by_field(REFUNDS, None)).decode(given)) == ([], [], 7)


def test_the_records_of_a_table() -> None:
    """⚑ Columns are made and added for the fields of a table's own records only."""
    given = records(said("order", "refund", "return"))
    assert own_records(decoder(by_field(REFUNDS, None)), given).column("offset").to_pylist() == [101]
    assert own_records(decoder(None), given) is given


def test_the_last_header_of_a_name_chooses_for_every_format() -> None:
    """⚑ Also in a slice of a batch, where lists do not begin at its first element."""
    headers = [
        [{"key": "kind", "value": b"order"}],
        [{"key": "x", "value": b"1"}, {"key": "kind", "value": b"order"}, {"key": "kind", "value": b"refund"}],
        None,
        [{"key": "kind", "value": b"refund"}],
        [{"key": "kind", "value": None}],
        [{"key": "Kind", "value": b"order"}],
    ]
    given = records([*said(*"abcde"), None], headers)
    choose = Choice("header", "kind", ORDERS, KNOWN)

    assert fates(decoder(choose).decode(given)) == ([100], [102, 104, 105], 2)
    assert fates(decoder(choose).decode(given.slice(1))) == ([], [101, 103, 104], 2), "bad rows are those of the slice"
    assert fates(decoder(Choice("header", "kind", REFUNDS)).decode(given.slice(1))) == ([101, 103], [], 3)
    assert "headers" in decoder(choose).record_fields


def test_the_key_or_a_column_chooses() -> None:
    given = records(said(*"abc"), keys=[b"order", b"refund", None])
    assert fates(decoder(Choice("column", "key", REFUNDS)).decode(given)) == ([101], [], 2)
    assert fates(decoder(Choice("column", "key", ORDERS, KNOWN)).decode(given)) == ([100], [102], 1)


def test_json_behind_a_schema_id() -> None:
    format_ = JsonSchema(type="json_schema")
    choose = decoder(by_field(REFUNDS, None, header=5), format=format_)
    given = records([b"\x00\x00\x00\x00\x01" + (value or b"") for value in said("order", "order")])
    assert fates(choose.decode(given)) == ([], [], 2)


def test_the_choice_is_part_of_the_fingerprint() -> None:
    """⚑ Another choice makes other rows of the same records, so a range in doubt must not be sent under it."""
    choices = [
        by_field(ORDERS),
        by_field(ORDERS, None),
        by_field(REFUNDS),
        replace(by_field(ORDERS), ignores=True),
        by_field(ORDERS, (*KNOWN, "new")),
        Choice("header", "$.about.type", ORDERS, KNOWN),
    ]
    prints = [fingerprint(decoder(choice), STREAM, []) for choice in (None, *choices)]
    assert len(set(prints)) == len(prints)
    assert all("table_by=" in one for one in prints[1:])
    assert fingerprint(decoder(by_field(ORDERS[::-1])), STREAM, []) == prints[1]


def test_another_transform_is_another_choice() -> None:
    """⚑ A transform may make what the table is chosen by.  When it changed after a crash between two tables of a batch,
    nothing was in doubt, and records that changed their table landed twice or not at all.
    """
    choice = Choice("column", "kind", ORDERS, KNOWN)
    streams = [Untouched("read_committed", (*STREAM.columns, "kind"), transform) for transform in ("", "one", "other")]
    chosen = [choice_of(fingerprint(decoder_of("d.t", COLUMNS, "UTC", s, JSON, choice=choice), s, [])) for s in streams]
    assert len(set(chosen)) == 3
    assert chosen[0] == digest_of(choice.part())
    plain = decoder_of("d.t", COLUMNS, "UTC", STREAM, JSON)
    assert not any(choice_of(fingerprint(plain, stream, [])) for stream in streams), "a table that takes all records"


def test_a_range_is_settled_with_the_columns_it_was_announced_with() -> None:
    """⚑ Also where records name their table, and it has gained a column since."""
    wider = [COLUMNS[0], Column("new", "Nullable(String)"), COLUMNS[1]]
    now = decoder_of("d.t", wider, "UTC", STREAM, JSON, choice=by_field(ORDERS))
    settling = as_announced(now, fingerprint(decoder(by_field(ORDERS)), STREAM, []))
    assert (set(settling.filled), set(now.filled)) == ({"id", "_kafka_offset"}, {"id", "new", "_kafka_offset"})
    assert fates(settling.decode(records(said("order", "refund")))) == ([100], [], 1)


def test_a_decoder_travels_to_executors() -> None:
    decodes = decoder(by_field(ORDERS))
    given = records(said("order", "refund"))
    decodes.decode(given)
    assert fates(pickle.loads(pickle.dumps(decodes)).decode(given)) == fates(decodes.decode(given))


def test_a_stream_without_what_chooses() -> None:
    class Transformed:
        columns: tuple[str, ...] = ("id", "topic", "partition", "offset")
        transform = "Project"
        isolation_level = "read_committed"

    with pytest.raises(PreflightError, match="CHS-213.*no column target"):
        decoder_of("d.t", COLUMNS, "UTC", Transformed(), JSON, choice=Choice("column", "target", ORDERS))
    Transformed.columns += ("target",)
    decodes = decoder_of(
        "d.t", COLUMNS, "UTC", Transformed(), JSON, choice=Choice("column", "target", ORDERS), elsewhere=["target"]
    )
    rows = {"id": [1, 1, 2], "offset": [7, 7, 8], "target": ["order", "refund", "order"]}
    assert fates(decodes.decode(pa.RecordBatch.from_pydict(rows))) == ([7, 8], [], 1)
