"""Parses the text of a ClickHouse type into a tree of names and arguments, without interpreting them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chsink.notation.sql import IN_BACKTICKS, IN_QUOTES, unquote

_PATH = rf"(?:{IN_BACKTICKS}|[A-Za-z_]\w*)(?:\.(?:{IN_BACKTICKS}|\w+))*"
_TOKEN = re.compile(rf"\s*({_PATH}|[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|{IN_QUOTES}|[(),=])", re.DOTALL | re.ASCII)
_PUNCTUATION = frozenset("(),=")


@dataclass(frozen=True, slots=True)
class TypeNode:
    """``[words] name[(args)] [= number]``.

    ``name`` is as written, with its quotes if it is a literal.  ``words`` are the words before it, as written: the name
    of a Tuple's element, or ``SKIP REGEXP``.  ``args`` is None if there are no parentheses.
    """

    name: str
    args: tuple[TypeNode, ...] | None = None
    words: tuple[str, ...] = ()
    number: int | None = None

    @property
    def element(self) -> str | None:
        """The unquoted name of an element of a Tuple or Nested; None if it has no name."""
        if not self.words:
            return None
        return unquote(self.words[-1]) if self.words[-1][0] == "`" else self.words[-1]

    @property
    def literal(self) -> str:
        """The text of a quoted ``name``.  Raises ValueError if it is not a literal."""
        if self.name[0] not in "'`":
            raise ValueError(f"{self.name} is not a quoted string")
        return unquote(self.name)

    def unwrapped(self, *wrappers: str) -> TypeNode:
        """The type inside these wrappers (types with one argument), however deep they are nested."""
        node = self
        while node.name in wrappers and node.args:
            node = node.args[0]
        return node

    def walk(self) -> Iterator[TypeNode]:
        """The node itself and all nodes below it."""
        yield self
        for arg in self.args or ():
            yield from arg.walk()

    def __str__(self) -> str:
        """The type written out again."""
        inner = "" if self.args is None else f"({', '.join(map(str, self.args))})"
        number = "" if self.number is None else f" = {self.number}"
        return " ".join((*self.words, self.name)) + inner + number


def parse_type_text(text: str) -> TypeNode:
    """The tree of a type.  Raises ValueError if the text cannot be parsed."""
    tokens: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"cannot read the type {text!r}")
        tokens.append(found[1])
        at = found.end()
    stream = iter([*tokens, ""])
    try:
        node, rest = _node(next(stream), stream)
    except StopIteration:
        raise ValueError(f"the type {text!r} is incomplete") from None
    if rest:
        raise ValueError(f"the type {text!r} has text after its end")
    return node


def _node(token: str, stream: Iterator[str]) -> tuple[TypeNode, str]:
    """Parse one node.  Returns it and the token after it."""
    words: list[str] = []
    name, token = token, next(stream)
    while token and token not in _PUNCTUATION:
        words.append(name)
        name, token = token, next(stream)
    if name in _PUNCTUATION:
        raise ValueError(f"{name!r} where a type's name is expected")
    node = TypeNode(name, words=tuple(words))
    if token == "(":  # noqa: S105 - a token of a type's text
        args, token = _arguments(stream)
        node = replace(node, args=args)
    if token == "=":  # noqa: S105
        node, token = replace(node, number=int(next(stream))), next(stream)
    return node, token


def _arguments(stream: Iterator[str]) -> tuple[tuple[TypeNode, ...], str]:
    """Parse the arguments in parentheses.  Returns them and the token after the closing one."""
    args: list[TypeNode] = []
    token = next(stream)
    while token != ")":  # noqa: S105
        arg, token = _node(token, stream)
        args.append(arg)
        if token == ",":  # noqa: S105
            token = next(stream)
        elif token != ")":  # noqa: S105
            raise ValueError("arguments without a comma between them")
    return tuple(args), next(stream)
