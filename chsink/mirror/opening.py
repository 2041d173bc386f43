"""Opens the mirror that a configuration describes: its names, catalog and tables."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    NotInstalledError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table.metadata import TableMetadata

from chsink.config import Config
from chsink.config.mirror import MirrorRoute
from chsink.errors import AlteredError, ChsinkError, halts, preflight, services
from chsink.formats.column_checks import check_filled
from chsink.formats.table_by import Choice
from chsink.mirror.commit_pool import asked
from chsink.mirror.control import Names
from chsink.mirror.events import TableReference
from chsink.mirror.failures import in_words
from chsink.mirror.growing import grow
from chsink.mirror.known_tables import Target
from chsink.mirror.lacking import wanted_by
from chsink.mirror.names import clashes, faults, record_names
from chsink.mirror.new_tables import Definition
from chsink.mirror.partitions import unusable
from chsink.mirror.ports import KafkaTopics
from chsink.mirror.rest import open_catalog
from chsink.mirror.sharing import sharing_of
from chsink.mirror.tables import MirrorTable, PropertyKeys, said
from chsink.mirror.task import Feeds
from chsink.mirror.types import TableColumns, unsupported
from chsink.mirror.worker import TableWork
from chsink.statemachine.commit.chain import Sharing
from chsink.statemachine.commit.rounds import CommitPace

_log = logging.getLogger(__name__)

THREADS = 8
"""How many tables are read or committed at the same time."""
ONE_AT_A_TIME = frozenset({"hive"})
"""Types of catalogs whose client cannot be shared by threads."""
REFUSED = (
    ValueError,
    NotInstalledError,
    BadRequestError,
    ForbiddenError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
"""What pyiceberg raises for properties that no catalog takes, for a catalog whose packages are missing, and where a
REST catalog does not know the address, the warehouse or the login.  Subclasses do not count: an answer that cannot be
read, and a server that is busy, raise one of them.
"""


@dataclass(frozen=True)
class OpenMirror:
    """What a driver, a coordinator and ``status`` need.  ``kafka`` answers questions about topics."""

    config: Config
    kafka: KafkaTopics
    names: Names
    pace: CommitPace
    catalog: Catalog
    targets: Mapping[str, Target]
    threads: int = 1
    """How many tables the catalog is asked for, or commits, at the same time."""

    def feeds(self) -> Feeds:
        """What workers need, with topics and tables as they are now.  Raises ChsinkError."""
        ids = self.kafka.topic_ids(self.config.mirror.topics)
        errors = self.config.errors
        return Feeds(
            self.names,
            {topic: ids[topic] or "" for topic in self.config.mirror.topics},
            self._routed(asked(self._work, self.config.mirror.tables, self.threads)),
            self.kafka,
            {topic: sharing.choice for topic, sharing in self._sharing.items()},
            halt_on_bad_value=errors.on_bad_value == "halt",
            skip_tombstones=errors.on_tombstone in {"skip", "delete"},
        )

    @property
    def _sharing(self) -> dict[str, Sharing]:
        return {topic: each for target in self.targets.values() for topic, each in target.sharing.items()}

    def renewed(self, feeds: Feeds, tables: Collection[str]) -> Feeds:
        """With these tables as they are now.  One that cannot be read, that cannot be written any more, or that is
        another one, stays as it was: coordinator and next start say what is wrong with it.
        """
        found = asked(self._work_or_not, sorted(tables), self.threads)
        try:
            now = self._routed({name: work for name, work in found.items() if work is not None})
        except ChsinkError as error:
            _log.warning("writing records for the tables as last read: %s", error)
            return feeds
        return with_tables(feeds, now)

    def _routed(self, works: Mapping[str, TableWork]) -> dict[str, tuple[TableWork, ...]]:
        """By topic, those of its tables that are among ``works``, each as the topic's route reads records."""
        found: dict[str, tuple[TableWork, ...]] = {}
        for route in self.config.mirror.routes:
            if route.table in works:
                found[route.topic] = (*found.get(route.topic, ()), self._read(works[route.table], route))
        return found

    def _work_or_not(self, name: str) -> TableWork | None:
        try:
            return self._work(name)
        except ChsinkError as error:
            _log.warning("writing records for table %s as last read: %s", name, error)
            return None

    def without(self, topics: Collection[str]) -> OpenMirror:
        """The mirror without these topics, and without the tables that only they feed."""
        mirror = self.config.mirror
        kept = mirror.with_routes([r for r in mirror.routes if r.topic not in topics])
        targets = {
            name: replace(
                target,
                topics=target.topics.difference(topics),
                sharing={topic: each for topic, each in target.sharing.items() if topic not in topics},
            )
            for name, target in self.targets.items()
        }
        config = self.config.model_copy(update={"mirror": kept})
        return replace(self, config=config, targets={n: t for n, t in targets.items() if t.topics})

    def begins(self, topics: Collection[str]) -> bool:
        """Whether a missing table of these topics may be created.  If the group has an offset of one of them, the table
        was dropped, or its route is new: then only if new tables begin ``now``.  Raises ``Unanswered``.
        """
        if self.config.mirror.added_tables == "now":
            return True
        with closing(self.names.offsets()) as group:
            return all(at is None for at in group.committed(self.kafka.partitions(sorted(topics))).values())

    def adapt(self, altered: AlteredError) -> bool:
        """Change the tables as tasks reported it.  Whether they reported any column.  Raises ChsinkError."""
        wanted = wanted_by(altered)
        with in_words(self.names):
            for name, columns in wanted.items():
                grow(self.targets[name].table, columns, self.config.tables.max_columns)
        return bool(wanted)

    def readable(self, new: Mapping[str, Definition]) -> dict[str, list[tuple[str, TableColumns, Choice | None]]]:
        """By topic, its tables that can be written, how records become rows, and which do.  ``new`` ones do not exist
        yet.  Raises ChsinkError.
        """
        found: dict[str, list[tuple[str, TableColumns, Choice | None]]] = {
            topic: [] for topic in self.config.mirror.topics
        }
        for route in self.config.mirror.routes:
            with in_words(self.names):
                table = self.targets[route.table].table.load()
            known = new.get(route.table) if table is None else table
            metadata = None if known is None else known.metadata
            if metadata is not None and not _unwritable(metadata):
                value, keys = self.config.mirror_format_of(route), self.config.mirror_keys_of(route)
                names = record_names(metadata, value)
                columns = TableColumns(metadata.schema(), value, keys, metadata.spec(), names)
                found[route.topic].append((route.table, columns, self.config.mirror_choice_of(route)))
        return found

    def _read(self, work: TableWork, route: MirrorRoute) -> TableWork:
        columns, choice = self.columns_of(route, work.metadata), self.config.mirror_choice_of(route)
        return replace(work, columns=columns, grows=self.config.mirror.evolves(route), choice=choice)

    def columns_of(self, route: MirrorRoute, metadata: TableMetadata) -> TableColumns:
        """How records of the route become rows of its table.  Raises PreflightError if its options do not fit that."""
        value, keys = self.config.mirror_format_of(route), self.config.mirror_keys_of(route)
        columns = TableColumns(metadata.schema(), value, keys, metadata.spec(), record_names(metadata, value))
        check_filled(route.table, columns.filled, value, keys)
        named = value.named.union(() if keys is None else (*keys.columns, *keys.format.named))
        if wrong := clashes(columns.schema, columns.names, named):
            raise preflight.MIRROR_TABLE_NAMES(table=route.table, names=f"options name {', '.join(wrong)}")
        return columns

    def _work(self, name: str) -> TableWork:
        target = self.targets[name]
        with in_words(self.names):
            table = target.table.load()
        if table is None:
            raise halts.MIRROR_TABLE_GONE(tables=name)
        return TableWork(target.reference, table.metadata, table.io, TableColumns(table.schema(), spec=table.spec()))


