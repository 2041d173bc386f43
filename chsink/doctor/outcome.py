"""What becomes of findings: a start stops at the first error, ``chsink doctor`` prints them all."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from chsink.errors.several import several
from chsink.findings import Finding, Severity


def stop_at_errors(findings: Iterable[Finding], log: structlog.typing.FilteringBoundLogger) -> None:
    """Log warnings; raise the first error, with all others of its id, after logging the rest."""
    errors: list[Finding] = []
    for finding in findings:
        if finding.severity is Severity.ERROR:
            errors.append(finding)
        elif finding.severity is Severity.WARNING:
            log.warning(finding.sentence, id=finding.id, fix=finding.fix)
    for other in errors:
        if other.id != errors[0].id:
            log.error(other.sentence, id=other.id, fix=other.fix)
    if errors:
        raise several([error.error() for error in errors if error.id == errors[0].id])
