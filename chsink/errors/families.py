"""Every error a user can meet: a family that says what may be done about it, an id, a sentence, and the fix.

The family decides the exit code of the command line, and so what an operator's supervisor should do:

==================  ====  =========================================================================
family              exit  meaning
==================  ====  =========================================================================
CheckFailed         1     a check ran to its end and found something wrong
ConfigError         2     the job file is wrong; nothing was started
PreflightError      2     a service or table cannot carry the promise; nothing was read
HaltError           3     continuing could lose or duplicate a record; a person decides
FencedError         4     a newer driver owns the sink; this one must stop
UnavailableError    5     a service did not answer within its bound; safe to start again
==================  ====  =========================================================================

Errors are made from the catalogue (:mod:`chsink.errors.catalogue`), never written where they are raised.  Messages
never hold a record's value or a credential.
"""

from __future__ import annotations

from collections.abc import Mapping


class ChsinkError(Exception):
    """Base of all errors shown to a user: ``id`` (``CHS-nnn``), ``message`` (what), ``hint`` (the fix).

    ``name`` and ``params`` say which catalogue entry made it, and with what: this is how an error crosses processes.
    ``parts`` are the errors that this one combines, each with its own fix, and ``single`` all of them as they were
    raised (:func:`chsink.errors.several.several`).
    """

    exit_code = 2

    def __init__(
        self, id: str, message: str, hint: str, name: str = "", params: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(id, message, hint, name, params)
        self.id = id
        self.message = message
        self.hint = hint
        self.name = name
        self.params = dict(params or {})
        self.parts: tuple[ChsinkError, ...] = ()
        self.single: tuple[ChsinkError, ...] = ()

    def __str__(self) -> str:
        if self.parts:
            return "\n".join(map(str, self.parts))
        return f"[{self.id}] {self.message}\n  fix: {self.hint}"


class CheckFailed(ChsinkError):
    """A check ran to its end and found something wrong."""

    exit_code = 1


class ConfigError(ChsinkError, ValueError):
    """The job file is wrong: the message names the key.  A ValueError, so that validators of values may raise it."""

    exit_code = 2


class PreflightError(ChsinkError):
    """A service, table or source does not meet the promise's conditions; found before a record was written."""

    exit_code = 2


class AlteredError(PreflightError):
    """A target table is no longer what it was when the job read its definition; found before a record was written."""


class HaltError(ChsinkError):
    """Continuing would lose or duplicate a record, or the outcome cannot be known: a person decides."""

    exit_code = 3


class BadValueError(HaltError):
    """A record's value does not fit its column and ``on_bad_value = "halt"``."""


class FencedError(ChsinkError):
    """A newer driver owns the sink."""

    exit_code = 4


class UnavailableError(ChsinkError):
    """A service did not answer within its bound; nothing is lost and a new start continues from here."""

    exit_code = 5
