"""What becomes of findings: a start stops at the first error, ``chsink doctor`` prints them all."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from chsink.findings import Finding, Severity


def stop_at_errors(findings: Iterable[Finding], log: structlog.typing.FilteringBoundLogger) -> None:
    """Log warnings; raise the first error, after logging the others."""
    errors: list[Finding] = []
    for finding in findings:
        if finding.severity is Severity.ERROR:
            errors.append(finding)
        elif finding.severity is Severity.WARNING:
            log.warning(finding.sentence, id=finding.id, fix=finding.fix)
    for other in errors[1:]:
        log.error(other.sentence, id=other.id, fix=other.fix)
    if errors:
        raise errors[0].error()
