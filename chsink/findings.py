"""What a check found: an id, how bad it is, a sentence, and the fix.

One check has one id, whether it passed or not: ``ok`` says that it was asked.  Errors stop a start, warnings are
logged, ``info`` is for the reader of ``chsink doctor``.  Ids are listed in ``docs/errors.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from chsink.errors import ChsinkError, PreflightError, preflight, services
from chsink.errors.entry import Entry, fields
from chsink.notation.codes import AUTH
from chsink.ports import ServerRefused, Unanswered

_SENTENCE = re.compile(r"(?:.*DB::Exception: )(.*?)(?: \([A-Z_]+\))? \(version ", re.DOTALL)


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.  ``fix`` is empty where there is nothing to do; ``cause`` is the error that it was, if any."""

    id: str
    severity: Severity
    sentence: str
    fix: str = ""
    cause: ChsinkError | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The finding for a program."""
        return {"id": self.id, "severity": str(self.severity), "sentence": self.sentence, "fix": self.fix}

    def error(self) -> ChsinkError:
        """The finding as what stops a start."""
        return self.cause or PreflightError(self.id, self.sentence, self.fix)


def found(severity: Severity, entry: Entry, **params: object) -> Finding:
    """What a check found, in the catalogue's words."""
    raised = entry(**params)
    return Finding(entry.id, severity, raised.message, raised.hint, raised)


def passed(entry: Entry, **params: object) -> Finding:
    """A check was made and nothing is wrong: the entry's ``ok`` sentence."""
    assert params.keys() == fields(entry.ok), (entry.name, sorted(params))
    return Finding(entry.id, Severity.OK, entry.ok.format_map({k: str(v) for k, v in params.items()}))


def raise_first(findings: Iterable[Finding]) -> None:
    """Raise the first error among the findings."""
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise finding.error()


def of_error(raised: ChsinkError) -> Finding:
    """An error that a check met."""
    return Finding(raised.id, Severity.ERROR, raised.message, raised.hint, raised)


def guarded(what: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of a check; an error that ends it is its last finding, so that other checks still run.

    A service without an answer is CHS-709; a question that the server refuses is CHS-219, a warning: its answer is
    not known.
    """
    try:
        yield from check()
    except ChsinkError as raised:
        yield of_error(raised)
    except Unanswered as raised:
        yield of_error(services.CLICKHOUSE_UNAVAILABLE(reason=_about(what, str(raised))))
    except ServerRefused as raised:
        message = server_sentence(raised)
        if raised.code in AUTH:
            yield found(Severity.ERROR, preflight.LOGIN_REFUSED, what=what, message=message)
        else:
            yield found(Severity.WARNING, preflight.QUESTION_REFUSED, what=what, message=message)


def _about(what: str, message: str) -> str:
    return message if message.startswith(what) else f"{what}: {message}"


def server_sentence(refused: ServerRefused) -> str:
    """What the server said, without what clients and servers wrap around it."""
    wrapped = _SENTENCE.search(refused.message)
    return wrapped[1].strip() if wrapped else refused.message.splitlines()[0]
