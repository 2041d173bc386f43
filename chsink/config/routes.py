"""Routes: as the job file has them, and as they are for the topics that Kafka has.

Rules:
- A :class:`RouteSection` names its topics, one or several, or by a pattern.  A :class:`Route` is of one topic.
- A route that names a topic is its route, whatever patterns match.  Otherwise exactly one pattern may match it.
- A pattern matches neither Kafka's internal topics nor those that chsink itself writes to.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from pydantic import AfterValidator

from chsink.config.problems import Problem, problem
from chsink.config.topic_pattern import INTERNAL, java_pattern, parse_pattern
from chsink.errors import job_file
from chsink.fields import AsTuple, Section, Text, Topic
from chsink.formats.settings import JSON, AnyFormat, FormatSettings, Keys
from chsink.notation.sql import TableName, parse_table
from chsink.notation.table_template import parse_template

TOPIC = "topic"
"""The placeholder of the topic's name."""


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


class RouteSection(Section):
    """Topics and the table their records land in. Set exactly one of `topic`, `topics` and `topic_pattern`. Several
    topics can share a table; a topic has exactly one route. See [Routing](routing.md).
    """

    topic: Topic | None = None
    """Kafka topic."""
    topics: Annotated[tuple[Topic, ...], AsTuple] = ()
    """Several Kafka topics."""
    topic_pattern: Annotated[Text, AfterValidator(_check_pattern)] | None = None
    """[Pattern](routing.md#patterns): a regular expression that matches the whole name of each topic of the route."""
    table: Annotated[str, AfterValidator(_check_template)]
    """`"table"` or `"database.table"`, with backticks around a name that has other characters. `{topic}` stands for
    the topic's name, `{name}` for a named group of `topic_pattern`."""
    shard_key: Annotated[tuple[Text, ...], AsTuple] | None = None
    """Columns that choose the shard, instead of `clickhouse.shard_key`."""
    format: AnyFormat = JSON
    """[Format](formats.md) of the record's value: its name, or a table `{ type = "…", … }` with its options. Not used
    if your transform makes the table's columns."""
    key_format: AnyFormat | None = None
    """Format of the record's key, like `format`. The key then fills `key_columns`."""
    key_columns: Annotated[tuple[Text, ...], AsTuple] = ()
    """Columns that the record's key fills; the value fills all others."""

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that it names."""
        return self.topics if self.topic is None else (self.topic, *self.topics)

    @property
    def unknown_placeholders(self) -> list[str]:
        """Placeholders of the table that stand for nothing."""
        known = {TOPIC} if self.topic_pattern is None else {TOPIC, *parse_pattern(self.topic_pattern).groupindex}
        return [name for name in parse_template(self.table).placeholders if name not in known]

    def matches(self, topic: str) -> bool:
        """Whether its pattern matches the topic."""
        return self.topic_pattern is not None and _compiled(self.topic_pattern).fullmatch(topic) is not None

    def route(self, topic: str, at: str) -> Route:
        """The route of one of its topics.  ValueError where the table's name would be empty."""
        values = {TOPIC: topic}
        if self.topic_pattern is not None and (match := _compiled(self.topic_pattern).fullmatch(topic)):
            values |= {name: value or "" for name, value in match.groupdict().items()}
        table = parse_template(self.table).filled(values).canonical
        return Route(topic, table, self.shard_key, self.format, self.key_format, self.key_columns, at)


@dataclass(frozen=True, slots=True)
class Route:
    """One topic and the table its records land in.  ``at`` is where the job file says so, ``route[0]``."""

    topic: str
    table: str
    shard_key: tuple[str, ...] | None = None
    format: FormatSettings = JSON
    key_format: FormatSettings | None = None
    key_columns: tuple[str, ...] = ()
    at: str = "route"

    @property
    def keys(self) -> Keys | None:
        """How keys are read, if they are."""
        return Keys.of(self.key_format, self.key_columns)

    @property
    def table_name(self) -> TableName:
        """The table, by its bare names; without a database where the default is meant."""
        return parse_table(self.table)


@dataclass(frozen=True, slots=True)
class Routing:
    """The routes of a job file.  ``written_to`` are topics that chsink writes to: no pattern matches them."""

    sections: tuple[RouteSection, ...]
    written_to: frozenset[str]

    def of(self, topic: str) -> list[Route]:
        """The routes of a topic: one, none, or several, which is an error.  ValueError as of ``RouteSection.route``."""
        return [section.route(topic, at) for at, section in self._sections_of(topic)]

    def covers(self, topic: str) -> bool:
        """Whether the topic has a route."""
        return bool(self._sections_of(topic))

    def routes(self, topics: Collection[str] = ()) -> tuple[list[Route], list[Problem]]:
        """The routes of the topics that are named, then of those in ``topics`` that a pattern matches, by name; and
        what is wrong with the latter.
        """
        named = dict.fromkeys(topic for section in self.sections for topic in section.named)
        routes: list[Route] = []
        problems: list[Problem] = []
        for topic in (*named, *sorted({*topics} - named.keys())):
            try:
                found = self.of(topic)
            except KeyError:  # an unknown placeholder, which is reported as such
                continue
            except ValueError:
                problems.append(problem("route", job_file.NO_TABLE_NAME(topic=repr(topic))))
                continue
            if len(found) > 1 and topic not in named:
                places = " and ".join(route.at for route in found)
                problems.append(problem("route", job_file.TWO_PATTERNS(topic=repr(topic), routes=places)))
            routes += found[:1]
        return routes, problems

    @property
    def java_pattern(self) -> str | None:
        """What Spark's source subscribes to; None where every topic is named."""
        patterns = [section.topic_pattern for section in self.sections if section.topic_pattern is not None]
        if not patterns:
            return None
        return java_pattern(patterns, self.written_to, (topic for section in self.sections for topic in section.named))

    def _sections_of(self, topic: str) -> list[tuple[str, RouteSection]]:
        placed = [(f"route[{index}]", section) for index, section in enumerate(self.sections)]
        named = [(at, section) for at, section in placed if topic in section.named]
        if named or topic.startswith(INTERNAL) or topic in self.written_to:
            return named
        return [(at, section) for at, section in placed if section.matches(topic)]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return parse_pattern(pattern)
