"""Every error a user can meet: a family that says what may be done about it, an id, a sentence, and the fix.

The family decides the exit code of the command line, and so what an operator's supervisor should do:

==================  ====  =========================================================================
family              exit  meaning
==================  ====  =========================================================================
CheckFailed         1     a check ran to its end and found something wrong
ConfigError         2     the job file is wrong; nothing was started
PreflightError      2     a service or table cannot carry the promise; nothing was read
HaltError           3     going on would lose or double a record, or cannot be known; a person decides
FencedError         4     a newer driver owns the sink; this one must stop
UnavailableError    5     a service did not answer within its bound; safe to start again
==================  ====  =========================================================================

Ids are stable: ``docs/errors.md`` lists them all, and a test keeps it complete.  Messages never hold a record's
value or a credential.
"""

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
    """Somebody else's message without what may be a record's value.

    Values stand in quotes, behind the words that announce one, or in a list of rows.  What is in backquotes is a name.
    """
    text = _ROWS.sub("(values left out)", text)
    text = _QUOTED.sub(lambda found: found[1] or ("'…'" if "'" in found[0][:2] else '"…"'), text)
    for announced in (_AT_THE_END, _CONVERTED, _NUMBER, _ADDRESS):
        text = announced.sub(r"\1…", text)
    return text


class ChsinkError(Exception):
    """Base of all errors shown to a user: ``id`` (``CHS-nnn``), ``message`` (what), ``hint`` (the fix)."""

    exit_code = 2

    def __init__(self, id: str, message: str, hint: str) -> None:
        super().__init__(id, message, hint)
        self.id = id
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"[{self.id}] {self.message}\n  fix: {self.hint}"


class CheckFailed(ChsinkError):
    """A check ran to its end and found something wrong."""

    exit_code = 1


class ConfigError(ChsinkError):
    """The job file is wrong: the message names the key."""

    exit_code = 2


class PreflightError(ChsinkError):
    """A service, table or source cannot carry the promise; found before a record was written."""

    exit_code = 2


class AlteredError(PreflightError):
    """A target table is no longer what it was when the job looked at it; found before a record was written."""


class HaltError(ChsinkError):
    """Going on would lose or double a record, or the outcome cannot be known: a person decides."""

    exit_code = 3


class BadValueError(HaltError):
    """A record's value does not fit its column and ``on_bad_value = "halt"``."""


class FencedError(ChsinkError):
    """A newer driver owns the sink."""

    exit_code = 4


class UnavailableError(ChsinkError):
    """A service did not answer within its bound; nothing is lost and a new start goes on from here."""

    exit_code = 5
