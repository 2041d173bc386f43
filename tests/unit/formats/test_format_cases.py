"""What docs/formats.md says of formats and types is what the readers do."""

from __future__ import annotations

import pytest

from chsink.decode.columns import Column
from chsink.formats.settings import JSON, Csv, Debezium, FormatSettings, Raw, String, Tsv
from tests.support.format_cases import CASES, NULL, Case
from tests.unit.formats.decoding import outcomes


def written(case: Case) -> list[tuple[FormatSettings, bytes, bool]]:
    """The case's value in each format, and whether it fits."""
    of_row = f'{{"op":"c","after":{{"c":{case.json}}}}}'
    text, fits = case.text or "x", case.text is not None
    return [
        (JSON, f'{{"c":{case.json}}}'.encode(), True),
        (Debezium(type="debezium"), of_row.encode(), True),
        (Csv(type="csv", columns=("c",), quote="'"), b"" if text == NULL else f"'{text}'".encode(), fits),
        (Tsv(type="tsv", columns=("c",)), (rb"\N" if text == NULL else text.encode()), fits),
        (String(type="string"), text.encode(), fits and text != NULL),
        (Raw(type="raw"), b"\xff\x00", case.raw),
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_fits_or_does_not(case: Case) -> None:
    for settings, value, fits in written(case):
        (found,) = outcomes(settings, [Column("c", case.type)], [value])
        assert isinstance(found, dict) == fits, (settings.type, found)
