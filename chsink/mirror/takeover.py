"""Continues tables that Iceberg's Kafka Connect sink filled: no record is lost, and none lands twice.

Rules:
- The sink's group has to be without members: only then its offsets and its events stay as they are.
- One commit of a table has the files that wait for it and its first chain.  So a takeover that was interrupted begins
  again, and skips the tables that have their chain.  It is a snapshot also where no file waits: its absence shows that
  rows were rolled back.
- That commit also carries the sink's own offsets, up to the end of its control topic: a coordinator of the sink that
  was only suspended then takes these files for committed.
- Before one of several tables has its chain, each bears the sink's mark, in a snapshot or in a property: no start goes
  on without one of them.  The property names the topics that are not taken over: a start that routes one is refused.
- It is shown first and carried out afterwards, if nothing has changed since.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pyiceberg.manifest import DataFile
from pyiceberg.table.refs import MAIN_BRANCH

from chsink.errors import ChsinkError, halts, services
from chsink.errors.several import raise_all
from chsink.mirror.connector import (
    Connector,
    Remains,
    SnapshotMark,
    files_of,
    marks,
    members,
    not_continued,
    readings,
    remains,
)
from chsink.mirror.files import data_file
from chsink.mirror.known_tables import KnownTables, Target
from chsink.mirror.manifests import name_of, referred
from chsink.mirror.opening import OpenMirror
from chsink.mirror.tables import Committed, TableRead, foreign_rows, none_expired
from chsink.ports import Outcome
from chsink.statemachine.commit.chain import Chain, Link, Links
from chsink.statemachine.commit.takeover import ReportedFile, Stopped, continued, waits
from chsink.statemachine.ranges import OffsetRange, TopicPartition


@dataclass(frozen=True)
class TableLeft:
    """A table of the sink: what its snapshots say, the files that wait for it, and its first chain.  ``lost``: files
    that the sink passed over and that do not exist any more.
    """

    table: str
    target: Target = field(compare=False)
    read: TableRead = field(compare=False)
    chain: Chain
    mark: SnapshotMark | None
    waiting: tuple[str, ...]
    files: tuple[DataFile, ...] = field(compare=False)
    lost: int = 0

    def as_dict(self) -> dict[str, object]:
        """For a person or a program."""
        return {
            "table": self.table,
            "commit": self.mark.commit_id if self.mark else "",
            "valid_through": self.mark.valid_through if self.mark else "",
            "files": len(self.files),
            "rows": sum(file.record_count for file in self.files),
            "lost_files": self.lost,
        }


@dataclass(frozen=True)
class Takeover:
    """What is taken over from ``connector``.  ``links``: where what a table lacks continues.  ``left_out``: tables of
    the routes that the sink did not fill.  ``unread``: topics of its group that no route names.
    """

    connector: Connector
    tables: tuple[TableLeft, ...]
    links: Mapping[TopicPartition, Link]
    left_out: tuple[str, ...]
    unread: tuple[str, ...]
    ends: Mapping[int, int]


def survey(
    mirror: OpenMirror,
    topics: Collection[str],
    chosen: Collection[str],
    group: str,
    control_topic: str,
    *,
    trust: bool,
    landed: Mapping[str, bool],
) -> Takeover:
    """What there is to take over.  ``topics`` are all of Kafka's, ``chosen`` tables that a person names, ``group`` and
    ``control_topic`` those of the sink, "" to find them in the tables.  ``trust``: the group is right.  ``landed``: by
    table, whether it has the files of which nothing else says so.

    Raises ChsinkError, ``Halted`` and the outcomes of :mod:`chsink.mirror.control` and ``tables``.
    """
    known = KnownTables(mirror.targets, mirror.names.topic)
    tables = {name: known.read(name) for name in mirror.targets}
    marked = {name: marks(read.table) for name, (read, _) in tables.items()}
    connector = _connector(marked, topics, group, control_topic)
    if busy := members(connector, mirror.names):
        raise halts.MIRROR_CONNECTOR_RUNS(group=connector.group, members=", ".join(busy))
    left = remains(connector, mirror.names)
    links = _links(mirror, connector, left, known.links, trust=trust)
    reported = {report.table for report in left.reports}
    look = _Look(mirror, connector, left, links, landed)
    found, left_out = [], []
    for name, (read, chain) in tables.items():
        target, mark = mirror.targets[name], marked[name].get(connector.key)
        if links.keys() <= chain.links.keys() | {tp for tp in links if tp.topic not in target.topics}:
            continue  # it has its chain
        reference = (*target.reference.namespace, target.reference.name)
        if mark is not None or reference in reported or name in chosen:
            found.append(look.at(name, target, read, chain, mark))
        else:
            left_out.append(name)
    raise_all(look.unsure)
    _check_routed(mirror, look, reported)
    unread = sorted({tp.topic for tp in left.group} - set(mirror.config.mirror.topics))
    return Takeover(connector, tuple(found), links, tuple(left_out), tuple(unread), left.ends)


def carry_out(mirror: OpenMirror, shown: Takeover, now: Takeover) -> None:
    """Store what was shown, if ``now``, the same asked again, says the same.  Raises as :func:`survey`."""
    if (shown.tables, shown.links) != (now.tables, now.links):
        raise halts.MIRROR_CONNECTOR_MOVED(group=shown.connector.group)
    with mirror.names.sender(mirror.names.coordinator_id, mirror.names.control_group):
        for one in now.tables:
            before = not_continued(one.read.table, now.connector.key)
            left = {*now.unread, *before}.difference(mirror.config.mirror.topics)
            if left != before or (one.mark is None and len(now.tables) > 1):
                _check(one, one.target.table.set_property(one.read, now.connector.offsets, ",".join(sorted(left))))
        for one in now.tables:
            table, commit_id = one.target.table, uuid.uuid4()
            if one.files or one.read.view.head is not None:
                stored = {**(one.mark.stored if one.mark else {}), **now.ends}
                theirs = {now.connector.offsets: json.dumps({str(p): at for p, at in sorted(stored.items())})}
                _check(one, table.append(one.read, one.files, one.chain, commit_id, None, more=theirs))
            else:
                _check(one, table.decide(one.read, one.chain, commit_id))


def _check(one: TableLeft, done: Committed) -> None:
    if done.outcome is not Outcome.APPLIED:
        raise services.MIRROR_COMMITS_FAIL(table=one.table, rounds=1, reason=done.reason)


def _connector(
    marked: Mapping[str, Mapping[str, SnapshotMark]], topics: Collection[str], group: str, control_topic: str
) -> Connector:
    """The one sink that the tables name, or that a person named."""
    if group and control_topic:
        return Connector(control_topic, group)
    keys = sorted({key for mine in marked.values() for key in mine})
    found = {one for key in keys for one in readings(key, topics)}
    found = {one for one in found if group in ("", one.group) and control_topic in ("", one.control_topic)}
    if len(found) != 1:
        named = "; ".join(f"group {one.group}, control topic {one.control_topic}" for one in sorted(found, key=str))
        lost = "; ".join(f"{key}, whose control topic does not exist" for key in keys if not readings(key, topics))
        raise halts.MIRROR_CONNECTOR_UNKNOWN(found=named or lost or "none")
    return found.pop()


def _links(mirror: OpenMirror, connector: Connector, left: Remains, held: Mapping[str, Links], *, trust: bool) -> Links:
    """Where each topic-partition of the routes continues that a table does not have in its chain."""
    targets, tps = mirror.targets, mirror.kafka.partitions(mirror.config.mirror.topics)
    tps = [tp for tp in tps if any(tp.topic in targets[n].topics and tp not in links for n, links in held.items())]
    topics = sorted({tp.topic for tp in tps})
    ids, starts, ends = mirror.kafka.topic_ids(topics), mirror.kafka.log_starts(tps), mirror.kafka.log_ends(tps)
    if tps and not any(tp.topic in mirror.config.mirror.topics for tp in left.group):
        raise halts.MIRROR_CONNECTOR_UNREAD(group=connector.group, topics=", ".join(topics))
    links: dict[TopicPartition, Link] = {}
    refused: list[ChsinkError] = []
    for tp in tps:
        log = OffsetRange(starts[tp], max(starts[tp], ends[tp]))
        at, reported = left.group.get(tp), left.reported.get(tp)
        rule, link = continued(Stopped(ids[tp.topic] or "", at, reported, log, trust))
        if link is not None:
            links[tp] = link
            continue
        known = {"tp": tp, "group": connector.group, "topic": f"{tp.topic}:{tp.partition}"}
        if rule == "BEYOND_LOG":
            refused.append(halts.MIRROR_CONNECTOR_BEYOND_LOG(**known, offset=at, end=log.end))
        else:
            has = "no offset" if at is None else f"offset {at}"
            refused.append(halts.MIRROR_CONNECTOR_SET_BACK(**known, offset=has, to=reported))
    raise_all(refused)
    return links


@dataclass(frozen=True)
class _Look:
    """What one survey looks at tables with."""

    mirror: OpenMirror
    connector: Connector
    left: Remains
    links: Mapping[TopicPartition, Link]
    landed: Mapping[str, bool]
    unsure: list[ChsinkError] = field(default_factory=list)
    """The tables of which a person has to say whether they have their files."""

    def at(self, name: str, target: Target, read: TableRead, chain: Chain, mark: SnapshotMark | None) -> TableLeft:
        """What the sink left of a table.  Raises ChsinkError."""
        reference = (*target.reference.namespace, target.reference.name)
        stored = self._bounds(mark, name)
        metadata = read.table.metadata
        there = referred(metadata, read.table.io).files
        whole = none_expired(metadata)
        # rows that no snapshot of the sink brought: they may have been copied from the table that it filled
        copied = whole and foreign_rows(metadata, MAIN_BRANCH, self.connector.offsets) != 0
        silent = bool(there) and (copied if stored is None else not stored)
        entries, behind = {}, set()
        unsure: list[str] = []
        for at, entry in files_of(self.left.reports, reference):
            location = entry["file_path"]
            passed = 0 if stored is None else self.left.passed.get(at.partition, 0)
            known = (stored or {}).get(at.partition, 0)
            if waits(ReportedFile(at.offset, known, passed, name_of(location) in there, whole)):
                entries[location] = entry  # a location counts once
                if at.offset < max(known, passed):
                    behind.add(location)
                if ((silent or not whole) and at.partition not in (stored or {})) or (copied and location in behind):
                    unsure.append(location)
        landed = self.landed.get(name)
        if unsure and landed is None:
            self.unsure.append(halts.MIRROR_CONNECTOR_UNSURE(table=name, file=", ".join(unsure)))
        if landed is not False:
            entries = {location: entry for location, entry in entries.items() if location not in unsure}
        gone = target.table.missing(read, [*entries])
        if waiting := sorted(gone - behind):
            raise halts.MIRROR_CONNECTOR_FILE(table=name, file=waiting[0], reason="it does not exist any more")
        entries = {location: entry for location, entry in entries.items() if location not in gone}
        files = tuple(self._file(name, read, entry) for entry in entries.values())
        mine = {tp: link for tp, link in self.links.items() if tp.topic in target.topics}
        links = {**mine, **chain.links}
        return TableLeft(name, target, read, replace(chain, links=links), mark, tuple(entries), files, len(gone))

    def _bounds(self, mark: SnapshotMark | None, name: str) -> Mapping[int, int] | None:
        """The next events by the table's snapshots; None where the control topic was created again since: then neither
        they nor the coordinator's group tell which of its files were committed.
        """
        stored = mark.stored if mark else {}
        again = any(at > self.left.ends.get(number, 0) for number, at in stored.items())
        for number, first in self.left.first.items():
            # a group loses its offsets with the topic: one that is there was set since, by the sink or by a person
            known = self.left.passed.get(number, -1)
            if first > (known if again else max(stored.get(number, 0), known)):
                topic, group = self.connector.control_topic, self.connector.coordinator_group
                said = {"topic": topic, "partition": number, "group": group, "reads": self.connector.group}
                self.unsure.append(halts.MIRROR_CONNECTOR_EVENTS_GONE(table=name, first=first, **said))
        return None if again else stored

    def _file(self, name: str, read: TableRead, entry: Mapping[str, object]) -> DataFile:
        location, specs = entry["file_path"], read.view.specs
        if entry["content"]:
            raise halts.MIRROR_CONNECTOR_FILE(table=name, file=location, reason="it holds deletes")
        spec = entry.get("spec_id")
        if spec is None and len(specs) == 1:
            [spec] = specs
        if spec not in specs:
            raise halts.MIRROR_CONNECTOR_FILE(table=name, file=location, reason="the table lacks its partition spec")
        return data_file({**entry, "spec_id": spec})


def _check_routed(mirror: OpenMirror, look: _Look, reported: Collection[tuple[str, ...]]) -> None:
    """Refuse if files wait for a table that no route names: nobody would commit them once the sink is gone."""
    routed = {(*t.reference.namespace, t.reference.name) for t in mirror.targets.values()}
    for reference in sorted(set(reported) - routed):
        passed = look.left.passed
        for at, entry in files_of(look.left.reports, reference):
            if at.offset >= passed.get(at.partition, 0):
                table = ".".join(reference)
                raise halts.MIRROR_CONNECTOR_OTHER_TABLE(
                    table=table, file=entry["file_path"], group=look.connector.group
                )
