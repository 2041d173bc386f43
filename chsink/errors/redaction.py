"""What a message of other software may show: everything except what may be a record's value."""

from __future__ import annotations

import re

_ROWS = re.compile(r"Column values:.*", re.DOTALL)
# Both quotes at once, as one may stand inside the other.  No values: an apostrophe, and a file of a Python trace.
_QUOTED = re.compile(
    r"""(File "[^"\n]*", line )|(?<![A-Za-z])b?'(?:(?:[^'\\]|\\.)*'|[^\n]*)|"(?:(?:[^"\\]|\\.)*"|[^\n]*)""", re.DOTALL
)
_AT_THE_END = re.compile(
    r"\b((?:here|before|element|text|read|got|string|float|literal): ).+?(?=$| \([wW]hile | \(at row )", re.MULTILINE
)
_CONVERTED = re.compile(r"\b(convert (?:[\w(), ]+ )?value ).+(?= to (?!type )[A-Za-z])")
_NUMBER = re.compile(r"(?i)\b(values?(?: is| was)?[:=]? +)(?:(?:, ?)?[-+]?(?:\d|\.\d|inf\b|nan\b)[\w.:+-]*)+")
_ADDRESS = re.compile(r"\b(parse IPv[46] )\S+?(?=[:.]?(?: |$))")


def without_values(text: str) -> str:
    """A message of other software without what may be a record's value.

    Values stand in quotes, behind the words that announce one, or in a list of rows.  What is in backquotes is a name.
    """
    text = _ROWS.sub("(values left out)", text)
    text = _QUOTED.sub(lambda found: found[1] or ("'…'" if "'" in found[0][:2] else '"…"'), text)
    for announced in (_AT_THE_END, _CONVERTED, _NUMBER, _ADDRESS):
        text = announced.sub(r"\1…", text)
    return text
