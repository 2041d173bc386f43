"""What Iceberg's Kafka Connect sink left behind: marks in its tables, offsets of its groups, events on its topic.

Its facts, as of versions 0.6 to 1.11:
- A snapshot's summary holds ``kafka.connect.offsets.<control topic>.<group>``: JSON, by partition of the control topic
  the next event to read.  A later snapshot may lack partitions that an earlier one has.
- The group holds the offsets of the source topics, ``connect-<name>`` by default (``cg-control-<name>`` in the older
  sink).  The coordinator's group is the same with ``-coord``, and holds offsets of the control topic.
- A worker reports its files and the next source offsets (DataWritten, DataComplete) and moves the group, all in one
  transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import ancestors_of

from chsink.errors import halts
from chsink.mirror.control import ControlUnanswered, Names
from chsink.mirror.events import DamagedEvent, DataComplete, DataWritten, Event, decode
from chsink.mirror.refusals import one_answer
from chsink.mirror.tables import CHAINS
from chsink.mirror.trail import placed
from chsink.statemachine.commit.units import Position
from chsink.statemachine.ranges import TopicPartition

_OFFSETS = "kafka.connect.offsets."
COMMIT_ID = "kafka.connect.commit-id"
VALID_THROUGH = ("kafka.connect.valid-through-ts", "kafka.connect.vtts")


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """What a table's snapshots say of a sink: by the key of its summary (without the prefix), the next event of each
    partition of the control topic; and commit id and valid-through time of its newest snapshot, "" where it has none.
    """

    key: str
    stored: Mapping[int, int]
    commit_id: str
    valid_through: str


def marks(table: Table) -> dict[str, SnapshotMark]:
    """The sinks that filled the table's main branch, by key; mirrors of chsink are not among them.  Of those that a
    property alone names, a takeover has begun, or left topics out.
    """
    named = (name.removeprefix(_OFFSETS) for name in table.metadata.properties if name.startswith(_OFFSETS))
    bare = {key: SnapshotMark(key, {}, "", "") for key in named}
    found: dict[str, SnapshotMark] = {}
    at: Any = table.metadata.snapshot_by_name(MAIN_BRANCH)
    while at is not None:
        summary = at.summary.additional_properties if at.summary else {}
        own = tuple(f".{name.removeprefix(CHAINS)}" for name in summary if name.startswith(CHAINS))
        for name, text in summary.items():
            if name.startswith(_OFFSETS) and not (own and name.endswith(own)):
                key = name.removeprefix(_OFFSETS)
                newest = found.get(key) or SnapshotMark(key, {}, summary.get(COMMIT_ID, ""), _valid_through(summary))
                found[key] = replace(newest, stored=_furthest(newest.stored, _offsets(table, name, text)))
        at = None if at.parent_snapshot_id is None else table.metadata.snapshot_by_id(at.parent_snapshot_id)
    return bare | found


def marked(snapshot: Any) -> list[str]:
    """The keys of the sinks whose commit a snapshot is; mirrors of chsink are not among them."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    if any(name.startswith(CHAINS) for name in summary):
        return []
    return [name.removeprefix(_OFFSETS) for name in summary if name.startswith(_OFFSETS)]


def not_taken(table: Table, branch: str) -> bool:
    """Whether a sink has committed to main or to this branch, and no mirror has taken it over since."""
    heads = [table.metadata.snapshot_by_name(name) for name in (MAIN_BRANCH, branch)]
    found = {at.snapshot_id: at for head in heads for at in ancestors_of(head, table.metadata)}
    keys = set[str]()
    for at in sorted(found.values(), key=lambda at: at.sequence_number or 0):
        taken = {name.removeprefix(_OFFSETS) for name in (at.summary.additional_properties if at.summary else {})}
        keys = (keys - taken) | {*marked(at)}
    return bool(keys)


def not_continued(table: Table, key: str) -> set[str]:
    """The topics of a sink that takeovers of this table left out, by the sink's property."""
    return set(table.metadata.properties.get(f"{_OFFSETS}{key}", "").split(",")) - {""}


def _valid_through(summary: Mapping[str, str]) -> str:
    return next((summary[key] for key in VALID_THROUGH if key in summary), "")


def _offsets(table: Table, name: str, text: str) -> dict[int, int]:
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise halts.MIRROR_CONNECTOR_LEFT(
            what=f"the snapshot property {name} of Iceberg table {'.'.join(table.name()[-2:])}", reason=error
        ) from error


def _furthest(a: Mapping[int, int], b: Mapping[int, int]) -> dict[int, int]:
    return {p: max(a.get(p, 0), b.get(p, 0)) for p in (*a, *b)}


@dataclass(frozen=True, slots=True)
class Connector:
    """A sink's names in Kafka."""

    control_topic: str
    group: str

    @property
    def coordinator_group(self) -> str:
        return f"{self.group}-coord"

    @property
    def key(self) -> str:
        """Its key in tables, without the prefix."""
        return f"{self.control_topic}.{self.group}"

    @property
    def offsets(self) -> str:
        """Its key in the summary of snapshots."""
        return f"{_OFFSETS}{self.key}"

    def names(self, names: Names) -> Names:
        """To read its topic and its group."""
        return replace(names, topic=self.control_topic, group=self.group)


