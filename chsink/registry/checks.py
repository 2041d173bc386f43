"""Checks that the Schema Registry can serve the topics whose records need it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chsink.errors import preflight, services
from chsink.findings import Finding, Severity, found, passed
from chsink.registry.client import Registry


def registry_findings(registry: Registry, subjects: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Whether the registry answers and has the subject of each (topic, subject) pair.

    Raises UnavailableError if the registry does not answer or refuses the login.
    """
    for at, (topic, subject) in enumerate(subjects):
        versions = registry.versions(subject)
        if not at:
            yield passed(services.REGISTRY_UNAVAILABLE, urls=registry.urls)
        if versions is None:
            yield found(Severity.WARNING, preflight.SUBJECT_MISSING, topic=topic, subject=subject, urls=registry.urls)
        else:
            yield passed(preflight.SUBJECT_MISSING, subject=subject, versions=versions)
