"""The checkpoint folder of a query before the query runs: can it be written, and is it the job's own?

Spark notices too late.  On the folder of a query of other topics, it starts silently, lands nothing, and ends without
an error; for a damaged folder, it only says that something failed. A local folder is read without Spark, so ``chsink
doctor`` can; any other one through the session's file systems.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from chsink.errors import HaltError, PreflightError, halts, preflight
from chsink.findings import Finding, Severity, found, of_error, passed
from chsink.spark.offset_log import LogFiles, Unreadable, check_readable, first_offsets, last_batch, planned_ends
from chsink.statemachine.ranges import OffsetRange, TopicPartition
from chsink.statemachine.records import Phase, StateKey, StateRecord, TopicTable

PROBE = bytes(1 << 16)
"""What is written to see whether a folder can be written: on a full disk, an empty file can still be made."""
DEFAULT_FS = ("spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name")


class Folder(LogFiles, Protocol):
    """A checkpoint folder, which need not exist yet."""

    @property
    def where(self) -> str:
        """What the job file calls it."""
        ...

    def write_problem(self) -> Finding | None:
        """Why no file can be written there."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of this machine, which need not exist yet."""

    where: str
    path: Path

    def names(self, part: str) -> list[str]:
        folder = self.path / part
        return [file.name for file in folder.iterdir()] if folder.is_dir() else []

    def text(self, path: str) -> str | None:
        file = self.path / path
        try:
            return file.read_text(encoding="utf-8") if file.is_file() else None
        except UnicodeDecodeError as error:
            raise Unreadable("it is not text") from error

    def write_problem(self) -> Finding | None:
        nearest = next(p for p in (self.path, *self.path.parents) if p.exists())
        try:
            with tempfile.NamedTemporaryFile(prefix=".chsink-", dir=nearest) as probe:
                probe.write(PROBE)
                probe.flush()
                os.fsync(probe.fileno())
        except OSError as error:
            return not_writable(self.where, f"{nearest}: {error.strerror}")
        return None


def local_folder(checkpoint: str, conf: Mapping[str, object]) -> LocalFolder | None:
    """The folder, where it is certainly one of this machine; else only Spark knows."""
    parts = urlsplit(checkpoint)
    if parts.scheme == "file":
        return LocalFolder(checkpoint, Path(unquote(parts.path)))
    if parts.scheme or os.environ.get("HADOOP_CONF_DIR") or any(key in conf for key in DEFAULT_FS):
        return None
    return LocalFolder(checkpoint, Path(checkpoint).absolute())


def checkpoint_findings(
    folder: Folder,
    topics: Collection[str],
    records: Callable[[], Mapping[StateKey, StateRecord] | None],
    routes: Collection[TopicTable] = (),
) -> Iterator[Finding]:
    """Whether the folder can be written, and belongs to a query of these topics and to the recorded state.

    ``records`` reads the sink's, after the folder, as another driver may be at work: it writes AFTER before it commits.
    They are None where they cannot be known.  ``routes`` are its topics with their tables.
    """
    problem = folder.write_problem()
    if problem is not None:
        yield problem
        return
    try:
        check_readable(folder)
        last = last_batch(folder, "offsets")
        ends, read = ({} if last is None else planned_ends(folder, last)), _read(folder)
    except HaltError as error:
        yield of_error(error)
        return
    except PreflightError as error:
        yield found(Severity.ERROR, preflight.CHECKPOINT_FOREIGN, checkpoint=folder.where, reason=error.message)
        return
    foreign = sorted({tp.topic for tp in ends} - set(topics))
    if foreign:
        reason = f"it reads topic {', '.join(foreign)}, which this job does not"
        yield found(Severity.ERROR, preflight.CHECKPOINT_FOREIGN, checkpoint=folder.where, reason=reason)
    elif (now := records()) is not None and not now and read:
        yield found(Severity.ERROR, halts.CHECKPOINT_WITHOUT_STATE, checkpoint=folder.where)
    elif before := [key for key in _reset(now or {}, routes) if key.topic_partition in read]:
        named = ", ".join(sorted(f"{key.topic_partition} in {key.table}" for key in before))
        yield found(Severity.ERROR, halts.CHECKPOINT_BEFORE_RESET, checkpoint=folder.where, tps=named)
    else:
        yield passed(preflight.CHECKPOINT_FOREIGN, checkpoint=folder.where)


@dataclass(frozen=True, slots=True, order=True)
class PassedOver:
    """What the query has read of a topic-partition, and one of its tables lacks.  ``recorded``: it has state there."""

    topic_partition: TopicPartition
    table: str
    offsets: OffsetRange
    recorded: bool


def passed_over(
    folder: Folder, read_records: Callable[[], Mapping[StateKey, StateRecord] | None], routes: Collection[TopicTable]
) -> list[PassedOver]:
    """The route is new, or had been removed for a time.  Without a new record in Kafka, no batch would meet that.

    The records are read after the checkpoint: a job that runs writes them before it.  None where they are not known.
    """
    last = last_batch(folder, "commits")
    if last is None:
        return []
    ends, starts, records = planned_ends(folder, last), first_offsets(folder), read_records()
    if records is None:
        return []
    by_place = {(key.topic_partition, key.table): r for key, r in records.items() if r.phase is not Phase.EMPTY}
    found = []
    for topic, table in routes:
        for tp, end in ends.items():
            record = by_place.get((tp, table))
            begins = starts.get(tp, 0) if record is None else record.end
            if tp.topic == topic and begins < end:
                found.append(PassedOver(tp, table, OffsetRange(begins, end), record is not None))
    return sorted(found)


def _read(folder: Folder) -> set[TopicPartition]:
    """The topic-partitions of which finished batches of the query held records."""
    last = last_batch(folder, "commits")
    if last is None:
        return set()
    starts = first_offsets(folder)
    return {tp for tp, offset in planned_ends(folder, last).items() if offset > starts.get(tp, 0)}


def _reset(records: Mapping[StateKey, StateRecord], routes: Collection[TopicTable]) -> list[StateKey]:
    """Those that were reset and have landed nothing since."""
    mine = {key: record for key, record in records.items() if key.topic_table in routes}
    return [key for key, r in mine.items() if r.life.incarnation and r.phase is Phase.EMPTY]


def not_writable(checkpoint: str, reason: str) -> Finding:
    """The finding of a folder in which no file can be written."""
    return found(Severity.ERROR, preflight.CHECKPOINT_NOT_WRITABLE, checkpoint=checkpoint, reason=reason)
