"""``chsink dev produce``: where the records of a file go."""

from __future__ import annotations

from pathlib import Path

import pytest

from chsink.embedded.feed import send_lines
from chsink.embedded.kafka import EmbeddedKafka
from tests.support.kafka import read_all

pytestmark = pytest.mark.slow


def test_equal_keys_go_to_one_partition(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Found by a newcomer: they went to each in turn, so the newest of a key's versions was not the last one sent."""
    lines = tmp_path / "users.txt"
    lines.write_text("".join(f"{key}|{n}\n" for n in range(5) for key in "abc"), encoding="utf-8")
    assert [*send_lines(kafka.bootstrap, "users-by-key", lines, 4, "|")] == [15]
    places = {(record.key, record.partition) for record in read_all(kafka.bootstrap, "users-by-key")}
    assert len(places) == 3