def readings(key: str, topics: Iterable[str]) -> list[Connector]:
    """The control topic and the group in a key: both may have dots, so the topic has to exist."""
    found = [Connector(topic, key.removeprefix(f"{topic}.")) for topic in topics if key.startswith(f"{topic}.")]
    return [one for one in found if one.group]


def possible_groups(key: str) -> list[str]:
    """What the group of a key may be, whatever topics there are; the likeliest first."""
    parts = key.split(".")
    groups = [".".join(parts[at:]) for at in range(1, len(parts))]
    return sorted(groups, key=lambda group: not group.startswith(("connect-", "cg-control-")))


@dataclass(frozen=True, slots=True)
class FileReport:
    """An event with files: where it lies, and its table (without the catalog, whose name only the sink knows)."""

    at: Position
    table: tuple[str, ...]
    written: DataWritten


@dataclass(frozen=True)
class Remains:
    """What the sink left in Kafka.  ``group`` and ``passed`` are the offsets of its group and of its coordinator's.
    ``first``: where the control topic's partitions start.  ``reported``: the offsets in its newest events.
    """

    group: Mapping[TopicPartition, int]
    passed: Mapping[int, int]
    first: Mapping[int, int]
    ends: Mapping[int, int]
    reports: tuple[FileReport, ...]
    reported: Mapping[TopicPartition, int] = field(default_factory=dict)


def remains(connector: Connector, names: Names) -> Remains:
    """Read it all: the groups first, so that the events of their offsets are there.  Partitions arrive in any order;
    what is said here is the same each time.  Raises ``ControlUnanswered``.
    """
    mine = connector.names(names)
    group, passed = _group(mine, connector.group), _group(mine, connector.coordinator_group)
    with closing(mine.reader()) as reader:
        logs = reader.logs()
    reports: list[FileReport] = []
    newest: dict[TopicPartition, tuple[datetime, int]] = {}
    for at, value in placed(mine):
        event = _event(connector, at, value)
        match event.payload if event is not None and event.group_id == connector.group else None:
            case DataWritten() as written:
                reports.append(FileReport(at, (*written.table.namespace, written.table.name), written))
            case DataComplete() as complete:
                assert event is not None
                _note(newest, event, complete)
            case _:
                pass
    return Remains(
        group,
        {tp.partition: offset for tp, offset in passed.items() if tp.topic == connector.control_topic},
        {number: first for number, (first, _) in logs.items()},
        {number: end for number, (_, end) in logs.items()},
        tuple(sorted(reports, key=lambda report: report.at)),
        {tp: offset for tp, (_, offset) in newest.items()},
    )


def _note(newest: dict[TopicPartition, tuple[datetime, int]], event: Event, complete: DataComplete) -> None:
    for answer in complete.answers:
        tp = TopicPartition(answer.topic, answer.partition)
        if answer.offset is not None:
            found = event.timestamp, answer.offset
            newest[tp] = max(newest.get(tp, found), found)


def _event(connector: Connector, at: Position, value: bytes) -> Event | None:
    try:
        return decode(value)
    except DamagedEvent as error:
        what = f"the message at offset {at.offset} of {connector.control_topic}-{at.partition}"
        raise halts.MIRROR_CONNECTOR_LEFT(what=what, reason=error) from error


def members(connector: Connector, names: Names) -> list[str]:
    """Who consumes as one of the sink's groups.  Raises ``ControlUnanswered`` and PreflightError."""
    mine, busy = connector.names(names), []
    for group in (connector.group, connector.coordinator_group):
        found = _asked(mine, lambda admin, limit, group=group: admin.describe_consumer_groups([group], **limit))
        busy += [] if found is None else [f"{member.client_id} at {member.host}" for member in found.members]
    return sorted(busy)


def _group(names: Names, group: str) -> dict[TopicPartition, int]:
    """All offsets of a group."""
    wanted = [ConsumerGroupTopicPartitions(group)]
    found = _asked(names, lambda admin, limit: admin.list_consumer_group_offsets(wanted, **limit))
    at = [] if found is None else found.topic_partitions
    return {TopicPartition(each.topic, each.partition): each.offset for each in at if each.offset >= 0}


def _asked(names: Names, ask: Callable[..., Any]) -> Any:
    """The one answer; None where there is no such group."""
    admin, limit = _client(tuple(sorted(names.options.items()))), {"request_timeout": names.timeout_s}
    return one_answer(lambda: ask(admin, limit), names, lambda error: ControlUnanswered(str(error)))


@lru_cache(maxsize=4)
def _client(options: tuple[tuple[str, str], ...]) -> AdminClient:
    """It stays: a client that goes after an error took the process with it."""
    return AdminClient(dict(options))


def group_topics(names: Names, group: str) -> set[str]:
    """The topics of which a group has offsets.  Raises ``ControlUnanswered``."""
    return {tp.topic for tp in _group(names, group)}


def files_of(reports: Iterable[FileReport], table: tuple[str, ...]) -> Iterator[tuple[Position, Mapping[str, Any]]]:
    """The files with rows that were reported for a table."""
    for report in reports:
        if report.table == table:
            every = (*report.written.files, *report.written.deletes)
            yield from ((report.at, entry) for entry in every if entry["record_count"] > 0)
