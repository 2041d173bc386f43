"""What docs/types.md says of a column is what the decoder does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from chsink.decode import Column, JsonDecoder
from chsink.notation.metadata_columns import METADATA_COLUMNS, MetadataColumn
from tests.support.type_cases import RULES

PAGE = (Path(__file__).parents[3] / "docs" / "types.md").read_text(encoding="utf-8")
FITS = [(kind, texts) for rule in RULES for kind, texts in rule.fits.items()]
REFUSED = [(kind, texts) for rule in RULES for kind, texts in rule.bad.items()]


@pytest.mark.parametrize("column", METADATA_COLUMNS.values(), ids=lambda column: column.name)
def test_the_page_lists_the_metadata_columns(column: MetadataColumn) -> None:
    assert f"| `{column.name}` | `{column.declare}` |" in PAGE


def test_a_variant_takes_the_alternative_of_the_kind() -> None:
    decoder = JsonDecoder([Column("c", "Variant(Bool, Decimal(9, 2), Float64, Int8, String, UInt64)")], timezone="UTC")
    texts = ["1", "300", "1.5", "1e300", '"x"', "true"]
    batch = decoder.decode(pa.array([f'{{"c": {text}}}'.encode() for text in texts], pa.binary())).batch
    union = batch.column(0)
    assert isinstance(union, pa.UnionArray)
    assert [union.type.field(code).name for code in union.type_codes.to_pylist()] == [
        "Int8", "UInt64", "Decimal(9, 2)", "Float64", "String", "Bool",
    ]  # fmt: skip


def bad(kind: str, texts: list[str], default: str = "") -> list[int]:
    decoder = JsonDecoder([Column("c", kind, default)], timezone="UTC")
    decoded = decoder.decode(pa.array([f'{{"c": {text}}}'.encode() for text in texts], pa.binary()))
    return [found.row for found in decoded.bad]


@pytest.mark.parametrize(("kind", "texts"), [*FITS, ("Nullable(Int8)", ["null", "1"])], ids=str)
def test_takes(kind: str, texts: list[str]) -> None:
    assert bad(kind, texts) == []


@pytest.mark.parametrize(("kind", "texts"), [*REFUSED, ("Int8", ["null"])], ids=str)
def test_refuses(kind: str, texts: list[str]) -> None:
    assert bad(kind, texts) == list(range(len(texts)))


@pytest.mark.parametrize("value", [None, b"", b"[1]", b'{"c": 1, "c": 1}', b'"x"'])
def test_bad_records(value: bytes | None) -> None:
    decoder = JsonDecoder([Column("c", "Int8", "")], timezone="UTC")
    assert [found.row for found in decoder.decode(pa.array([value], pa.binary())).bad] == [0]


@pytest.mark.parametrize(
    ("kind", "default", "fits"), [("Nullable(Int8)", "", True), ("Int8", "DEFAULT", True), ("Int8", "", False)]
)
def test_missing_is_null(kind: str, default: str, fits: bool) -> None:
    decoder = JsonDecoder([Column("c", kind, default)], timezone="UTC")
    missing = decoder.decode(pa.array([b'{"other": 1}'], pa.binary()))
    assert (bad(kind, ["null"], default) == []) is (not missing.bad) is fits
