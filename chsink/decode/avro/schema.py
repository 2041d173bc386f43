"""An Avro schema as a tree of types.

Rules: names and namespaces are resolved as in Avro's specification.  A schema may use the named types of the schemas it
refers to, which are parsed first.  Text that is not an Avro schema raises :class:`SchemaError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from chsink.decode.avro.scalars import (
    DAY_MS,
    INT32,
    INT64,
    AvroBoolean,
    AvroBytes,
    AvroDecimal,
    AvroEnum,
    AvroFixed,
    AvroFloat,
    AvroInteger,
    AvroNull,
    AvroString,
    AvroType,
    AvroUuid,
)
from chsink.decode.avro.types import AvroArray, AvroMap, AvroRecord, AvroRecursive, AvroUnion

_OUTSIDE: Final = "a time of day that does not exist"
_PLAIN: Final[Mapping[str, Callable[[], AvroType]]] = MappingProxyType(
    {
        "null": AvroNull,
        "boolean": AvroBoolean,
        "int": lambda: AvroInteger(pa.int32(), INT32),
        "long": lambda: AvroInteger(pa.int64(), INT64),
        "float": lambda: AvroFloat(4),
        "double": lambda: AvroFloat(8),
        "bytes": AvroBytes,
        "string": AvroString,
    }
)
_LOGICAL: Final[Mapping[tuple[str, str], Callable[[], AvroType]]] = MappingProxyType(
    {
        ("int", "date"): lambda: AvroInteger(pa.date32(), INT32),
        ("int", "time-millis"): lambda: AvroInteger(pa.time32("ms"), (0, DAY_MS - 1, _OUTSIDE)),
        ("long", "time-micros"): lambda: AvroInteger(pa.time64("us"), (0, DAY_MS * 1000 - 1, _OUTSIDE)),
        ("long", "timestamp-millis"): lambda: AvroInteger(pa.timestamp("ms", "UTC"), INT64),
        ("long", "timestamp-micros"): lambda: AvroInteger(pa.timestamp("us", "UTC"), INT64),
        ("long", "timestamp-nanos"): lambda: AvroInteger(pa.timestamp("ns", "UTC"), INT64),
        ("long", "local-timestamp-millis"): lambda: AvroInteger(pa.timestamp("ms"), INT64),
        ("long", "local-timestamp-micros"): lambda: AvroInteger(pa.timestamp("us"), INT64),
        ("long", "local-timestamp-nanos"): lambda: AvroInteger(pa.timestamp("ns"), INT64),
    }
)
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


class SchemaError(ValueError):
    """The text is not a valid schema; the message says why."""


def parse_schema(text: str, references: Sequence[str] = ()) -> AvroType:
    """The type that a schema describes. ``references`` are the schemas that it refers to, dependencies first.

    Raises SchemaError.
    """
    names: dict[str, AvroType] = {}
    try:
        for reference in references:
            _Parser(names).parse(json.loads(reference), "")
        return _Parser(names).parse(json.loads(text), "")
    except SchemaError:
        raise
    except RecursionError:
        raise SchemaError("it is nested too deep") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SchemaError(f"it is not an Avro schema ({type(error).__name__})") from None


class _Parser:
    def __init__(self, names: dict[str, AvroType]) -> None:
        self._names = names

    def parse(self, given: Any, space: str) -> AvroType:
        if isinstance(given, str):
            return self._by_name(given, space)
        if isinstance(given, list):
            return AvroUnion([self.parse(branch, space) for branch in given])
        kind = given["type"]
        if not isinstance(kind, str):
            return self.parse(kind, space)
        if kind in _NAMED:
            return self._named(kind, given, space)
        if kind == "array":
            return AvroArray(self.parse(given["items"], space))
        if kind == "map":
            return AvroMap(AvroString(), self.parse(given["values"], space))
        logical = given.get("logicalType")
        if (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]()
        return _decimal(AvroBytes(), given, 0) if kind == "bytes" else self._by_name(kind, space)

    def _by_name(self, name: str, space: str) -> AvroType:
        if name in _PLAIN:
            return _PLAIN[name]()
        known = self._names.get(_full(name, space)) or self._names.get(name)
        if known is None:
            raise SchemaError(f"it uses the type {name}, which it does not define")
        return AvroRecursive(known) if isinstance(known, AvroRecord) and not known.complete else known

    def _named(self, kind: str, given: Mapping[str, Any], space: str) -> AvroType:
        name = _full(given["name"], given.get("namespace", space))
        made: AvroType
        if kind == "enum":
            made = AvroEnum(given["symbols"])
        elif kind == "fixed":
            made = _fixed(int(given["size"]), given)
        else:
            made = AvroRecord(name)
        if name in self._names:
            raise SchemaError(f"it defines the type {name} twice")
        self._names[name] = made
        if isinstance(made, AvroRecord):
            inner = name.rpartition(".")[0]
            made.fields = tuple((str(one["name"]), self.parse(one["type"], inner)) for one in given["fields"])
            made.complete = True
        return made


def _full(name: str, space: str | None) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _fixed(size: int, given: Mapping[str, Any]) -> AvroType:
    if size < 1:
        raise SchemaError(f"it has a fixed type of {size} bytes")
    if size == 16 and given.get("logicalType") == "uuid":
        return AvroUuid()
    return _decimal(AvroFixed(size), given, size)


def _decimal(raw: AvroBytes | AvroFixed, given: Mapping[str, Any], size: int) -> AvroType:
    """The decimal over these bytes; the bytes themselves if the schema has no valid decimal."""
    precision, scale = given.get("precision", 0), given.get("scale", 0)
    if given.get("logicalType") != "decimal" or not (isinstance(precision, int) and isinstance(scale, int)):
        return raw
    most = len(str((1 << (8 * size - 1)) - 1)) - 1 if size else precision
    return AvroDecimal(raw, precision, scale) if 0 <= scale <= precision and 0 < precision <= most else raw
