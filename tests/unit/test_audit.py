"""What ``make lint`` makes of pip-audit's answers."""

from __future__ import annotations

import pytest

from tests.audit import report

CLEAN = {"name": "a", "version": "1", "vulns": []}
UNKNOWN = {"name": "b", "skip_reason": "not found on PyPI"}
VULNERABLE = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}


def test_only_a_known_vulnerability_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([CLEAN]) == 0
    assert not capsys.readouterr().out
    assert report([CLEAN, UNKNOWN, VULNERABLE]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "audit: c 2: PYSEC-1, fixed in 3",
        "audit: 1 of 3 packages are not known to the package index's service",
    ]


def test_what_nobody_could_look_up_is_said_and_does_not_fail(capsys: pytest.CaptureFixture[str]) -> None:
    assert report([UNKNOWN]) == 0
    assert capsys.readouterr().out == "audit: 1 of 1 packages are not known to the package index's service\n"
