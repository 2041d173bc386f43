"""The section of the Iceberg mirror."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from chsink.config.options import CatalogProperties
from chsink.config.routes import Routing, TableBy, TopicsSection, ValuePattern
from chsink.config.sections import Interval
from chsink.errors import job_file, preflight
from chsink.fields import AsTuple, Section, Text, Topic, reveal
from chsink.formats.settings import AnyFormat, FormatSettings, KeyColumns
from chsink.formats.table_by import MOST_NAMED, Choice
from chsink.notation.iceberg_terms import parse_sort_term, parse_term
from chsink.notation.iceberg_types import parse_iceberg_type
from chsink.notation.metadata_columns import is_column_name
from chsink.notation.table_template import VALUE, filled_iceberg, filled_part, is_iceberg, value_pattern_of


def _check_term(text: str) -> str:
    try:
        parse_term(text)
    except ValueError as error:
        raise job_file.NOT_AN_ICEBERG_TERM(value=repr(text), reason=error) from error
    return text


def _check_column(name: str) -> str:
    if not is_column_name(name):
        raise job_file.NOT_AN_ICEBERG_TYPE(value=repr(name), reason="no column that chsink makes has this name")
    return name


def _check_type(text: str) -> str:
    try:
        parse_iceberg_type(text)
    except ValueError as error:
        raise job_file.NOT_AN_ICEBERG_TYPE(value=repr(text), reason=error) from error
    return text


def _check_sort_term(text: str) -> str:
    try:
        parse_sort_term(text)
    except ValueError as error:
        raise job_file.NOT_AN_ICEBERG_TERM(value=repr(text), reason=error) from error
    return text


def _separate(value: object) -> object:
    """A list, or one string with commas outside of parentheses, for environment variables."""
    if isinstance(value, str):
        return tuple(part.strip() for part in _COMMAS.split(value))
    return tuple(value) if isinstance(value, list) else value


_COMMAS = re.compile(r",(?![^()]*\))")
AsTerms = BeforeValidator(_separate)


class NewTable(Section):
    """How a new Iceberg table looks: `{ partition = ["day(at)", "bucket(16, id)"] }`."""

    inline: ClassVar[bool] = True

    columns: Literal["records", "clickhouse"] = "records"
    """Where the columns come from: the records of the topics, or [the ClickHouse
    table](mirror.md#columns-of-the-clickhouse-table) in which the topics land, too."""
    types: dict[Annotated[str, AfterValidator(_check_column)], Annotated[str, AfterValidator(_check_type)]] = Field(
        default_factory=dict
    )
    """Types of columns, instead of those that would be found: `{ attributes = "map<string, double>" }`. A column that
    would not be found is added."""
    partition: Annotated[tuple[Annotated[str, AfterValidator(_check_term)], ...], AsTerms] = ()
    """Partition spec: columns, or transforms of them: `year(column)`, `month(column)`, `day(column)`, `hour(column)`,
    `bucket(N, column)`, `truncate(N, column)`."""
    sort: Annotated[tuple[Annotated[str, AfterValidator(_check_sort_term)], ...], AsTerms] = ()
    """Sort order: columns or such transforms, each optionally followed by `asc` or `desc`, then `nulls first` or
    `nulls last`."""
    identifier: Annotated[tuple[Text, ...], AsTuple] = ()
    """Identifier fields: columns that identify a row. They become required."""
    properties: dict[Text, str] = Field(default_factory=dict)
    """Properties of the table."""
    format_version: int = Field(default=2, ge=2, le=2)
    """Iceberg's format version. The mirror writes only version 2."""


def _check_template(text: str) -> str:
    if not is_iceberg(text):
        raise job_file.NOT_AN_ICEBERG_TABLE(value=repr(text))
    return text


def _check_others(text: str) -> str:
    if text.count(VALUE) != 1:
        raise job_file.TABLE_BY_NO_VALUE(value=repr(text))
    return text


IcebergTemplate = Annotated[str, AfterValidator(_check_template)]


class IcebergTableBy(TableBy):
    """Each record names its Iceberg table, by the keys of ClickHouse's `table_by` and two more."""

    tables: dict[Text, IcebergTemplate] = Field(default_factory=dict)
    patterns: dict[ValuePattern, IcebergTemplate] = Field(default_factory=dict)
    others: Annotated[IcebergTemplate, AfterValidator(_check_others)] | None = None
    """The table that any [other value names](mirror.md#tables-that-records-name): `"shop.{value}"`, where `{value}` is
    the value in lower case. The mirror creates it when the first record names it."""
    max_tables: int = Field(default=100, gt=0, le=MOST_NAMED)
    """How many tables records may name by `others`. A record that names one more halts the mirror (CHS-360)."""


class MirrorRouteSection(TopicsSection):
    """Topics and the Iceberg table their records land in, with the keys of [`[[route]]`](routing.md). Set exactly one
    of `topic`, `topics` and `topic_pattern`, and one of `table` and `table_by`. Several topics can share a table, and a
    topic can have several routes.
    """

    table: IcebergTemplate | None = None
    """`"namespace.table"`. `{topic}` stands for the topic's name, `{name}` for a named group of `topic_pattern`; a dot
    in them separates, too."""
    table_by: IcebergTableBy | None = None
    """[Several tables](routing.md#the-table-that-a-record-names); each record names one of them:
    `{ field = "$.type", tables = { order = "shop.orders", refund = "shop.refunds" } }`. A `column` must be `"key"`."""
    format: AnyFormat | None = None
    """[Format](formats.md) of the record's value, as in `[[route]]`. Default: that of the topic's `[[route]]`, with its
    `key_format` and `key_columns`; otherwise `"json"`."""
    key_format: AnyFormat | None = None
    """Format of the record's key, like `format`. The key then fills `key_columns`."""
    key_columns: Annotated[tuple[Text, ...], AsTuple] = ()
    """Columns that the record's key fills; the value fills all others."""
    auto_create: bool | None = None
    """Whether to create a missing table, instead of `mirror.auto_create`."""
    create: NewTable | None = None
    """How a new table looks, instead of `mirror.create`."""
    evolution: Literal["off", "add_columns"] | None = None
    """What to do with fields that need a column, instead of `mirror.evolution`."""

    @property
    def templates(self) -> dict[str, str]:
        """See :class:`TopicsSection`; the record's value is no placeholder of a topic."""
        others = self.table_by and self.table_by.others
        return super().templates | ({"table_by.others": others.replace(VALUE, "value")} if others else {})

    def routes(self, topic: str, at: str, named: Collection[str] = ()) -> list[MirrorRoute]:
        """The section's routes for a topic, one for each table; ``named`` are tables that records named by ``others``.
        Raises ValueError if a name cannot be made.
        """
        values = self.values(topic)
        template = (self.table_by and self.table_by.others) or ""
        others = VALUE.join(filled_part(part, values) for part in template.split(VALUE))
        patterns = {value_pattern_of(others, table): table for table in sorted(named)} if others else {}
        more = {pattern: table for pattern, table in patterns.items() if pattern is not None}
        return [
            MirrorRoute(topic, table, self, choice, at)
            for table, choice in self.chosen(lambda text: filled_iceberg(text, values), others=others, more=more)
        ]


@dataclass(frozen=True)
class MirrorRoute:
    """One topic and one Iceberg table that its records land in: all records, or those of ``choice``.  ``at`` is the
    section in the job file.
    """

    topic: str
    table: str
    section: MirrorRouteSection
    choice: Choice | None
    at: str

    @property
    def format(self) -> FormatSettings | None:
        """The section's own format."""
        return self.section.format

    @property
    def keys(self) -> KeyColumns | None:
        """How the record's keys are read; None if they are not."""
        return KeyColumns.of(self.section.key_format, self.section.key_columns)


class Mirror(Section):
    """The [Iceberg mirror](mirror.md): the same records in Iceberg tables, each exactly once. It follows `[errors]
    on_bad_value` and `on_tombstone`. Its consumer group is `chsink-` and the sink's name.
    """

    enabled: bool = False
    """Whether `chsink run` runs the mirror, too. If false, the section is checked and not used."""
    catalog: CatalogProperties = Field(default_factory=dict)
    """The [Iceberg catalog](mirror.md#catalogs-and-storage): `name` and pyiceberg's properties, such as `type`, `uri`
    and `warehouse`. A value is a string, a number, a boolean, `{ env = "NAME" }` or `{ file = "path" }`."""
    branch: Text = "main"
    """Branch of the tables to which the mirror commits. Readers see a branch other than `main` once
    [`chsink mirror publish`](mirror.md#audit-before-readers-see-it) has moved `main` to it."""
    control_topic: Topic = "chsink-mirror"
    """Topic on which workers report files to the coordinator. Sinks may share it."""
    checkpoint: Text | None = None
    """Directory or URI of the mirror's own Spark checkpoint. Default: `sink.checkpoint` followed by `-mirror`."""
    interval_s: float = Field(default=300, gt=0, le=86_400)
    """Time between commits, in seconds. Each commit makes at most one snapshot per table."""
    trigger_interval: Interval | None = None
    """Minimum time between the mirror's batch starts, with `trigger.mode = "processing_time"`. Each batch writes
    [files of its own](mirror.md#how-many-files): longer means fewer and larger ones. If it is longer than
    `trigger.interval`, `kafka.max_offsets_per_trigger` is raised for the mirror by as much. Default:
    `trigger.interval`."""
    timeout_s: float = Field(default=30, gt=0, le=3600)
    """How long a commit waits for files that were reported and not read yet, in seconds. It then takes what is there;
    the rest joins the next commit."""
    coordinator: Literal["driver", "apart"] = "driver"
    """Who commits. `driver`: the driver itself. `apart`:
    [`chsink mirror coordinator`](mirror.md#a-coordinator-of-its-own), a process of its own."""
    max_buffered_files: int = Field(default=10_000, gt=0)
    """How many files may wait for a commit. If there are more, the mirror commits before the interval is over."""
    auto_create: bool = False
    """Whether to [create a missing table](mirror.md#tables-that-the-mirror-creates) from the records of its topics."""
    create: NewTable | None = None
    """How a new table looks. Default: columns from the records, and otherwise Iceberg's defaults."""
    added_tables: Literal["halt", "now"] = "halt"
    """Where a table begins that is new for topics that the mirror has read. `halt`: a person
    [decides](mirror.md#tables-that-are-added-later) (CHS-342). `now`: with the next records, if another
    table says how far the topic was read."""
    evolution: Literal["off", "add_columns"] = "off"
    """What to do with a field that has no column or does not fit its column. `off` ignores a field without a column; a
    field that does not fit is a bad value. `add_columns` first
    [adds or widens the column](mirror.md#tables-that-change-themselves)."""
    route_sections: Annotated[tuple[MirrorRouteSection, ...], AsTuple] = Field(default=(), alias="route")
    """Topics and their tables, written as `[[mirror.route]]`."""

    _routes: tuple[MirrorRoute, ...] | None = PrivateAttr(default=None)
    _named: tuple[MirrorRoute, ...] | None = PrivateAttr(default=None)

    def with_routes(self, routes: Collection[MirrorRoute]) -> Self:
        """The section with these routes."""
        mirror = self.model_copy()
        mirror._routes = tuple(routes)
        return mirror

    def routing(self, written_to: Collection[str] = ()) -> Routing[MirrorRoute]:
        """Which routes a topic has.  No pattern matches the topics ``written_to``, nor the control topic."""
        return Routing(self.route_sections, frozenset({self.control_topic, *written_to}), "mirror.route")

    @property
    def matches_topics(self) -> bool:
        """Whether Kafka has to say which topics there are."""
        return any(section.topic_pattern is not None for section in self.route_sections)

    def unknown(self, tables: Iterable[str]) -> list[str]:
        """Those of the tables to which no route leads; none before Kafka was asked for matching topics, and the catalog
        for tables that records named.
        """
        asks = (self.matches_topics or self.names_tables) and self._routes is None
        return [] if asks else sorted(set(tables).difference(self.tables))

    @property
    def names_tables(self) -> bool:
        """Whether records name tables that no section does."""
        return any(section.table_by is not None and section.table_by.others for section in self.route_sections)

    @property
    def naming(self) -> tuple[MirrorRoute, ...]:
        """The routes whose records may name new tables.  The table of each has the list of those that they named."""
        return tuple(route for route in self.routes if route.choice is not None and route.choice.others)

    def with_named(self, named: Mapping[str, Collection[str]]) -> Self:
        """The section with the tables that records named; ``named`` has them by the table that has their list."""
        lists = {(route.topic, route.at): named.get(route.table, ()) for route in self.naming}
        sections = {(route.topic, route.at): route.section for route in self.routes}
        return self.with_routes([
            route
            for (topic, at), section in sections.items()
            for route in section.routes(topic, at, lists.get((topic, at), ()))
        ])  # fmt: skip

    @property
    def routes(self) -> tuple[MirrorRoute, ...]:
        """The routes, one for each topic and table; before Kafka was asked for its topics, those of named topics."""
        if self._named is None:
            self._named = tuple(self.routing().routes()[0])
        return self._named if self._routes is None else self._routes

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the routes, each once."""
        return tuple(dict.fromkeys(route.topic for route in self.routes))

    @property
    def matched_topics(self) -> tuple[str, ...]:
        """The :attr:`topics` that no section names: a pattern matched them."""
        named = set(self.routing().named)
        return tuple(topic for topic in self.topics if topic not in named)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of the routes, each once."""
        return tuple(dict.fromkeys(route.table for route in self.routes))

    def creates(self, table: str) -> bool:
        """Whether the table is created if it is missing."""
        asked = (route.section.auto_create for route in self.routes_to(table))
        return any(self.auto_create if own is None else own for own in asked)

    def evolves(self, route: MirrorRoute) -> bool:
        """Whether the route's table gets the columns that its records need."""
        return (route.section.evolution or self.evolution) == "add_columns"

    def new_table(self, table: str) -> NewTable:
        """How the table looks if it is created."""
        own = (r.section.create for r in self.routes_to(table) if r.section.create is not None)
        return next(own, self.create or NewTable())

    def routes_to(self, table: str) -> tuple[MirrorRoute, ...]:
        """The routes of the table."""
        return tuple(route for route in self.routes if route.table == table)

    def check_catalog_file(self, *, exists: bool) -> None:
        """Raise CHS-265 if the catalog is a SQLite file in a folder that does not exist, or is missing where it has
        to exist: opening it would create an empty one.
        """
        uri = self.catalog_properties().get("uri", "")
        scheme, _, path = uri.partition(":///")
        if scheme.partition("+")[0] == "sqlite" and path and not path.startswith((":", "file:")):
            file = Path(path.partition("?")[0])
            if not (file if exists else file.parent).exists():
                raise preflight.MIRROR_NO_CATALOG_FILE(file=file)

    def catalog_properties(self) -> dict[str, str]:
        """``name`` and pyiceberg's properties, with credentials in the clear."""
        return {name: reveal(value) for name, value in self.catalog.items()}
