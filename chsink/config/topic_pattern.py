r"""Patterns of topic names: regular expressions that match the whole name, here and in Spark's Kafka source.

This process matches with Python's ``re``, the source with Java's ``Pattern``.  If the two disagreed about a topic, its
records would be lost, or would have no table.  So a pattern may use only syntax with the same meaning in both: letters,
digits, ``_ - .``, escapes ``\. \- \d \w \D \W``, classes, groups, named groups, lookaheads, ``|``, quantifiers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

INTERNAL = "__"
"""The prefix of Kafka's internal topics."""

_TOKEN = re.compile(
    r"""
    [A-Za-z0-9_.-] | \\[.dwDW-]                            # a character, any character, a kind of characters
    | \[\^?(?:[A-Za-z0-9_.-]|\\[.dwDW-])+\]                # one of several
    | \((?:\?P?<(?P<name>[A-Za-z_][A-Za-z0-9_]*)>|\?[:=!]|(?!\?)) | \) | \| | \^ | \$
    | (?:[*+?]|\{\d+(?:,\d*)?\})\??
    """,
    re.VERBOSE,
)


def parse_pattern(text: str) -> re.Pattern[str]:
    """The pattern for Python.  Raises ValueError with the reason if the pattern is not allowed."""
    compiled = re.compile("".join(_tokens(text, "(?P<{}>")))
    if "topic" in compiled.groupindex:
        raise ValueError("a group must not be named topic, because {topic} stands for the whole name of the topic")
    return compiled


def value_pattern(text: str) -> str:
    """A pattern of the same syntax for RE2, which matches values of records.  Raises ValueError if it is refused."""
    tokens = _tokens(text, "(?:")
    if any(token in {"(?=", "(?!"} for token in tokens):
        raise ValueError("a value's pattern cannot look ahead")
    re.compile("".join(tokens))
    return "".join(tokens)


def java_pattern(patterns: Iterable[str], excluded: Iterable[str], names: Iterable[str]) -> str:
    """One Java pattern for all topics to read: the ``names``, and each topic that matches one of ``patterns`` unless it
    is internal or ``excluded``.
    """
    left_out = "|".join((INTERNAL, *(f"{_quoted(name)}$" for name in sorted(excluded))))
    matching = "|".join(f"(?:{''.join(_tokens(text, '(?:'))})" for text in patterns)
    return "|".join((f"(?!{left_out})(?:{matching})", *map(_quoted, names)))


def _tokens(text: str, named_group: str) -> Sequence[str]:
    """The tokens of a pattern, with named groups written as ``named_group``."""
    tokens, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"chsink does not support what begins with {text[at]!r} at position {at + 1}")
        tokens.append(named_group.format(token["name"]) if token["name"] else token[0])
        at = token.end()
    return tokens


def _quoted(name: str) -> str:
    return name.replace(".", r"\.")
