"""The dry run of ``chsink doctor --sample``: decodes current records and reports the results, without landing any.

A separate Kafka client reads the records; the job's own code decodes and shards them.  One run reports everything that
does not fit: column, reason, number of records, and the position of the first one; never a value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pyarrow as pa

from chsink.clickhouse.cluster import Cluster
from chsink.clickhouse.deletes import deletes_of
from chsink.clickhouse.landing import IDENTITY_FIELDS
from chsink.clickhouse.pieces import by_shard
from chsink.clickhouse.shards import RoutedTable
from chsink.clickhouse.table import TargetTable
from chsink.config import Route
from chsink.errors import PreflightError, preflight, values
from chsink.findings import Finding, Severity, found, passed
from chsink.formats.decoders import decoder_of
from chsink.formats.pipeline import Untouched
from chsink.formats.settings import JSON
from chsink.formats.table_by_decoder import own_records
from chsink.kafka.admin import KafkaAdmin
from chsink.kafka.sample import Sampler, open_sampler
from chsink.ports import BadValue, Decoder
from chsink.statemachine.ranges import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from chsink.mirror.new_tables import Definition
    from chsink.mirror.opening import OpenMirror

K = TypeVar("K")
_Progress = Callable[[str, int, int], None]
"""Called with the topic, how many of its partitions are done, and how many it has."""

_PLACE = re.compile(r" at byte \d+$")
"""The position of an error inside a record: removed, because it differs between records with the same reason."""
FEW = 100
"""A topic of fewer records does not show how large its chunks will be."""
MAX_NAMED = 50
"""Report at most this many unknown fields, the most frequent first: objects with data as keys have thousands."""


@dataclass(slots=True)
class Occurrences:
    """The number of records, and the position of the first.  ``beside``: columns that some of them fill, too."""

    first: str
    count: int = 0
    beside: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Misfits:
    """The records that do not fit one table, by column and reason."""

    skip_tombstones: bool
    seen: dict[tuple[str | None, str], Occurrences] = field(default_factory=dict)

    def add(self, rejected: Iterable[BadValue], records: pa.RecordBatch) -> None:
        """Count the rejected records of a batch."""
        for bad in rejected:
            if not (bad.tombstone and self.skip_tombstones):
                _count(self.seen, (bad.column, _PLACE.sub("", bad.reason)), records, bad.row)

    def findings(self, records: int, place: Mapping[str, str], *, policy: str) -> Iterator[Finding]:
        """The findings for a sample of ``records`` records.  ``policy`` is ``errors.on_bad_value``."""
        if not self.seen:
            yield passed(values.SAMPLE_BAD, count=records, **place)
        for (column, reason), seen in sorted(self.seen.items(), key=lambda item: -item[1].count):
            where = "the record as a whole" if column is None else f"column {column}"
            of = {"count": seen.count, "records": records, "first": seen.first}
            params = {"column": where, "reason": reason, **of, **place}
            if policy == "halt":
                yield found(Severity.ERROR, values.SAMPLE_BAD, **params)
            else:
                yield found(Severity.WARNING, values.SAMPLE_KEPT_OUT, policy=policy, **params)


@dataclass(slots=True)
class Sample:
    """The results for the sampled records of one route."""

    route: Route
    table: TargetTable
    name: str
    layout: str
    decoder: Decoder
    misfits: Misfits
    records: int = 0
    bytes: int = 0
    unknown: dict[str, Occurrences] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    rows: Counter[int] = field(default_factory=Counter)

    def add(self, records: pa.RecordBatch) -> None:
        """Decode and shard records as a task would, and count the results."""
        self.records += records.num_rows
        self.bytes += records.select(list(dict.fromkeys((*IDENTITY_FIELDS, *self.decoder.record_fields)))).nbytes
        prepared = by_shard(records, self.decoder.decode(records), self.layout, self.table)
        for piece in prepared.pieces:
            self.rows[piece.shard] += piece.batch.num_rows
        self.misfits.add(prepared.rejected, records)
        if self.route.format == JSON:
            self._fields(own_records(self.decoder, records))

    def _fields(self, records: pa.RecordBatch) -> None:
        known = {c.name for c in self.table.insertable}
        known |= {name.partition(".")[0] for name in known}
        for row, value in enumerate(records.column("value").to_pylist()):
            names = dict.fromkeys(_names(value))
            used = names.keys() & known
            self.used |= used
            for name in names:
                if name not in known:
                    _count(self.unknown, name, records, row).beside.update(used)

    def findings(self, shards: Mapping[int, str], *, policy: str) -> Iterator[Finding]:
        """The findings for this sample.  ``shards`` maps a shard's number to its URL; ``policy`` is
        ``errors.on_bad_value``.
        """
        place = {"topic": self.route.topic, "table": self.name}
        if not self.records:
            yield found(Severity.INFO, values.SAMPLE_EMPTY, topic=self.route.topic)
            return
        yield from self.misfits.findings(self.records, place, policy=policy)
        yield from self._unknown(place)
        shares = ", ".join(f"{name} {self.rows[shard]:,}" for shard, name in shards.items())
        yield found(Severity.INFO, values.SAMPLE_ROWS, rows=f"{self.rows.total():,}", shares=shares, **place)

    def chunk_finding(self, chunk_offsets: int, max_chunk_bytes: int, count: int = 0) -> Iterator[Finding]:
        """Whether a chunk of such records is expected to stay below half of the limit.  ``count``: how many records
        of each partition were asked for; fewer than that are all records of the topic.
        """
        if not self.records:
            return
        size = self.bytes / self.records
        expected = f"{size * chunk_offsets:,.0f}"
        if size * chunk_offsets * 2 <= max_chunk_bytes:
            yield passed(values.SAMPLE_TOO_LARGE, topic=self.route.topic, expected=expected)
            return
        sizes = {"size": f"{size:,.0f}", "chunk": f"{chunk_offsets:,}", "limit": f"{max_chunk_bytes:,}"}
        params = {"topic": self.route.topic, "fitting": max(1, int(max_chunk_bytes / 2 / size)), **sizes}
        if self.records < min(count, FEW):
            yield found(Severity.INFO, values.SAMPLE_TOO_FEW, records=self.records, **params)
        else:
            yield found(Severity.WARNING, values.SAMPLE_TOO_LARGE, expected=expected, **params)

    def _unknown(self, place: Mapping[str, str]) -> Iterator[Finding]:
        for name, seen in sorted(self.unknown.items(), key=lambda item: -item[1].count)[:MAX_NAMED]:
            of = {"field": name or '""', "count": seen.count, "records": self.records, "first": seen.first}
            if meant := self._meant(name, seen):
                yield found(Severity.WARNING, values.SAMPLE_MISSPELT, column=meant, **of, **place)
            else:
                yield found(Severity.INFO, values.SAMPLE_UNKNOWN, **of, **place)

    def _meant(self, name: str, seen: Occurrences) -> str | None:
        """The column that the field's producer may have meant: one that its records leave empty.  A name that is only
        similar is taken for another field's if any record fills the column.
        """
        columns = [c.name for c in self.table.insertable if c.name not in seen.beside]
        same = [c for c in columns if c.casefold() == name.casefold()]
        similar = get_close_matches(name, [c for c in columns if c not in self.used], n=1)
        return next(iter(same or similar), None)


def sample_findings(clickhouse: Cluster, kafka: KafkaAdmin, count: int, progress: _Progress) -> Iterator[Finding]:
    """A dry run of the first and last ``count`` records of each partition of the routed topics.  Skips tables that do
    not exist: other checks report them.

    Raises ChsinkError when a table or Kafka cannot be read.
    """
    config = clickhouse.config
    shape = Untouched(config.kafka.isolation_level)
    policy = config.errors.on_bad_value
    with closing(open_sampler(config)) as sampler:
        for route in config.routes:
            target = _existing(clickhouse, route)
            if target is None:
                continue
            leads, deleting = (route.topic, target.name), config.errors.on_tombstone == "delete"
            decoder = decoder_of(
                target.name,
                target.table.insertable,
                target.table.timezone,
                shape,
                route.format,
                keys=route.keys,
                choice=route.choice,
                deletes=deletes_of(clickhouse, leads) if deleting else None,
            )
            layout = clickhouse.layout(route).to_json()
            sample = Sample(
                route,
                target.table,
                target.name,
                layout,
                decoder,
                Misfits(config.errors.on_tombstone not in {"bad", "delete"}),
            )
            for records in sampled(kafka, sampler, route.topic, count, progress):
                sample.add(records)
            yield from sample.chunk_finding(config.clickhouse.chunk_offsets, config.clickhouse.max_chunk_bytes, count)
            yield from sample.findings({at: shard.url for at, shard in enumerate(target.shards)}, policy=policy)


def _existing(clickhouse: Cluster, route: Route) -> RoutedTable | None:
    try:
        return clickhouse.target(route)
    except PreflightError as error:
        if error.id != preflight.NO_TABLE.id:
            raise
        return None


def mirror_sample_findings(
    mirror: OpenMirror, new: Mapping[str, Definition], kafka: KafkaAdmin, count: int, progress: _Progress
) -> Iterator[Finding]:
    """Which of the first and last ``count`` records would not fit the mirror's Iceberg tables, also the ``new`` ones,
    which a start creates; and which tables cannot be written.  Raises ChsinkError when the catalog or Kafka cannot be
    read.
    """
    from chsink.mirror.choosing import Choosing  # needs the packages

    config, readable = mirror.config, mirror.readable(new)
    policy = config.errors.on_bad_value
    with closing(open_sampler(config)) as sampler:
        for topic in config.mirror.topics:
            seen, total = [Misfits(config.errors.on_tombstone not in {"bad", "delete"}) for _ in readable[topic]], 0
            choosing = Choosing({name: choice for name, _, choice in readable[topic]})
            for records in sampled(kafka, sampler, topic, count, progress):
                total += records.num_rows
                chosen = choosing.of(records)
                for misfits, (name, columns, _) in zip(seen, readable[topic], strict=True):
                    own, strays = chosen(name)
                    misfits.add(columns.decode(own).bad, own)
                    misfits.add(strays, records)
            if not total:
                yield found(Severity.INFO, values.SAMPLE_EMPTY, topic=topic)
                continue
            for misfits, (name, _, _) in zip(seen, readable[topic], strict=True):
                later = ", which the next start creates" * (name in new)
                yield from misfits.findings(
                    total, {"topic": topic, "table": f"Iceberg table {name}{later}"}, policy=policy
                )
            for name in sorted(
                {r.table for r in config.mirror.routes if r.topic == topic} - {r[0] for r in readable[topic]}
            ):
                yield found(Severity.INFO, values.SAMPLE_UNDECODED, topic=topic, table=name)


def sampled(
    kafka: KafkaAdmin, sampler: Sampler, topic: str, count: int, progress: _Progress = lambda *_: None
) -> Iterator[pa.RecordBatch]:
    """The first and last ``count`` records of each of the topic's partitions."""
    logs = _logs(kafka, topic)
    for done, (tp, log) in enumerate(logs.items()):
        progress(topic, done, len(logs))
        yield from sampler.read(tp, log, count)
    progress(topic, len(logs), len(logs))


def _logs(kafka: KafkaAdmin, topic: str) -> dict[TopicPartition, OffsetRange]:
    partitions = kafka.partitions([topic])
    starts, ends = kafka.log_starts(partitions), kafka.log_ends(partitions)
    return {tp: OffsetRange(starts[tp], max(starts[tp], ends[tp])) for tp in partitions}


def _names(value: bytes | None) -> tuple[str, ...]:
    """The names in a JSON object; none if the value is not an object (the decoder reports that)."""
    try:
        return tuple(msgspec.json.decode(value or b"", type=dict[str, msgspec.Raw]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()


def _count(seen: dict[K, Occurrences], key: K, records: pa.RecordBatch, row: int) -> Occurrences:
    if key not in seen:
        partition, offset = records.column("partition")[row].as_py(), records.column("offset")[row].as_py()
        seen[key] = Occurrences(f"partition {partition} offset {offset}")
    seen[key].count += 1
    return seen[key]
