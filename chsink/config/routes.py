"""Routes: the sections of the job file, and the routes that follow from them for the topics that Kafka has.

ClickHouse's ``[[route]]`` and the mirror's ``[[mirror.route]]`` share this grammar.

Rules:
- A section names one or several topics, or has a pattern.  A route is one topic and one table.
- A section that names a topic takes precedence over patterns.  Several sections may name a topic, to land it in several
  tables.
- If several sections' patterns match a topic, the patterns must be equal, which shows that this is intended.
- A pattern matches neither Kafka's internal topics nor the topics that chsink itself writes to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar

from pydantic import AfterValidator, Field

from chsink.config.problems import Problem, problem
from chsink.config.topic_pattern import INTERNAL, java_pattern, parse_pattern, value_pattern
from chsink.errors import job_file
from chsink.fields import AsTuple, Section, Text, Topic
from chsink.formats.settings import JSON, AnyFormat, FormatSettings, JsonPath, KeyColumns
from chsink.formats.table_by import Choice, NameSource
from chsink.notation.sql import TableName, parse_table
from chsink.notation.table_template import parse_template, placeholders

TOPIC = "topic"
"""The placeholder of the topic's name."""
Name = TypeVar("Name")
NO_TABLES: Final[Mapping[str, Any]] = MappingProxyType({})


def _check_template(text: str) -> str:
    try:
        parse_template(text)
    except ValueError as error:
        raise job_file.NOT_A_TABLE(value=repr(text)) from error
    return text


def _check_pattern(text: str) -> str:
    try:
        parse_pattern(text)
    except (ValueError, re.error) as error:
        raise job_file.NOT_A_TOPIC_PATTERN(value=repr(text), reason=error) from error
    return text


def _check_value_pattern(text: str) -> str:
    try:
        value_pattern(text)
    except (ValueError, re.error) as error:
        raise job_file.NOT_A_VALUE_PATTERN(value=repr(text), reason=error) from error
    return text


ValuePattern = Annotated[Text, AfterValidator(_check_value_pattern)]
Template = Annotated[str, AfterValidator(_check_template)]


class TableBy(Section):
    """Each record names its table. Set exactly one of `field`, `header` and `column`."""

    inline: ClassVar[bool] = True

    field: JsonPath | None = None
    """Path of the field that names the table in a JSON record: `"$.type"`. For the formats `json`, `debezium` and
    `json_schema`."""
    header: Text | None = None
    """Name of the Kafka header that names the table; if a record has several, the last one. For every format."""
    column: Text | None = None
    """Column that names the table, in a stream that your program transforms; or `"key"`, for the record's key."""
    tables: dict[Text, Template] = Field(default_factory=dict)
    """The table for each value: `{ order = "orders", refund = "refunds" }`. Several values can have the same table."""
    patterns: dict[ValuePattern, Template] = Field(default_factory=dict)
    """The table for each [pattern](routing.md#patterns) of values that `tables` does not name:
    `{ 'eu-.*' = "orders_eu" }`. A value that matches several patterns lands in the table of each."""
    unknown: Literal["bad", "ignore"] = "bad"
    """What to do with a record that has another value, or none: treat it as a bad value (`errors.on_bad_value`), once
    and not once per table; or leave it out without counting it. A record whose `field` cannot be read is always bad."""

    @property
    def sources(self) -> dict[NameSource, str]:
        """Those of ``field``, ``header`` and ``column`` that are set, with their values.  Only one may be set."""
        given: dict[NameSource, str | None] = {"field": self.field, "header": self.header, "column": self.column}
        return {source: name for source, name in given.items() if name is not None}

    def choices(
        self, filled: Callable[[str], Name], header: int = 0, others: str = "", more: Mapping[str, Name] = NO_TABLES
    ) -> Iterator[tuple[Name, Choice]]:
        """Each table, by its template as it is ``filled``, and the choice of its records.  The first table reports the
        records of no table.  ``others`` names tables that records name, ``more`` has those that exist, by the pattern
        of their values.
        """
        by_table: dict[Name, tuple[list[str], list[str]]] = {}
        for value, template in self.tables.items():
            by_table.setdefault(filled(template), ([], []))[0].append(value)
        for text, template in self.patterns.items():
            by_table.setdefault(filled(template), ([], []))[1].append(value_pattern(text))
        for text, table in more.items():
            by_table.setdefault(table, ([], []))[1].append(text)
        [(source, name), *_] = self.sources.items()
        named, every = tuple(self.tables), (*map(value_pattern, self.patterns), *more)
        for at, (table, (values, patterns)) in enumerate(by_table.items()):
            names = others if at == 0 else ""
            known = (named, every) if at == 0 else (None, ())
            apart, ignores = named if patterns else (), at == 0 and self.unknown == "ignore"
            taken = (tuple(values), known[0], header, tuple(patterns), apart, known[1])
            yield table, Choice(source, name, *taken, names, ignores)


