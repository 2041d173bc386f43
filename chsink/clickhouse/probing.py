"""Looking for records in a table by topic, partition and offset: what probing does when tokens cannot be trusted."""

from __future__ import annotations

from chsink.notation.sql import quote_table
from chsink.ports import Queries
from statemachine.ranges import OffsetRange, TopicPartition


def count_rows(client: Queries, table: str, partition: TopicPartition, offsets: OffsetRange) -> int:
    """Rows of these offsets; an error where a limit of the user's profile would have it count only some of them."""
    rows = client.query(
        f"SELECT count() FROM {quote_table(table)} WHERE _kafka_topic = {{topic:String}} AND "
        "_kafka_partition = {partition:Int64} AND _kafka_offset >= {start:Int64} AND _kafka_offset < {end:Int64} "
        "SETTINGS read_overflow_mode = 'throw', timeout_overflow_mode = 'throw'",
        {"topic": partition.topic, "partition": partition.partition, "start": offsets.start, "end": offsets.end},
    )
    return int(rows[0][0])
