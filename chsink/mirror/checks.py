"""The mirror's checks, which ``chsink doctor`` and every start run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from chsink.config import Config
from chsink.config.mirror import MirrorRoute
from chsink.errors import halts, preflight, services
from chsink.findings import Finding, Severity, found, guarded, passed
from chsink.mirror.connector import group_topics, marked, marks, not_continued, not_taken, possible_groups
from chsink.mirror.failures import in_words
from chsink.mirror.known_tables import Target
from chsink.mirror.names import faults
from chsink.mirror.opening import OpenMirror, open_mirror
from chsink.mirror.partitions import unusable
from chsink.mirror.ports import KafkaTopics
from chsink.mirror.tables import PropertyKeys, TableRead, lacks_branch, other_writers
from chsink.mirror.topic import kafka_findings
from chsink.mirror.types import unsupported
from chsink.statemachine.commit.chain import DamagedChain, decode, read_chain

VERSION = 2
FORMAT = "write.format.default"


def mirror_findings(config: Config, kafka: KafkaTopics) -> Iterator[Finding]:
    """Every check of the mirror that a configuration describes."""
    opened: list[OpenMirror] = []

    def opening() -> Iterator[Finding]:
        opened.append(open_mirror(config, kafka))
        return iter(())

    yield from guarded("the Iceberg catalog", opening)
    for mirror in opened:
        yield from findings_of(mirror)


def findings_of(mirror: OpenMirror) -> Iterator[Finding]:
    """Every check of an opened mirror."""
    yield from guarded("the control topic", partial(kafka_findings, mirror.names))
    for target in mirror.targets.values():
        findings = list(guarded("an Iceberg table", partial(_table, mirror, target)))
        yield from findings
        if any(finding.id == services.MIRROR_CATALOG_UNAVAILABLE.id for finding in findings):
            return  # once it does not answer, it is not asked again


def _table(mirror: OpenMirror, target: Target) -> Iterator[Finding]:
    name = target.table.identifier
    with in_words(mirror.names):
        table = target.table.load()
        creates = mirror.config.mirror.creates(name)
        new = table is None and creates and mirror.begins(target.topics)
    if new:
        yield passed(preflight.MIRROR_TABLE_NOT_CREATED, table=name)
    elif table is None:
        entry = preflight.MIRROR_TABLE_DROPPED if creates else preflight.MIRROR_NO_TABLE
        yield found(Severity.ERROR, entry, table=name, catalog=target.reference.catalog)
    elif lacks_branch(table.metadata, target.table.keys.branch):
        yield found(Severity.ERROR, preflight.MIRROR_NO_BRANCH, table=name, branch=target.table.keys.branch)
    else:
        yield from table_findings(name, table)
        for route in mirror.config.mirror.routes_to(name):
            yield from guarded("the options of a route", partial(_options, mirror, route, table))
        ids = mirror.kafka.topic_ids(sorted(target.topics)).values()
        yield from other_sinks(name, table, target.table.keys, {found_id for found_id in ids if found_id})
        yield from _connectors(mirror, target, table)


def _options(mirror: OpenMirror, route: MirrorRoute, table: Table) -> Iterator[Finding]:
    """Refuse options of a route's formats that do not fit the table."""
    mirror.columns_of(route, table.metadata)
    return iter(())


def other_sinks(name: str, table: Table, keys: PropertyKeys, topic_ids: Collection[str]) -> Iterator[Finding]:
    """Refuse a table that takes records of these topics from another sink, too: one that began before this sink, also
    before this sink's branch was made, or one that has committed after it.
    """
    mine = table.properties.get(keys.chain)
    for property_ in other_writers(keys, table.properties):
        sink = property_.rpartition(".chsink-")[2]
        theirs = replace(keys, group=f"chsink-{sink}")
        same = property_ == theirs.chain
        text = table.properties[property_] if same else "" if mine else _inherited(table, theirs)
        with suppress(DamagedChain):
            own, other = None if mine is None else decode(mine), decode(text)
            links = {tp: link for tp, link in other.links.items() if link.topic_id in topic_ids}
            if own is not None:
                later = own.links if other.sequence > own.sequence else ()
                links = {
                    tp: x for tp, x in links.items() if tp in later and x.until > max(x.origin, own.links[tp].until)
                }
            topics = ", ".join(sorted({tp.topic for tp in links}))
            known = {"table": name, "topics": topics, "sink": sink, "property": property_}
            if links and own is None:
                yield found(Severity.ERROR, preflight.MIRROR_OTHER_SINK, **known)
            elif links:
                until = ", ".join(f"{tp}: {link.until}" for tp, link in sorted(links.items()))
                yield found(Severity.ERROR, preflight.MIRROR_SINK_BESIDE, until=until, **known)


