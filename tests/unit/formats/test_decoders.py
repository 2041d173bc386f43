"""Which decoder reads a stream."""

from __future__ import annotations

from typing import get_args

import pytest

from chsink.config.routes import RouteSection
from chsink.decode.columns import Column
from chsink.errors import PreflightError
from chsink.formats.columns import ColumnRecords
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched, fingerprint
from chsink.formats.readers import READERS
from chsink.formats.records import Records
from chsink.formats.settings import JSON, FormatSettings, Raw, String

TABLE = (Column("id", "UInt32", "", ""), Column("name", "String", "", ""), Column("_kafka_offset", "Int64", "", ""))


def transformed(*columns: str) -> Untouched:
    return Untouched("read_committed", ("topic", "partition", "offset", *columns), "a transform")


def test_the_job_file_takes_the_registered_formats() -> None:
    assert set(get_args(RouteSection.model_fields["format"].annotation)) == READERS.keys()


def test_kafkas_value_is_read_by_the_routes_format() -> None:
    decoder = decoder_of("d.t", TABLE, "UTC", Untouched("read_committed"), JSON)

    assert isinstance(decoder, Records)
    assert decoder.record_fields == ("value", "offset")


def test_columns_of_a_transform_are_the_tables() -> None:
    decoder = decoder_of("d.t", TABLE, "UTC", transformed("id", "name"), JSON)

    assert isinstance(decoder, ColumnRecords)
    assert decoder.record_fields == ("id", "name", "offset")


@pytest.mark.parametrize(("columns", "id"), [(("id", "name", "else"), "CHS-212"), (("id",), "CHS-213")])
def test_columns_that_do_not_fit_the_table_are_refused(columns: tuple[str, ...], id: str) -> None:
    with pytest.raises(PreflightError) as caught:
        decoder_of("d.t", TABLE, "UTC", transformed(*columns), JSON)
    assert caught.value.id == id


def test_a_table_takes_its_own_columns_of_a_stream_for_several_tables() -> None:
    stream = transformed("id", "name", "else")

    decoder = decoder_of("d.t", TABLE, "UTC", stream, JSON, elsewhere=("id", "else"))

    assert decoder.record_fields == ("id", "name", "offset")
    alone = decoder_of("d.t", TABLE, "UTC", transformed("id", "name"), JSON)
    assert decoder.parts() == alone.parts(), "other tables' columns do not change what a record becomes"


def test_a_column_of_no_routed_table_is_refused() -> None:
    with pytest.raises(PreflightError, match="nowhere") as caught:
        decoder_of("d.t", TABLE, "UTC", transformed("id", "name", "nowhere"), JSON, elsewhere=("else",))
    assert caught.value.id == "CHS-212"


def test_a_fingerprint_names_its_parts() -> None:
    stream = Untouched("read_committed")
    one = fingerprint(decoder_of("d.t", TABLE, "UTC", stream, JSON), stream, ["a"])
    other = fingerprint(decoder_of("d.t", TABLE, "UTC", stream, JSON), stream, ["b"])

    assert [part.split("=")[0] for part in one.split(",")] == ["decoder", "columns", "transform", "isolation", "table"]
    assert one.split(",")[:-1] == other.split(",")[:-1]
    assert one != other


def test_a_formats_options_are_in_the_fingerprint() -> None:
    columns, stream = TABLE[1:2], Untouched("read_committed")

    def decoder_part(settings: FormatSettings) -> str:
        return fingerprint(decoder_of("d.t", columns, "UTC", stream, settings), stream, ["a"]).split(",")[0]

    parts = [decoder_part(each) for each in (JSON, Raw(type="raw"), String(type="string"))]
    assert len({*parts, decoder_part(Raw(type="raw", column="name"))}) == 4


def test_plain_json_keeps_the_fingerprint_of_ranges_in_doubt() -> None:
    """⚑ A range that was announced before an upgrade could never be sent again under another fingerprint."""
    decoder = decoder_of("d.t", TABLE, "UTC", Untouched("read_committed"), JSON)

    assert decoder.parts() == (
        ("decoder", [2, "json"]),
        (
            "columns",
            [[("id", "UInt32", "", ""), ("name", "String", "", ""), ("_kafka_offset", "Int64", "", "")], "UTC"],
        ),
    )
