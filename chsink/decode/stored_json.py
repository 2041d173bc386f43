"""Which objects a JSON column keeps.

ClickHouse infers a type for each path of an object and stores the value in it; a text stays that text
(:mod:`chsink.decode.insert`).  These objects are rejected, because ClickHouse would change a value in them, or refuse
the whole insert:

- a key that is repeated, or that has a dot: ClickHouse splits it into two keys;
- a whole number beyond 64 bits, which becomes a string, and any number beyond Float64;
- arrays whose values would take a type that changes one, their own or that of an earlier array at the same path:
  booleans among numbers or texts, and nothing but nulls, which become empty arrays or objects;
- whole numbers that Float64 does not hold, in an array or in an object inside two arrays: beside fractions there, they
  are rounded;
- arrays of nulls and arrays, which ClickHouse does not read.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from chsink.decode.texts import encoded
from chsink.decode.values import MisfitError

_INT64: Final = 1 << 63
_DIGITS: Final = 20
_EXACT: Final = 1 << 53
"""A Float64 holds every whole number up to this one."""
_MANY_DIGITS: Final = re.compile(r"\d{16}")
_FEW_TYPES: Final = 2
_INSIDE: Final = " inside a JSON column"


def check_stored(whole: str) -> None:
    """Raises MisfitError if a JSON column would change this object's text."""
    found = _CHECK.decode(whole)
    if _MANY_DIGITS.search(whole):
        _check_large(found, 0)
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
    """Check the values in an array and the arrays in it; objects are checked by themselves."""
    kinds = set[type]()
    while values:  # one depth after the other
        here = set(map(type, values))
        if type(None) in here and (list in here or len(here) == 1):
            raise MisfitError("an array of nothing but nulls, or of nulls and arrays," + _INSIDE)
        kinds |= here
        values = [one for array in values if type(array) is list for one in array] if list in here else []
    if bool in kinds and kinds & {int, float, str}:
        raise MisfitError("an array of booleans and other values" + _INSIDE)


def _check_large(value: Any, arrays: int) -> None:
    """Fractions at the same path round a large whole number in an array; and one in an object inside two arrays,
    because ClickHouse keeps few types for a path there.
    """
    if type(value) is dict:
        for one in value.values():
            if type(one) in (dict, list) or arrays >= _FEW_TYPES:
                _check_large(one, arrays)
    elif type(value) is list:
        for one in value:
            _check_large(one, arrays + 1)
    elif type(value) is int and abs(value) > _EXACT:
        raise MisfitError("a whole number in an array, which Float64 does not hold," + _INSIDE)


_CHECK: Final = json.JSONDecoder(object_pairs_hook=_members, parse_float=_finite, parse_int=_whole)