def with_tables(feeds: Feeds, now: Mapping[str, tuple[TableWork, ...]]) -> Feeds:
    """The feeds with these tables, but for those that cannot be written or are other ones: they stay as they were."""
    new = {(topic, work.table): work for topic, works in now.items() for work in works}
    tables = {
        topic: tuple(_usable(work, new.get((topic, work.table))) for work in works)
        for topic, works in feeds.tables.items()
    }
    return replace(feeds, tables=tables)


def _unwritable(metadata: TableMetadata) -> tuple[str, ...]:
    """What keeps the mirror from writing the table's rows, by column and partition field."""
    schema = metadata.schema()
    return (*unsupported(schema), *unusable(metadata.spec(), schema), *faults(metadata))


def _usable(before: TableWork, now: TableWork | None) -> TableWork:
    """The table as it is now, if that is known and the mirror can write it."""
    if now is None or now.metadata.table_uuid != before.metadata.table_uuid:
        return before
    if wrong := _unwritable(now.metadata):
        _log.warning("writing records for table %s as last read: %s", now.table, "; ".join(wrong))
        return before
    return now


def open_mirror(config: Config, kafka: KafkaTopics) -> OpenMirror:
    """The mirror of a configuration, with a route for each topic that matches a pattern now.  Connects to the catalog.

    Raises PreflightError, UnavailableError and InvalidConfigError.
    """
    config = config.with_mirrored(kafka.topics)
    mirror = config.mirror
    mirror.check_catalog_file(exists=not any(map(mirror.creates, mirror.tables)))
    properties = mirror.catalog_properties()
    name = properties.pop("name")
    try:
        catalog = open_catalog(name, properties)
    except Exception as error:  # any exception of the catalog's client
        if type(error) in REFUSED:
            raise preflight.MIRROR_NO_CATALOG(catalog=name, reason=said(error)) from error
        raise services.MIRROR_CATALOG_UNAVAILABLE(reason=f"{name}: {said(error)}") from error
    names = names_of(config)
    keys = PropertyKeys(names.group, names.topic, mirror.branch)
    sharing = _sharing(config)  # tables that records name change nothing of it
    if lists := {route.table for route in mirror.naming}:
        with in_words(names):
            named = {table: named_in(MirrorTable(catalog, table, keys)) for table in sorted(lists)}
        config = config.with_named(named)
        mirror = config.mirror
    targets = {
        table: Target(
            MirrorTable(catalog, table, keys),
            _reference(name, table),
            frozenset(route.topic for route in mirror.routes if route.table == table),
            {r.topic: sharing[r.topic] for r in mirror.routes if r.table == table and r.choice is not None},
        )
        for table in mirror.tables
    }
    pace = CommitPace(int(mirror.interval_s * 1000), int(mirror.timeout_s * 1000), mirror.max_buffered_files)
    threads = 1 if properties.get("type") in ONE_AT_A_TIME else THREADS
    return OpenMirror(config, kafka, names, pace, catalog, targets, threads)


def named_in(table: MirrorTable) -> list[str]:
    """The tables that records named, as this table lists them.  Raises ``CatalogFailed``."""
    found = table.load()
    return [] if found is None else [*table.keys.names(found.metadata.properties)]


def _sharing(config: Config) -> dict[str, Sharing]:
    """By topic: how tables share it, if they do."""
    choices: dict[str, dict[str, Choice]] = {}
    for route in config.mirror.routes:
        if (choice := config.mirror_choice_of(route)) is not None:
            choices.setdefault(route.topic, {})[route.table] = choice
    return {topic: sharing_of(each) for topic, each in choices.items()}


def names_of(config: Config) -> Names:
    """The sink's names on Kafka."""
    kafka, group = config.kafka, f"chsink-{config.sink.name}"
    options = {"log_level": "0", **kafka.client_options()}  # librdkafka would print every retry
    return Names(options, config.mirror.control_topic, group, kafka.timeout_s)


def _reference(catalog: str, table: str) -> TableReference:
    *namespace, name = table.split(".")
    return TableReference(catalog, tuple(namespace), name)
