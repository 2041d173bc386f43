"""Which objects a JSON column keeps.

ClickHouse infers a type for each path of an object and stores the value in it; a text stays that text
(:mod:`chsink.decode.insert`).  These objects are rejected, because ClickHouse would change a value in them, or refuse
the whole insert:

- a key that is repeated, or that has a dot: ClickHouse splits it into two keys;
- a whole number beyond 64 bits, which becomes a string, and any number beyond Float64;
- arrays whose values would take a common type that changes one: booleans among numbers or texts, a large whole number
  among fractions, and a number beyond Int64 among negative ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from chsink.decode.texts import encoded
from chsink.decode.values import MisfitError

_INT64: Final = 1 << 63
_DIGITS: Final = 20
_EXACT: Final = 1 << 53
"""A Float64 holds every whole number up to this one."""
_INSIDE: Final = " inside a JSON column"


def check_stored(whole: str) -> None:
    """Raises MisfitError if a JSON column would change this object's text."""
    _CHECK.decode(whole)
    if "\\ud" in whole or "\\uD" in whole:
        encoded(json.dumps(json.loads(whole), ensure_ascii=False))


def _members(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MisfitError("a key is repeated" + _INSIDE)
    if "." in "".join(found):
        raise MisfitError("a key with a dot, which ClickHouse would split," + _INSIDE)
    for value in found.values():
        if type(value) is list:
            _check_array(value)
    return found


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


def _check_array(values: list[Any]) -> None:
    kinds = set(map(type, values))
    if list in kinds:
        values = list(_scalars(values))
        kinds = set(map(type, values))
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


_CHECK: Final = json.JSONDecoder(object_pairs_hook=_members, parse_float=_finite, parse_int=_whole)
