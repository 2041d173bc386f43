"""Which objects a JSON column keeps.

ClickHouse infers a type for each path of an object and stores the value in it.  A text that looks like a date or a time
becomes one, which is shown in ClickHouse's own form.  For Arrow, no setting of an insert prevents that.  These objects
are rejected, because ClickHouse would change a value in them, alone or beside others, or refuse the whole insert:

- a key that is repeated, or that has a dot: ClickHouse splits it into two keys;
- a whole number beyond 64 bits, which becomes a string, and any number beyond Float64;
- a text like a date or time that does not exist, which moves to another day or hour, or with more than nine decimals;
- a text like a date or time outside 1970 to 2106: alone it is kept, but beside another date at the same path it becomes
  the nearest one that the inferred type holds;
- arrays whose values would take a common type that changes one: booleans among numbers or texts, a large whole number
  among fractions, and a number beyond Int64 among negative ones.

A limit: at a path that also holds a date with a time in the same insert, ClickHouse takes a text of five or more digits
for seconds since 1970.  The outcome of a record depends on that record alone, so this is not rejected (docs/types.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any, Final

from chsink.decode.texts import encoded
from chsink.decode.times import CALENDAR_DAYS, InstantCodec
from chsink.decode.values import MisfitError

_INT64: Final = 1 << 63
_DIGITS: Final = 20
_EXACT: Final = 1 << 53
"""A Float64 holds every whole number up to this one."""
_TIME: Final = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d*))?)?", re.ASCII)
_PLAIN_DATE: Final = re.compile(r"(?:19[789]\d|20\d\d|210[0-5])-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])", re.ASCII)
_PLAIN: Final = re.compile(_PLAIN_DATE.pattern + r"(?:[ T](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?)?", re.ASCII)
"""Dates, and times in UTC, that exist and can be stored for certain."""
_DATES: Final = ("1970-01-02", "2106-02-06")
"""What Date and DateTime hold in any time zone: beside a time, a date becomes one."""
_SECONDS: Final = (0, (1 << 32) - 1)
_YEARS: Final = (1900, 2261)
"""What DateTime and DateTime64(9) hold."""
_DASHES: Final = frozenset("-/")
_INSIDE: Final = " inside a JSON column"


def stored_json(timezone: str) -> Callable[[str], None]:
    """A check of an object's text: raises MisfitError if a JSON column of a server in this zone would change it."""
    times = InstantCodec(0, timezone, CALENDAR_DAYS)
    plain = _PLAIN.fullmatch if times.zone is None else _PLAIN_DATE.fullmatch

    def text(value: str) -> None:
        if value[4:5] in _DASHES and plain(value) is None:
            _check_text(value, times)

    def members(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise MisfitError("a key is repeated" + _INSIDE)
        if "." in "".join(found):
            raise MisfitError("a key with a dot, which ClickHouse would split," + _INSIDE)
        for value in found.values():
            kind = type(value)
            if kind is str:
                text(value)
            elif kind is list:
                _check_array(value, text)
        return found

    check = json.JSONDecoder(object_pairs_hook=members, parse_float=_finite, parse_int=_whole)

    def run(whole: str) -> None:
        check.decode(whole)
        if "\\ud" in whole or "\\uD" in whole:
            encoded(json.dumps(json.loads(whole), ensure_ascii=False))

    return run


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise MisfitError("a number beyond Float64" + _INSIDE)
    return number


def _whole(text: str) -> int:
    number = int(text) if len(text) <= _DIGITS else 2 * _INT64
    if not -_INT64 <= number < 2 * _INT64:
        raise MisfitError("a whole number beyond 64 bits" + _INSIDE)
    return number


def _check_text(text: str, times: InstantCodec) -> None:
    found = _TIME.fullmatch(text)
    if found is None:
        return
    try:
        shown = date(*(int(found[at]) for at in (1, 2, 3))).isoformat()
    except ValueError:
        raise MisfitError("a text like a date that does not exist" + _INSIDE) from None
    if len(found[5] or "") > 9:
        raise MisfitError("a text like a time with more than nine decimals" + _INSIDE)
    if found[4] is None:
        fits = _DATES[0] <= shown <= _DATES[1]
    elif found[5]:
        fits = _YEARS[0] <= int(found[1]) <= _YEARS[1] and _seconds(shown, found[4], times) is not None
    else:
        fits = _SECONDS[0] <= _seconds(shown, found[4], times) <= _SECONDS[1]
    if not fits:
        raise MisfitError("a text like a date or time that is out of range" + _INSIDE)


def _seconds(day: str, time: str, times: InstantCodec) -> int:
    try:
        return int(times.exact(f"{day} {time}"))
    except MisfitError:
        raise MisfitError("a text like a time that does not exist" + _INSIDE) from None


def _check_array(values: list[Any], text: Callable[[str], None]) -> None:
    kinds = set(map(type, values))
    if list in kinds:
        values = list(_scalars(values))
        kinds = set(map(type, values))
    if str in kinds:
        for value in values:
            if type(value) is str:
                text(value)
    if bool in kinds and kinds & {int, float, str}:
        raise MisfitError("an array of booleans and other values" + _INSIDE)
    if int in kinds:
        whole = values if len(kinds) == 1 else [one for one in values if type(one) is int]
        low, high = min(whole), max(whole)
        if float in kinds and max(-low, high) > _EXACT:
            raise MisfitError("an array of fractions and of whole numbers that Float64 does not hold" + _INSIDE)
        if high >= _INT64 and low < 0:
            raise MisfitError("an array of negative numbers and of numbers beyond Int64" + _INSIDE)


def _scalars(values: list[Any]) -> Iterator[Any]:
    """The texts, numbers and booleans in an array and the arrays in it; objects are checked by themselves."""
    for value in values:
        if isinstance(value, list):
            yield from _scalars(value)
        elif value is not None and not isinstance(value, dict):
            yield value