class TopicsSection(Section):
    """Topics, and what names the tables of their records: the keys that every kind of route has."""

    topic: Topic | None = None
    """Kafka topic."""
    topics: Annotated[tuple[Topic, ...], AsTuple] = ()
    """Several Kafka topics."""
    topic_pattern: Annotated[Text, AfterValidator(_check_pattern)] | None = None
    """[Pattern](routing.md#patterns): a regular expression that matches the whole name of each topic of the route."""
    table: str | None = None
    table_by: TableBy | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that the section names."""
        return self.topics if self.topic is None else (self.topic, *self.topics)

    @property
    def templates(self) -> dict[str, str]:
        """The templates of table names, by the key that holds each."""
        one = {} if self.table is None else {"table": self.table}
        by = self.table_by
        if by is None:
            return one
        named = {f"table_by.tables.{value}": template for value, template in by.tables.items()}
        return one | named | {f"table_by.patterns.{text}": template for text, template in by.patterns.items()}

    @property
    def unknown_placeholders(self) -> dict[str, str]:
        """Placeholders without a value, and the key whose template has each."""
        known = {TOPIC} if self.topic_pattern is None else {TOPIC, *parse_pattern(self.topic_pattern).groupindex}
        found = ((name, key) for key, text in self.templates.items() for name in placeholders(text))
        return {name: key for name, key in found if name not in known}

    def matches(self, topic: str) -> bool:
        """Whether the section's pattern matches the topic."""
        return self.topic_pattern is not None and _compiled(self.topic_pattern).fullmatch(topic) is not None

    def values(self, topic: str) -> dict[str, str]:
        """The placeholders' values for a topic."""
        values = {TOPIC: topic}
        if self.topic_pattern is not None and (match := _compiled(self.topic_pattern).fullmatch(topic)):
            values |= {name: value or "" for name, value in match.groupdict().items()}
        return values

    def chosen(
        self, filled: Callable[[str], Name], header: int = 0, others: str = "", more: Mapping[str, Name] = NO_TABLES
    ) -> list[tuple[Name, Choice | None]]:
        """The section's tables, by their templates as they are ``filled``, and which records each takes (None: all);
        for the rest, see :meth:`TableBy.choices`.
        """
        found: list[tuple[Name, Choice | None]] = []
        if self.table is not None:
            found.append((filled(self.table), None))
        if self.table_by is not None and self.table_by.sources:
            found += self.table_by.choices(filled, header, others, more)
        return found


class RouteSection(TopicsSection):
    """Topics and the table their records land in. Set exactly one of `topic`, `topics` and `topic_pattern`, and one of
    `table` and `table_by`. Several topics can share a table, and a topic can have several routes, to several tables.
    See [Routing](routing.md).
    """

    table: Template | None = None
    """`"table"` or `"database.table"`, with backticks around a name that has other characters. `{topic}` stands for
    the topic's name, `{name}` for a named group of `topic_pattern`."""
    table_by: TableBy | None = None
    """[Several tables](routing.md#the-table-that-a-record-names); each record names one of them:
    `{ field = "$.type", tables = { order = "orders", refund = "refunds" } }`."""
    shard_key: Annotated[tuple[Text, ...], AsTuple] | None = None
    """Columns that choose the shard, instead of `clickhouse.shard_key`."""
    format: AnyFormat = JSON
    """[Format](formats.md) of the record's value: its name, or a table `{ type = "…", … }` with its options. Not used
    if your transform makes the table's columns."""
    key_format: AnyFormat | None = None
    """Format of the record's key, like `format`. The key then fills `key_columns`."""
    key_columns: Annotated[tuple[Text, ...], AsTuple] = ()
    """Columns that the record's key fills; the value fills all others."""

    auto_create: bool | None = None
    """Whether to create a missing table, instead of `schema.auto_create`."""
    evolution: Literal["off", "add_columns"] | None = None
    """What to do with a field that has no column, instead of `schema.evolution`."""
    order_by: Annotated[tuple[Text, ...], AsTuple] | None = None
    """Sorting key of a new table, instead of `schema.order_by`."""
    partition_by: Text | None = None
    """Partition key of a new table, instead of `schema.partition_by`."""

    def routes(self, topic: str, at: str) -> list[Route]:
        """The section's routes for a topic, one for each table.  Raises ValueError if a table's name would be empty."""
        values = self.values(topic)
        chosen = self.chosen(lambda text: parse_template(text).filled(values), self.format.before_json or 0)
        own = OwnRules(self.auto_create, self.evolution, self.order_by, self.partition_by)
        return [
            Route(
                topic, table.canonical, self.shard_key, self.format, self.key_format, self.key_columns, choice, at, own
            )
            for table, choice in chosen
        ]


