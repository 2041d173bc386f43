"""The packages of this process against the tested ones."""

from __future__ import annotations

from chsink.findings import Severity
from chsink.versions import client_versions


def test_client_versions() -> None:
    assert client_versions({"a": "1"}, {"a": "1"}).severity is Severity.INFO
    assert "a 2 (tested: 1)" in client_versions({"a": "1"}, {"a": "2"}).sentence
