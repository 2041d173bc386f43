"""Findings from errors, and what a server says without its wrapping."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chsink.errors import HaltError, PreflightError, preflight
from chsink.findings import Finding, Severity, found, guarded, passed, server_sentence
from chsink.ports import ServerRefused, Unanswered

WRAPPED = (
    "Received ClickHouse exception, code: 115, server response: Code: 115. DB::Exception: Code: 115. DB::Exception: "
    "Unknown setting 'x'. (UNKNOWN_SETTING) (version 26.9.2.1). (UNKNOWN_SETTING) (version 26.9.2.1 (official build))"
)


def test_the_servers_own_sentence() -> None:
    assert server_sentence(ServerRefused(115, WRAPPED)) == "Unknown setting 'x'."
    assert server_sentence(ServerRefused(None, "one\ntwo")) == "one"


@pytest.mark.parametrize(
    ("raised", "id", "severity", "exit_code"),
    [
        (HaltError("CHS-311", "m", "h"), "CHS-311", "error", 3),
        (Unanswered("gone"), "CHS-709", "error", 5),
        (ServerRefused(497, "not enough privileges"), "CHS-219", "warning", 2),
        (ServerRefused(516, "wrong password"), "CHS-232", "error", 2),
    ],
)
def test_an_error_ends_one_check_only(raised: Exception, id: str, severity: str, exit_code: int) -> None:
    def check() -> Iterator[Finding]:
        yield passed(preflight.SERVER_OLD, url="http://a", version="26.9")
        raise raised

    first, last = guarded("http://a", check)

    assert first.severity is Severity.OK
    assert (last.id, str(last.severity), last.error().exit_code) == (id, severity, exit_code)


def test_a_finding_as_an_error_and_as_json() -> None:
    finding = found(Severity.INFO, preflight.LAYOUT_CHANGED, topics="t")

    assert finding.as_dict() == {
        "id": "CHS-228",
        "severity": "info",
        "sentence": "the shard layout of t has changed; the new one applies to new records only",
        "fix": "no action needed if the change is intended",
    }
    assert isinstance(finding.error(), PreflightError)
