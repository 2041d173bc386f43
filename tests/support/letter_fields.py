"""The fields of a dead letter: its columns in a table, its headers in a topic.  A test compares the code with this
list, and ``docs/dead-letters.md`` shows it as a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fields:
    """Columns of the table; the ``headers`` with the same content in a topic, each with its column; and their meaning.
    ``itself`` names the parts of the Kafka record itself that have this content.
    """

    columns: Sequence[str]
    content: str
    headers: Mapping[str, str] = field(default_factory=dict)
    itself: str = ""

    @property
    def row(self) -> str:
        """The line of the page's table."""
        headers = ", ".join(f"`{name}`" for name in self.headers)
        where = "; ".join(filter(None, (self.itself, headers)))
        return f"| {', '.join(f'`{name}`' for name in self.columns)} | {where} | {self.content} |"


FIELDS = (
    Fields(("key", "value", "headers"), "the record, bit for bit", itself="key, value, the first headers"),
    Fields(
        ("timestamp_ms", "timestamp_type"),
        "its timestamp in milliseconds, and who set it: 0 the producer, 1 the broker, -1 nobody",
        {"chsink.timestamp_ms": "timestamp_ms", "chsink.timestamp_type": "timestamp_type"},
        itself="timestamp",
    ),
    Fields(
        ("_kafka_topic", "_kafka_partition", "_kafka_offset"),
        "where the record is in Kafka",
        {
            "chsink.topic": "_kafka_topic",
            "chsink.partition": "_kafka_partition",
            "chsink.offset": "_kafka_offset",
            "__connect.errors.topic": "_kafka_topic",
            "__connect.errors.partition": "_kafka_partition",
            "__connect.errors.offset": "_kafka_offset",
        },
    ),
    Fields(
        ("sink", "table"),
        "the sink, and the table that the record was for",
        {"chsink.sink": "sink", "chsink.table": "table", "__connect.errors.connector.name": "sink"},
    ),
    Fields(
        ("column", "error_id", "reason"),
        "the column that does not take it (empty: the whole record), the id of the error, and why. The reason never "
        "contains the value",
        {
            "chsink.column": "column",
            "chsink.error_id": "error_id",
            "chsink.reason": "reason",
            "__connect.errors.exception.message": "reason",
        },
    ),
)
MORE = {
    "__connect.errors.stage": "VALUE_CONVERTER",
    "__connect.errors.exception.class.name": "BadValueError",
}
"""Headers that are always the same."""
NONCE = "chsink.nonce"


def table() -> Iterator[str]:
    """The lines of the page's table."""
    yield "| in the table | in the topic | content |\n| --- | --- | --- |"
    for fields in FIELDS:
        yield fields.row
    always = ", ".join(f"`{name}` = `{value}`" for name, value in MORE.items())
    yield f"| | {always} | the same in every dead letter, as Kafka Connect has it |"
    yield f"| | `{NONCE}` | chsink recognizes its own dead letters by it |"