@dataclass(frozen=True, slots=True)
class OwnRules:
    """A route's own settings that override those of ``[schema]``; None if the route does not set one."""

    auto_create: bool | None = None
    evolution: Literal["off", "add_columns"] | None = None
    order_by: tuple[str, ...] | None = None
    partition_by: str | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """One topic and the table its records land in: all records, or those of ``choice``.  ``at`` is the section in the
    job file, such as ``route[0]``.
    """

    topic: str
    table: str
    shard_key: tuple[str, ...] | None = None
    format: FormatSettings = JSON
    key_format: FormatSettings | None = None
    key_columns: tuple[str, ...] = ()
    choice: Choice | None = None
    at: str = "route"
    own: OwnRules = OwnRules()

    @property
    def keys(self) -> KeyColumns | None:
        """How the record's keys are read; None if they are not."""
        return KeyColumns.of(self.key_format, self.key_columns)

    @property
    def table_name(self) -> TableName:
        """The table by its unquoted names; without a database if the job file names none."""
        return parse_table(self.table)


RouteT_co = TypeVar("RouteT_co", covariant=True)


class Routes(Protocol[RouteT_co]):
    """A section, as :class:`Routing` needs it."""

    @property
    def named(self) -> tuple[str, ...]:
        """See :class:`TopicsSection`."""

    @property
    def topic_pattern(self) -> str | None:
        """See :class:`TopicsSection`."""

    def matches(self, topic: str) -> bool:
        """See :class:`TopicsSection`."""

    def routes(self, topic: str, at: str) -> Sequence[RouteT_co]:
        """See :class:`RouteSection`."""


@dataclass(frozen=True, slots=True)
class Routing(Generic[RouteT_co]):
    """The routes of a job file.  ``written_to`` are topics that chsink writes to: no pattern matches them.  ``key`` is
    that of the sections.
    """

    sections: Sequence[Routes[RouteT_co]]
    written_to: frozenset[str]
    key: str = "route"

    def of(self, topic: str) -> list[RouteT_co]:
        """The routes of a topic: none, one, or one for each table.  Raises ValueError as ``RouteSection.routes``."""
        return [route for at, section in self._sections_of(topic) for route in section.routes(topic, at)]

    def covers(self, topic: str) -> bool:
        """Whether the topic has a route."""
        return bool(self._sections_of(topic))

    def routes(self, topics: Collection[str] = ()) -> tuple[list[RouteT_co], list[Problem]]:
        """The routes of the named topics, then of ``topics`` that a pattern matches (sorted); and their problems."""
        named = self.named
        routes: list[RouteT_co] = []
        problems: list[Problem] = []
        for topic in (*named, *sorted({*topics} - {*named})):
            try:
                found = self.of(topic)
            except KeyError:  # an unknown placeholder: `routes_are_whole` reports it
                continue
            except ValueError as error:
                problems.append(problem(self.key, job_file.NO_TABLE_NAME(topic=repr(topic), reason=error)))
                continue
            matching = {section.topic_pattern: at for at, section in reversed(self._sections_of(topic))}
            if len(matching) > 1 and topic not in named:
                places = " and ".join(sorted(matching.values()))
                problems.append(
                    problem(self.key, job_file.TWO_PATTERNS(topic=repr(topic), routes=places, section=self.key))
                )
            routes += found
        return routes, problems

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that sections name, each once."""
        return tuple(dict.fromkeys(topic for section in self.sections for topic in section.named))

    @property
    def java_pattern(self) -> str | None:
        """The pattern that Spark's source subscribes to; None if the job file names every topic."""
        patterns = [section.topic_pattern for section in self.sections if section.topic_pattern is not None]
        return java_pattern(patterns, self.written_to, self.named) if patterns else None

    def _sections_of(self, topic: str) -> list[tuple[str, Routes[RouteT_co]]]:
        placed = [(f"{self.key}[{index}]", section) for index, section in enumerate(self.sections)]
        named = [(at, section) for at, section in placed if topic in section.named]
        if named or topic.startswith(INTERNAL) or topic in self.written_to:
            return named
        return [(at, section) for at, section in placed if section.matches(topic)]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return parse_pattern(pattern)
