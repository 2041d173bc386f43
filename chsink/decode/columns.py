"""The properties of a table's columns that a decoder needs."""

from __future__ import annotations

import re
from dataclasses import dataclass

_EMPTY_DEFAULT = re.compile(
    r"\[\]|array\(\)|emptyArray\w+\(\)|map\(\)|'\{\}'|(?:CAST|_CAST)\((?:\[\]|map\(\)|'\{\}'), '.*'\)"
    r"|(?:\[\]|map\(\)|'\{\}')::.*",
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as in ``system.columns``.

    ``default_kind`` is ``""``, ``DEFAULT``, ``MATERIALIZED``, ``ALIAS`` or ``EPHEMERAL``;
    ``default_expression`` is needed only for ``Array``, ``Map`` and ``JSON`` columns: the server does not apply their
    DEFAULT to an Arrow null.  If the DEFAULT is the empty value, the decoder sends that value.
    """

    name: str
    type: str
    default_kind: str = ""
    default_expression: str = ""

    @property
    def insertable(self) -> bool:
        """Whether an INSERT may name the column."""
        return self.default_kind in ("", "DEFAULT")

    @property
    def has_default(self) -> bool:
        """Whether the server fills in a missing value."""
        return self.default_kind == "DEFAULT"

    @property
    def default_is_empty(self) -> bool:
        """Whether the DEFAULT is the empty array, map or JSON object, written as a constant."""
        return self.has_default and _EMPTY_DEFAULT.fullmatch(self.default_expression.strip()) is not None
