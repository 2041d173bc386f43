"""How far a mirror is: what its tables hold, what waits for a commit, and how far both are behind Kafka.

Reads Kafka and the catalog and changes neither, so it works whether a mirror runs or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from confluent_kafka import KafkaException
from pyiceberg.table.snapshots import Snapshot

from chsink.config import Config
from chsink.errors import ChsinkError
from chsink.kafka.ages import first_times
from chsink.mirror.control import ControlUnanswered, Names
from chsink.mirror.failures import as_error, in_words
from chsink.mirror.known_tables import Target
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.mirror.owner import CoordinatorClaim, read_owner
from chsink.mirror.ports import KafkaTopics
from chsink.mirror.stop_reasons import Halted
from chsink.mirror.tables import VALID_THROUGH, DamagedProperty, TableRead
from chsink.mirror.trail import READ_S, handed_over
from chsink.statemachine.commit.chain import Chain, read_chain
from chsink.statemachine.commit.rules import CommitHalt
from chsink.statemachine.ranges import TopicPartition

TOTAL_FILES, TOTAL_BYTES = "total-data-files", "total-files-size"
"""Where a snapshot's summary says what its branch holds."""


@dataclass(frozen=True, slots=True)
class MirrorPartition:
    """One topic-partition of a table.  The table holds the records of ``[origin, until)``; those below ``handed_over``
    have files.
    """

    topic: str
    partition: int
    origin: int | None
    until: int | None
    handed_over: int | None
    end: int


@dataclass(frozen=True, slots=True)
class TableStatus:
    """``problem`` is the halt that a start would raise, ``fix`` what to do about it; both are empty if there is none.
    ``lag`` counts offsets that the table lacks, ``lag_s`` is the age of the oldest record among them, None if it is not
    known.  ``pending`` counts offsets with files that wait for a commit, ``pending_units`` the reports of them.
    ``skipped``: how many records the table's commits have skipped so far.
    ``snapshots``: how many the table keeps; ``files`` and ``bytes``: the data files of the mirror's branch, None if its
    newest snapshot does not say.
    """

    table: str
    problem: str
    fix: str
    snapshot: int | None
    last_commit: str | None
    valid_through: str | None
    pending: int
    pending_units: int
    lag: int
    lag_s: float | None
    skipped: int
    snapshots: int
    files: int | None
    bytes: int | None
    partitions: tuple[MirrorPartition, ...]

    def measures(self) -> dict[str, float | None]:
        """By the gauge names of ``chsink.observe.metrics.MirrorMetrics``; times are in seconds since 1970."""
        return {
            "lag": self.lag,
            "lag_s": self.lag_s,
            "skipped": self.skipped,
            "pending": self.pending,
            "units": self.pending_units,
            "last_commit": _seconds(self.last_commit),
            "valid": _seconds(self.valid_through),
            "snapshots": self.snapshots,
            "files": self.files,
            "file_bytes": self.bytes,
        }


@dataclass(frozen=True, slots=True)
class MirrorStatus:
    """``owner`` claimed the mirror last; it need not run."""

    owner: CoordinatorClaim | None
    tables: tuple[TableStatus, ...]

    @property
    def epoch(self) -> int | None:
        """The owner's."""
        return None if self.owner is None else self.owner.epoch

    def measures(self) -> dict[str, dict[str, float | None]]:
        """By table, :meth:`TableStatus.measures`."""
        return {table.table: table.measures() for table in self.tables}

    def as_dict(self) -> dict[str, Any]:
        """For a machine."""
        return {"owner": None if self.owner is None else asdict(self.owner), "tables": [asdict(t) for t in self.tables]}


def status_of(config: Config, kafka: KafkaTopics, now_ms: int) -> MirrorStatus:
    """The status of a configuration's mirror.  Raises ChsinkError."""
    mirror = open_mirror(config, kafka)
    with in_words(mirror.names):
        return read_status(mirror, now_ms)


def status_if_known(mirror: OpenMirror, now_ms: int, log: structlog.typing.FilteringBoundLogger) -> MirrorStatus | None:
    """The status for metrics, which end no mirror: None, with a line in the log, if it cannot be read."""
    try:
        return read_status(mirror, now_ms)
    except Exception as error:
        log.debug("metrics are not known", reason=f"{type(error).__name__}: {error}")
        return None