def _inherited(table: Table, theirs: PropertyKeys) -> str:
    """The chain of another sink's newest snapshot on the branch, "" if it has none."""
    head = table.metadata.snapshot_by_name(theirs.branch)
    summaries = (at.summary.additional_properties for at in ancestors_of(head, table.metadata) if at.summary)
    return next((summary[theirs.summary] for summary in summaries if theirs.summary in summary), "")


def _connectors(mirror: OpenMirror, target: Target, table: Table) -> Iterator[Finding]:
    """Refuse a table into which a Kafka Connect sink wrote records of topics of which the mirror does not know where it
    continues, or into which one wrote after the mirror.
    """
    if not (found_marks := marks(table)):
        return
    try:
        read = target.table.read()
    except DamagedChain:
        return  # the start halts
    chain = None if read is None else read_chain(read.view).chain
    known = {tp.topic for tp in (chain.links if chain else ())}
    unknown = target.topics - known
    for key in found_marks if unknown else ():
        with in_words(mirror.names):
            groups = {group: group_topics(mirror.names, group) for group in possible_groups(key)}
        filled = [group for group, topics in groups.items() if topics & unknown]
        left = not_continued(table, key) & unknown
        if filled or left or (not any(groups.values()) and not_taken(table, target.table.keys.branch)):
            group = (filled or list(groups))[0]
            yield found(Severity.ERROR, halts.MIRROR_CONNECTOR_TABLE, table=target.table.identifier, group=group)
    yield from () if read is None else _connectors_since(mirror, target, read)


def _connectors_since(mirror: OpenMirror, target: Target, read: TableRead) -> Iterator[Finding]:
    """Refuse commits of Kafka Connect sinks after the mirror's newest one, if they read the same topics; warn of those
    that lie between commits of the mirror, by the oldest.
    """
    name, keys = target.table.identifier, target.table.keys
    above, again = set[str](), True
    groups: dict[str, list[str]] = {}
    between: dict[str, Finding] = {}
    for at in ancestors_of(read.table.metadata.snapshot_by_name(keys.branch), read.table.metadata):
        if not at.summary or keys.summary not in at.summary.additional_properties:
            above |= {*marked(at)}
            continue
        for key in sorted(above):
            if key not in groups:
                with in_words(mirror.names):
                    groups[key] = [g for g in possible_groups(key) if group_topics(mirror.names, g) & target.topics]
            known = {"table": name, "snapshot": at.snapshot_id, "group": "".join(groups[key][:1])}
            if groups[key] and again:
                yield found(Severity.ERROR, halts.MIRROR_CONNECTOR_AGAIN, property=keys.chain, **known)
            elif groups[key]:
                between[key] = found(Severity.WARNING, halts.MIRROR_CONNECTOR_BETWEEN, **known)
        above, again = set(), False
    yield from between.values()


def table_findings(name: str, table: Table) -> Iterator[Finding]:
    """Refuse, by name, what the mirror cannot write: its partition spec, its version, its file format, its columns."""
    fine = True
    for finding in _refusals(name, table):
        fine = False
        yield finding
    if fine:
        by = ", ".join(field.name for field in table.spec().fields)
        partitions = f", partitioned by {by}" if by else ", unpartitioned"
        yield passed(preflight.MIRROR_NO_TABLE, table=name, columns=len(table.schema().fields), partitions=partitions)


def _refusals(name: str, table: Table) -> Iterator[Finding]:
    error = Severity.ERROR
    if fields := "; ".join(unusable(table.spec(), table.schema())):
        yield found(error, preflight.MIRROR_TABLE_PARTITIONED, table=name, fields=fields)
    if table.format_version != VERSION:
        yield found(error, preflight.MIRROR_TABLE_VERSION, table=name, version=table.format_version)
    if (said := table.properties.get(FORMAT, "parquet")).lower() != "parquet":
        yield found(error, preflight.MIRROR_TABLE_FORMAT, table=name, format=said)
    if columns := "; ".join(unsupported(table.schema())):
        yield found(error, preflight.MIRROR_TABLE_COLUMNS, table=name, columns=columns)
    if names := "; ".join(faults(table.metadata)):
        yield found(error, preflight.MIRROR_TABLE_NAMES, table=name, names=names)
