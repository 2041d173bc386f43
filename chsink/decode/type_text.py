"""The text of a ClickHouse type as a tree of names and arguments, nothing said yet about what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from chsink.errors import ConfigError

_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.]*|[-+]?\d+|'(?:[^'\\]|\\.|'')*'|`(?:[^`\\]|\\.|``)*`|[(),=])")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)|''|``", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "r": "\r", "n": "\n", "t": "\t", "0": "\0", "a": "\a", "v": "\v"}


@dataclass(slots=True)
class Node:
    """``name(args)``; ``field`` is the element name in front of it, ``number`` the ``= n`` behind it."""

    name: str
    args: list[Node] | None = None
    field: str | None = None
    number: int | None = None

    def text(self) -> str:
        """The type written out again."""
        inner = "" if self.args is None else "(" + ", ".join(a.text() for a in self.args) + ")"
        return ("" if self.field is None else f"{self.field} ") + self.name + inner


def unquote(token: str) -> str:
    """A quoted token without its quotes and escapes."""

    def one(found: re.Match[str]) -> str:
        code = found[1]
        if code is None:
            return found[0][0]
        return chr(int(code[1:], 16)) if len(code) == 3 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(one, token[1:-1])


def parse_text(text: str) -> Node:
    """The tree of a type. Raises ConfigError CHS-506."""
    tokens: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise unreadable(text)
        tokens.append(found[1])
        at = found.end()
    stream = iter([*tokens, ""])
    try:
        node, rest = _parse_node(next(stream), stream)
    except StopIteration:
        raise unreadable(text) from None
    if rest != "":
        raise unreadable(text)
    return node


def _parse_node(token: str, stream: Iterator[str]) -> tuple[Node, str]:
    """Read one ``[field] name[(args)] [= n]``; returns it and the token behind it."""
    node = Node(token)
    token = next(stream)
    while token and token not in "(),=":  # noqa: S105
        node.field = unquote(node.name) if node.name[0] in "`'" else node.name
        node.name, token = token, next(stream)
    if token == "(":  # noqa: S105
        node.args = []
        token = next(stream)
        while token != ")":  # noqa: S105
            arg, token = _parse_node(token, stream)
            node.args.append(arg)
            if token == ",":  # noqa: S105
                token = next(stream)
            elif token != ")":  # noqa: S105
                raise StopIteration
        token = next(stream)
    if token == "=":  # noqa: S105
        node.number = int(next(stream))
        token = next(stream)
    return node, token


def unreadable(text: str) -> ConfigError:
    """The error for a type that cannot be read."""
    return ConfigError(
        "CHS-506", f"cannot read the ClickHouse type {text!r}", "give the type as system.columns shows it"
    )