def read_status(mirror: OpenMirror, now_ms: int) -> MirrorStatus:
    """Raises ChsinkError, ``ControlUnanswered``, ``CatalogFailed``, ``Halted``."""
    names = mirror.names
    tps = list(mirror.kafka.partitions(sorted({topic for t in mirror.targets.values() for topic in t.topics})))
    ends = mirror.kafka.log_ends(tps)
    with closing(names.offsets()) as offsets, closing(names.offsets(names.owner_group)) as owners:
        group, owner = offsets.committed(tps), read_owner(names, owners)
    begun = {tp.topic for tp, at in group.items() if at is not None}
    new = {n: mirror.config.mirror.creates(n) and begun.isdisjoint(t.topics) for n, t in mirror.targets.items()}
    halting = mirror.config.mirror.added_tables == "halt"
    passed = [tp for tp in tps if group[tp] is not None] if halting else []
    reads = {name: _read(target, names, passed, new=new[name]) for name, target in mirror.targets.items()}
    untils = {name: table.untils for name, table in reads.items()}
    units = _waiting(mirror, untils) if names.topic in mirror.kafka.topics() else dict.fromkeys(reads, 0)
    tables = []
    for name, target in mirror.targets.items():
        mine = [tp for tp in tps if tp.topic in target.topics]
        partitions = tuple(_partition(tp, reads[name].chain, group[tp], ends[tp]) for tp in mine)
        lag_s = _lag_s(names, partitions, now_ms)
        tables.append(_table(name, reads[name], partitions, units[name], lag_s))
    return MirrorStatus(owner, tuple(tables))


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as it was read, and the halt that it causes."""

    read: TableRead | None
    chain: Chain
    problem: ChsinkError | None = None

    @property
    def untils(self) -> dict[TopicPartition, int]:
        return {tp: link.until for tp, link in self.chain.links.items()}

    @property
    def snapshot(self) -> Snapshot | None:
        """The mirror's newest snapshot."""
        if self.read is None or self.chain.snapshot_id is None:
            return None
        return self.read.table.metadata.snapshot_by_id(self.chain.snapshot_id)

    @property
    def snapshots(self) -> int:
        """How many there are, of all branches."""
        return 0 if self.read is None else len(self.read.table.metadata.snapshots)

    @property
    def files(self) -> tuple[int | None, int | None]:
        """How many data files the branch has, and their bytes, as its newest snapshot says."""
        if self.read is None or (head := self.read.view.head) is None:
            return 0, 0
        newest = self.read.table.metadata.snapshot_by_id(head)
        summary = {} if newest is None or newest.summary is None else newest.summary.additional_properties
        files, size = (summary.get(name, "") for name in (TOTAL_FILES, TOTAL_BYTES))
        return (int(files), int(size)) if files.isdecimal() and size.isdecimal() else (None, None)


def _read(target: Target, names: Names, passed: Sequence[TopicPartition] = (), *, new: bool) -> _Table:
    """``new``: the mirror creates the table if it is missing.  ``passed``: topic-partitions that the mirror has read,
    and that no table may join by itself.
    """

    def problem(why: CommitHalt, detail: str = "", table_property: str = "") -> ChsinkError | None:
        """The halt that a start would raise."""
        damaged, name = table_property or target.table.keys.chain, target.table.identifier
        return as_error(Halted(name, why, detail, topic=names.topic, table_property=damaged), names)

    try:
        read = target.table.read()
    except DamagedProperty as error:
        return _Table(None, Chain(), problem(CommitHalt.CHAIN_DAMAGED, str(error), error.name))
    if read is None:
        return _Table(None, Chain(), None if new else problem(CommitHalt.TABLE_GONE))
    reading = read_chain(read.view)
    stored = read.view.stored
    halt = None if reading.halt is None else problem(reading.halt, f"snapshot {stored and stored.snapshot_id}")
    chain = reading.chain or Chain()
    unknown = [tp for tp in passed if tp.topic in target.topics and tp not in chain.links]
    if halt is None and unknown and not target.sharing:
        halt = problem(CommitHalt.CHAIN_MISSING, str(min(unknown)))
    return _Table(read, chain, halt)


def _partition(tp: TopicPartition, chain: Chain, handed_over: int | None, end: int) -> MirrorPartition:
    link = chain.links.get(tp)
    origin, until = (None, None) if link is None else (link.origin, link.until)
    return MirrorPartition(tp.topic, tp.partition, origin, until, handed_over, end)


def _table(
    name: str, table: _Table, partitions: tuple[MirrorPartition, ...], units: int, lag_s: float | None
) -> TableStatus:
    snapshot, problem = table.snapshot, table.problem
    through = None if snapshot is None or snapshot.summary is None else snapshot.summary.get(VALID_THROUGH)
    return TableStatus(
        name,
        "" if problem is None else f"{problem.id}: {problem.message}",
        "" if problem is None else problem.hint,
        table.chain.snapshot_id,
        None if snapshot is None else _time(snapshot.timestamp_ms),
        None if through is None else _time(int(through)),
        sum(max(0, (p.handed_over or 0) - p.until) for p in partitions if p.until is not None),
        units,
        sum(p.end - (p.until or 0) for p in partitions),
        lag_s,
        table.chain.skipped,
        table.snapshots,
        *table.files,
        partitions,
    )


def _seconds(time: str | None) -> float | None:
    return None if time is None else datetime.fromisoformat(time).timestamp()


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def _waiting(mirror: OpenMirror, untils: Mapping[str, Mapping[TopicPartition, int]]) -> dict[str, int]:
    """By table, how many units on the control topic have offsets that it lacks."""
    names = mirror.names
    by_reference = {(t.reference.namespace, t.reference.name): name for name, t in mirror.targets.items()}
    found: dict[str, set[str]] = {name: set() for name in mirror.targets}
    for written in handed_over(names, whole=False):
        name = by_reference.get((written.table.namespace, written.table.name))
        if name is None or written.tag is None:
            continue
        tp = TopicPartition(written.tag.topic, written.tag.partition)
        if written.tag.until > untils[name].get(tp, 0):
            found[name].add(written.tag.unit)
    return {name: len(units) for name, units in found.items()}


def _lag_s(names: Names, partitions: Sequence[MirrorPartition], now_ms: int) -> float | None:
    """The age of the oldest record that a table lacks."""
    behind = {TopicPartition(p.topic, p.partition): p.until or 0 for p in partitions if (p.until or 0) < p.end}
    if not behind:
        return 0.0
    try:
        found = first_times(names.options, names.control_group, behind, READ_S)
    except KafkaException as error:
        raise ControlUnanswered(str(error)) from error
    return round(max(0, now_ms - min(found.values())) / 1000, 1) if found else None
