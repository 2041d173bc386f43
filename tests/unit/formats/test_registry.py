"""Which decoder reads a stream."""

from __future__ import annotations

from typing import get_args

import pytest

from chsink.config.sections import Route
from chsink.decode.columns import Column
from chsink.errors import PreflightError
from chsink.formats.columns import ColumnRecords
from chsink.formats.json import JsonRecords
from chsink.formats.pipeline import Untouched, fingerprint
from chsink.formats.registry import DECODERS, decoder_of

TABLE = (Column("id", "UInt32", "", ""), Column("name", "String", "", ""), Column("_kafka_offset", "Int64", "", ""))


def transformed(*columns: str) -> Untouched:
    return Untouched("read_committed", ("topic", "partition", "offset", *columns), "a transform")


def test_the_job_file_takes_the_registered_formats() -> None:
    assert set(get_args(Route.model_fields["format"].annotation)) == DECODERS.keys()


def test_kafkas_value_is_read_by_the_routes_format() -> None:
    decoder = decoder_of("d.t", TABLE, "UTC", Untouched("read_committed"), "json")

    assert isinstance(decoder, JsonRecords)
    assert decoder.record_fields == ("value", "offset")


def test_columns_of_a_transform_are_the_tables() -> None:
    decoder = decoder_of("d.t", TABLE, "UTC", transformed("id", "name"), "json")

    assert isinstance(decoder, ColumnRecords)
    assert decoder.record_fields == ("id", "name", "offset")


@pytest.mark.parametrize(("columns", "id"), [(("id", "name", "else"), "CHS-212"), (("id",), "CHS-213")])
def test_columns_that_do_not_fit_the_table_are_refused(columns: tuple[str, ...], id: str) -> None:
    with pytest.raises(PreflightError) as caught:
        decoder_of("d.t", TABLE, "UTC", transformed(*columns), "json")
    assert caught.value.id == id


def test_a_table_takes_its_own_columns_of_a_stream_for_several_tables() -> None:
    stream = transformed("id", "name", "else")

    decoder = decoder_of("d.t", TABLE, "UTC", stream, "json", elsewhere=("id", "else"))

    assert decoder.record_fields == ("id", "name", "offset")
    alone = decoder_of("d.t", TABLE, "UTC", transformed("id", "name"), "json")
    assert decoder.parts() == alone.parts(), "other tables' columns do not change what a record becomes"


def test_a_column_of_no_routed_table_is_refused() -> None:
    with pytest.raises(PreflightError, match="nowhere") as caught:
        decoder_of("d.t", TABLE, "UTC", transformed("id", "name", "nowhere"), "json", elsewhere=("else",))
    assert caught.value.id == "CHS-212"


def test_a_fingerprint_names_its_parts() -> None:
    stream = Untouched("read_committed")
    one = fingerprint(decoder_of("d.t", TABLE, "UTC", stream, "json"), stream, ["a"])
    other = fingerprint(decoder_of("d.t", TABLE, "UTC", stream, "json"), stream, ["b"])

    assert [part.split("=")[0] for part in one.split(",")] == ["decoder", "columns", "transform", "isolation", "table"]
    assert one.split(",")[:-1] == other.split(",")[:-1]
    assert one != other
