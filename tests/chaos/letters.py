"""Bad records, and the judge of what became of them: each is one dead letter, whole, in its table or topic.

The judge imports nothing of what it judges: it compares Kafka's records with the dead letters by place, key and value.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.support.job import Job, Row, select
from tests.support.kafka import Record, read_all

BAD = b'{"id":"not a number","text":"bad \xff"}'
KEY = b"\xfe key"


def send_bad(job: Job, partition: int, count: int = 1) -> None:
    """Append records that fit no row."""
    job.send_values(partition, [BAD] * count, key=KEY, headers=[("trace", b"\x00")])


def fits(record: Record) -> list[Row]:
    """What a record should have become: its row, or none."""
    if record.value == BAD:
        return []
    document = json.loads(record.value or b"{}")
    return [(document.get("id"), document.get("text"))]


@dataclass(frozen=True, slots=True)
class Letters:
    """Where a sink's dead letters are: a ``table`` on its first server, or a ``topic`` of its own."""

    table: str = ""
    topic: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """Of the job file."""
        place = {"dead_letters.table": self.table} if self.table else {"dead_letters.topic": self.topic}
        return {"errors.on_bad_value": "dead_letter", **place}

    def expected(self, job: Job) -> Counter[Row]:
        """(partition, offset, key, value) of Kafka's bad records."""
        records = read_all(job.bootstrap, job.topic)
        return Counter((r.partition, r.offset, r.key, r.value) for r in records if r.value == BAD)

    def held(self, job: Job, server: str = "") -> Counter[Row]:
        """The same of the dead letters; those of a table as its first server has them, or this one."""
        return Counter(self._of_table(job, server or job.shards[0]) if self.table else self._of_topic(job))

    def _of_table(self, job: Job, server: str) -> list[Row]:
        columns = "_kafka_partition, _kafka_offset, hex(key), hex(value)"
        sql = f"SELECT {columns} FROM {self.table} WHERE sink = '{job.name}' FORMAT JSONCompactEachRow"
        rows = map(json.loads, select(server, sql).splitlines())
        return [(partition, offset, *map(bytes.fromhex, content)) for partition, offset, *content in rows]

    def _of_topic(self, job: Job) -> list[Row]:
        rows: list[Row] = []
        for record in read_all(job.bootstrap, self.topic):
            why = dict(record.headers)
            place = (int(why[f"__connect.errors.{name}"] or b"") for name in ("partition", "offset"))
            rows.append((*place, record.key, record.value))
        return rows
