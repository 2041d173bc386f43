"""Findings for a person: what is alike is said once.  Nothing here is needed for programs, which get every finding.

Findings with one sentence that differ in one of its parameters become one, with all values of this parameter; so do
those results, until nothing more can be joined.  A fix is a command at times, so it must be the same, word by word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chsink.errors.counts import filled
from chsink.errors.entry import fields
from chsink.findings import Finding, Severity

NAMED: Final = 5
"""Of an entry that is no problem, at most this many values are named."""
PROBLEMS: Final = (Severity.ERROR, Severity.WARNING)
Values = Mapping[str, tuple[str, ...]]
"""The values of each parameter of a sentence."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Findings with the same id, severity and fix: their sentences, and how many ok findings are left out."""

    id: str
    severity: Severity
    fix: str
    sentences: tuple[str, ...]
    more: int = 0


def alike(findings: Iterable[Finding]) -> list[Alike]:
    """The findings, in the order in which the first of each kind was found."""
    kinds: dict[tuple[str, Severity, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        kinds[finding.id, finding.severity, finding.fix, finding.template].append(finding)
    return [_said(*kind, found) for kind, found in kinds.items()]


def _said(id: str, severity: Severity, fix: str, template: str, found: Sequence[Finding]) -> Alike:
    if not template:
        return Alike(id, severity, fix, tuple(f.sentence for f in found))
    joined = _joined([{name: (f.params[name],) for name in fields(template)} for f in found])
    most = None if severity in PROBLEMS else NAMED
    sentences = [filled(template, {name: _listed(v, most) for name, v in each.items()}) for each in joined]
    shown = len(sentences) if severity is not Severity.OK or len(sentences) <= 2 else 1
    return Alike(id, severity, fix, tuple(sentences[:shown]), len(sentences) - shown)


def _joined(found: list[Values]) -> list[Values]:
    """The same, with those joined that differ in one parameter only."""
    names = sorted({name for each in found for name in each})
    for name in names:
        groups: dict[tuple[tuple[str, ...], ...], dict[str, None]] = defaultdict(dict)
        for each in found:
            rest = tuple(each[other] for other in names if other != name)
            groups[rest].update(dict.fromkeys(each[name]))
        others = [other for other in names if other != name]
        found = [dict(zip(others, rest, strict=True)) | {name: tuple(v)} for rest, v in groups.items()]
    return found


def _listed(values: Sequence[str], most: int | None) -> str:
    if most is None or len(values) <= most:
        return ", ".join(values)
    return f"{', '.join(values[:most])} and {len(values) - most} more"
