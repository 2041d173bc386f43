"""SQL text from names and values: quoting, and reading ``database.table`` back.  Pure, no I/O.

Rules:
- A quoted name or literal is read by the server as exactly the text that went in, whatever it holds; a lone surrogate,
  which no UTF-8 can carry, is refused.
- Quotes and backslashes are escaped by a backslash, and so are control characters: a statement stays printable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ESCAPES = {
    "\\": "\\\\",
    "\0": "\\0",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}
_LITERAL = str.maketrans({**_ESCAPES, "'": "\\'"})
_NAME = str.maketrans({**_ESCAPES, "`": "\\`"})
_UNESCAPE = {escape[1]: char for char, escape in _ESCAPES.items()}

_PART = re.compile(r"`(?P<quoted>(?:[^`\\]|\\.|``)*)`|(?P<bare>[^.`]+)", re.DOTALL)
_IN_BACKTICKS = re.compile(r"\\(.)|``", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by its bare names; ``database`` is None where the session's default is meant."""

    database: str | None
    table: str

    def __str__(self) -> str:
        """Quoted, ready for a statement."""
        if self.database is None:
            return quote_identifier(self.table)
        return f"{quote_identifier(self.database)}.{quote_identifier(self.table)}"


def quote_identifier(name: str) -> str:
    """A database, table or column name in backticks.  ValueError when it is empty or cannot be encoded."""
    if not name:
        raise ValueError("a name cannot be empty")
    return f"`{_encodable(name).translate(_NAME)}`"


def quote_string(value: str) -> str:
    """A string literal in single quotes.  ValueError when it cannot be encoded."""
    return f"'{_encodable(value).translate(_LITERAL)}'"


def quote_strings(values: list[str]) -> str:
    """String literals separated by commas, for an array or an IN."""
    return ",".join(map(quote_string, values))


def parse_table(text: str) -> TableName:
    """Read ``table`` or ``database.table``; a part in backticks may hold any character.

    ValueError for anything else: a third part, an unclosed backtick, an empty part.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise ValueError(f"{text!r} is not a table: write table or database.table, other characters in backticks")
        quoted = match["quoted"]
        parts.append(match["bare"] if quoted is None else _IN_BACKTICKS.sub(_unescaped, quoted))
        position = match.end()
        if position == len(text):
            break
        if text[position] != "." or len(parts) == 2:
            raise ValueError(f"{text!r} is not a table: write table or database.table, other characters in backticks")
        position += 1
    if not all(parts):
        raise ValueError(f"{text!r} holds an empty name")
    return TableName(parts[0], parts[1]) if len(parts) == 2 else TableName(None, parts[0])


def quote_table(text: str) -> str:
    """``table`` or ``database.table`` as a user writes it, each part quoted.  ValueError as :func:`parse_table`."""
    return str(parse_table(text))


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return "`" if escaped is None else _UNESCAPE.get(escaped, escaped)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a lone surrogate cannot be sent to ClickHouse") from error
    return text


def plain_or_quoted(database: str, table: str) -> str:
    """The table's one name in state rows, statements and messages: quoted only where it has to be."""
    plain = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part) for part in (database, table))
    return f"{database}.{table}" if plain else f"{quote_identifier(database)}.{quote_identifier(table)}"
