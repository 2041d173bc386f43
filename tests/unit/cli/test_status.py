"""What ``chsink status`` says of fields without a column."""

from __future__ import annotations

from chsink.cli.status import _unknown_lines
from tests.support.statuses import partition


def test_fields_are_added_up_by_topic_and_table_and_cannot_speak_to_the_terminal() -> None:
    partitions = [
        partition(unknown_fields={"x": 1, "\x1b[2J\n": 2}),
        partition(unknown_fields={"x": 4}),
        partition(table="d.b", unknown_fields={"": 1}),
        partition(topic="u"),
    ]
    assert list(_unknown_lines(partitions)) == [
        "fields of topic 't' without a column in d.a: x (5), '\\x1b[2J\\n' (2)",
        "fields of topic 't' without a column in d.b: '' (1)",
    ]
