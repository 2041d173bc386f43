"""What becomes of unread records: each verdict at its edge."""

from __future__ import annotations

import pytest

from chsink.kafka.checks import retention


@pytest.mark.parametrize(
    ("expired", "old", "retention_ms", "severity", "says"),
    [
        (0, 0, 3_600_000, "ok", "keeps records for 1 h"),
        (0, 0, -1, "ok", "for ever"),
        (0, 2, 3_600_000, "warning", "partitions: 2"),
        (7, 2, 3_600_000, "warning", "deleted 7 offsets"),
    ],
)
def test_retention(expired: int, old: int, retention_ms: int, severity: str, says: str) -> None:
    finding = retention("t", expired, old, retention_ms)

    assert finding.severity == severity
    assert says in finding.sentence
