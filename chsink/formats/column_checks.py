"""Checks that the options of a route's formats fit the columns of its table."""

from __future__ import annotations

from collections.abc import Mapping

from chsink.errors import preflight
from chsink.formats.settings import FormatSettings, KeyColumns


def check_filled(table: str, columns: Mapping[str, bool], value: FormatSettings, keys: KeyColumns | None) -> None:
    """Checks that the table has every column that the options name, and that no required column stays without a value.

    ``columns`` maps each column that a record fills to whether it is required.  Raises PreflightError CHS-212 or 213.
    """
    of_key = frozenset(keys.columns if keys else ())
    if unknown := sorted(of_key - columns.keys()):
        raise preflight.FORMAT_COLUMN_UNKNOWN(table=table, columns=", ".join(unknown), options="key_columns")
    _check(table, {name: required for name, required in columns.items() if name not in of_key}, value)
    if keys:
        _check(table, {name: columns[name] for name in keys.columns}, keys.format)


def _check(table: str, columns: Mapping[str, bool], settings: FormatSettings) -> None:
    named = settings.named
    if unknown := sorted(named - columns.keys()):
        options = f"the format {settings.type}"
        raise preflight.FORMAT_COLUMN_UNKNOWN(table=table, columns=", ".join(unknown), options=options)
    if not settings.closed:
        return
    if not named and len(columns) != 1:
        raise preflight.FORMAT_COLUMN_OPEN(table=table, format=settings.type, count=len(columns))
    filled = named or columns.keys()
    if required := [name for name, needed in columns.items() if needed and name not in filled]:
        raise preflight.FORMAT_COLUMN_REQUIRED(table=table, columns=", ".join(required), format=settings.type)
