r"""Names, string literals and ``database.table`` in ClickHouse's SQL.

Rules:
- The server reads a quoted name or literal as exactly the text that was quoted, whatever characters it has.  A lone
  surrogate, which UTF-8 cannot encode, is refused.
- Quotes, backslashes and control characters are escaped with a backslash, so a statement stays printable.
- Quoted text is parsed as the server does: with its escapes, ``\xHH``, and doubled quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PLAIN = r"[A-Za-z_][A-Za-z0-9_]*"
IN_BACKTICKS = r"`(?:[^`\\]|\\.|``)+`"
IN_QUOTES = r"'(?:[^'\\]|\\.|'')*'"

_WRITTEN = {"\\": "\\\\", "\0": "\\0", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LITERAL = str.maketrans({**_WRITTEN, "'": "\\'"})
_NAME = str.maketrans({**_WRITTEN, "`": "\\`"})

_ESCAPE = {quote: re.compile(rf"\\(?:x([0-9a-fA-F]{{2}})|(.))|{quote}{quote}".encode(), re.DOTALL) for quote in "`'"}
"""By the quote around a text: the other one needs no escape in it, also twice."""
_READ = {b"0": b"\0", b"a": b"\a", b"b": b"\b", b"e": b"\x1b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_READ |= {b"v": b"\v", b"N": b"", **{bytes([code]): bytes([code]) for code in b"\\'\"`/"}}

_PLAIN = re.compile(PLAIN)
_PART = re.compile(rf"{IN_BACKTICKS}|{PLAIN}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by its unquoted names.  An empty ``database`` stands for the default one."""

    database: str
    table: str

    def __str__(self) -> str:
        """The quoted name, for a statement."""
        return ".".join(quote_identifier(part) for part in self._parts)

    @property
    def canonical(self) -> str:
        """The name in state records and messages, quoted only if necessary.  :func:`parse_table` can read it."""
        return ".".join(part if _PLAIN.fullmatch(part) else quote_identifier(part) for part in self._parts)

    def within(self, database: str) -> TableName:
        """The same table with ``database`` filled in, if it has no database yet."""
        return self if self.database else TableName(database, self.table)

    @property
    def _parts(self) -> tuple[str, ...]:
        return (self.database, self.table) if self.database else (self.table,)


def parse_table(text: str) -> TableName:
    """Parse ``table`` or ``database.table`` as ClickHouse does: a name with characters other than ASCII letters, digits
    and underscores is in backticks.  Raises ValueError for anything else.
    """
    parts = [found[0] for found in _PART.finditer(text)]
    if not 1 <= len(parts) <= 2 or ".".join(parts) != text:
        raise ValueError(f"{text!r} is not a table name")
    bare = [unquote(part) if part.startswith("`") else part for part in parts]
    if not all(bare):
        raise ValueError(f"{text!r} holds an empty name")
    return TableName(bare[0] if len(bare) == 2 else "", bare[-1])


def quote_identifier(name: str) -> str:
    """A database, table or column name in backticks.  Raises ValueError if it is empty or cannot be encoded."""
    if not name:
        raise ValueError("a name cannot be empty")
    return f"`{_encodable(name).translate(_NAME)}`"


def quote_string(value: str) -> str:
    """A string literal in single quotes.  Raises ValueError if it cannot be encoded."""
    return f"'{_encodable(value).translate(_LITERAL)}'"


def quote_strings(values: Iterable[str]) -> str:
    """String literals separated by commas, for an array or an IN."""
    return ",".join(map(quote_string, values))


def quote_table(text: str) -> str:
    """``table`` or ``database.table`` with each part quoted.  Raises ValueError as :func:`parse_table` does."""
    return str(parse_table(text))


def unquote(token: str) -> str:
    """The text of a name in backticks or a literal in single quotes.  Raises ValueError if it is not UTF-8."""
    return _ESCAPE[token[0]].sub(_read, token[1:-1].encode("utf-8", "surrogatepass")).decode()


def _read(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return bytes.fromhex(found[1].decode())
    # The server keeps the backslash of an escape that it does not know.
    return found[0][:1] if found[2] is None else _READ.get(found[2], found[0])


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a lone surrogate cannot be sent to ClickHouse") from error
    return text


def names_column(expression: str, column: str) -> bool:
    """Whether an expression of SQL names a column."""
    if column not in expression and column.isidentifier():
        return False  # of a wide table, few patterns are compiled
    pattern = rf"(?<![\w`]){re.escape(column)}(?![\w`])|{re.escape(quote_identifier(column))}"
    return re.search(pattern, expression) is not None
