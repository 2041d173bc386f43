"""The result of a check: an id, a severity, a sentence, and the fix.

A check has the same id whether it passes or fails; severity ``ok`` means that it passed.  Errors stop a start, warnings
are logged, and ``info`` appears only in ``chsink doctor``.  Ids are listed in ``docs/errors.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chsink.as_typed import as_typed
from chsink.errors import ChsinkError, PreflightError, preflight, services
from chsink.errors.counts import filled
from chsink.errors.entry import Entry, fields
from chsink.notation.codes import ACCESS_DENIED, AUTH
from chsink.notation.sql import quote_identifier
from chsink.ports import ServerRefused, Unanswered

_SENTENCE = re.compile(r"(?:.*DB::Exception: )(.*?)(?: \([A-Z_]+\))? \(version ", re.DOTALL)

_NOT_GRANTED = re.compile(
    r"(?P<user>.+?): Not enough privileges\. To execute this query, it's necessary to have (?:the )?grant "
    r"(?P<needed>.+? ON .+?)\.?(?: \(Missing permissions: (?P<missing>.+? ON .+?)\)\.?.*)?$",
    re.DOTALL,
)


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.  ``fix`` is empty if there is nothing to do; ``cause`` is the error behind the finding, if any.

    ``sentence`` is made of ``template`` and ``params``; the template is empty where it is not known.
    """

    id: str
    severity: Severity
    sentence: str
    fix: str = ""
    cause: ChsinkError | None = field(default=None, compare=False)
    template: str = field(default="", compare=False)
    params: Mapping[str, str] = field(default_factory=dict, compare=False)

    def as_dict(self) -> dict[str, object]:
        """The finding as a JSON object, for programs."""
        return {"id": self.id, "severity": str(self.severity), "sentence": self.sentence, "fix": as_typed(self.fix)}

    def error(self) -> ChsinkError:
        """The error to raise when the finding stops a start."""
        return self.cause or PreflightError(self.id, self.sentence, self.fix)


def found(severity: Severity, entry: Entry, **params: object) -> Finding:
    """A finding with the sentence and the hint of a catalogue entry."""
    raised = entry(**params)
    return Finding(entry.id, severity, raised.message, raised.hint, raised, entry.sentence, raised.params)


def passed(entry: Entry, **params: object) -> Finding:
    """A finding that the check passed, with the entry's ``ok`` sentence."""
    assert params.keys() == fields(entry.ok), (entry.name, sorted(params))
    texts = {name: str(value) for name, value in params.items()}
    return Finding(entry.id, Severity.OK, filled(entry.ok, texts), template=entry.ok, params=texts)


def raise_first(findings: Iterable[Finding]) -> None:
    """Raise the first error among the findings."""
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise finding.error()


def of_error(raised: ChsinkError) -> Finding:
    """A finding for an error that a check raised."""
    return Finding(raised.id, Severity.ERROR, raised.message, raised.hint, raised)


def guarded(what: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of a check.  An error that ends the check becomes its last finding, so that other checks still run.

    If ClickHouse does not answer, the finding is the error CHS-709.  If it refuses a query, the finding is the warning
    CHS-219, because the result of the check is unknown; a refused login is an error.
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
        elif raised.code == ACCESS_DENIED:
            grant = grant_of(raised)
            yield found(Severity.WARNING, preflight.QUESTION_FORBIDDEN, what=what, message=message, grant=grant)
        else:
            yield found(Severity.WARNING, preflight.QUESTION_REFUSED, what=what, message=message)


def _about(what: str, message: str) -> str:
    return message if message.startswith(what) else f"{what}: {message}"


def grant_of(refused: ServerRefused) -> str:
    """What to do about a right that the user lacks: the statement that grants what the server names (497)."""
    named = _NOT_GRANTED.search(server_sentence(refused))
    if named is None:
        return "the GRANT statement for what the message names"
    return f"GRANT {named['missing'] or named['needed']} TO {quote_identifier(named['user'])}"


def server_sentence(refused: ServerRefused) -> str:
    """The server's own sentence, without the text that clients and servers wrap around it."""
    wrapped = _SENTENCE.search(refused.message)
    return wrapped[1].strip() if wrapped else refused.message.splitlines()[0]
