"""Routes of several topics: lists, patterns, and tables named after topics."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import pytest

from chsink.config import Config, InvalidConfigError, Problem
from chsink.config.topic_pattern import java_pattern, parse_pattern
from chsink.formats.table_by import Choice

Build = Callable[..., Config]
Problems = Callable[..., dict[str, Problem]]

EVENTS = r"""[[route]]
topic_pattern = '(?<team>\w+)\.(?<entity>.+)'
table = "{team}.{entity}"
format = "string"
[[route]]
topics = ["shop.orders", "clicks"]
table = "raw.{topic:_}"
"""
BROKER = ("clicks", "air.flights-v1", "shop.orders", "shop.users", "other", "__consumer.offsets", "dead.letters")


def tables(config: Config) -> dict[str, str]:
    """Table by topic."""
    return {route.topic: config.table_of(route).canonical for route in config.routes}


def test_a_list_and_a_template_make_one_route_for_each_topic(build: Build) -> None:
    config = build(
        '[[route]]\ntopics = ["a", "b.c-d"]\ntable = "{topic}"\n[[route]]\ntopic = "e"\ntable = "`x-{topic}`"'
    )

    assert tables(config) == {"a": "default.a", "b.c-d": "default.`b.c-d`", "e": "default.`x-e`"}
    assert [route.at for route in config.routes] == ["route[0]", "route[0]", "route[1]"]
    assert config.topic_pattern is None
    assert config.expanded(["new"]) is config


def test_a_pattern_takes_the_topics_that_kafka_has(build: Build) -> None:
    written = build(EVENTS + '[dead_letters]\ntopic = "dead.letters"')
    config = written.expanded(BROKER)

    assert tables(config) == {
        "shop.orders": "raw.shop_orders",  # named: the pattern that matches it, too, has no say
        "clicks": "raw.clicks",
        "air.flights-v1": "air.`flights-v1`",
        "shop.users": "shop.users",
    }
    assert config.topics == ("shop.orders", "clicks", "air.flights-v1", "shop.users")
    assert config.routes[-1].format.type == "string"
    assert tables(written.expanded(())) == {"shop.orders": "raw.shop_orders", "clicks": "raw.clicks"}
    assert pickle.loads(pickle.dumps(config)).topics == config.topics


def test_routes_of_patterns_need_the_topics_of_kafka(build: Build) -> None:
    config = build(EVENTS)

    assert tables(config.expanded(["air.x", "none", "__consumer.offsets"]))["air.x"] == "air.x"
    with pytest.raises(AssertionError, match="expanded"):
        assert config.routes


def test_java_gets_the_same_patterns(build: Build) -> None:
    config = build(EVENTS + '[dead_letters]\ntopic = "dead.letters"')

    assert config.topic_pattern == (r"(?!__|chsink-mirror$|dead\.letters$)(?:(?:(?:\w+)\.(?:.+)))|shop\.orders|clicks")
    read = [topic for topic in BROKER if re.fullmatch(config.topic_pattern, topic)]
    assert sorted(read) == sorted(config.expanded(BROKER).topics)
    assert re.fullmatch(java_pattern(["a|b"], [], []), "b")


def test_two_patterns_that_match_one_topic_are_refused(build: Build) -> None:
    config = build("[[route]]\ntopic_pattern = 'a.*'\ntable = 't'\n[[route]]\ntopic_pattern = '.*b'\ntable = 'u'")

    assert tables(config.expanded(["ax", "xb"])) == {"ax": "default.t", "xb": "default.u"}
    with pytest.raises(
        InvalidConfigError, match=r"'ab' matches the topic_pattern of route\[0\] and route\[1\]"
    ) as caught:
        config.expanded(["ax", "ab"])
    assert "which has priority over patterns" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "topics", "words"),
    [
        (
            "[[route]]\ntopic_pattern = 'a(?<n>x?)'\ntable = '{n}'",
            ["a"],
            "named after topic 'a': a name cannot be empty",
        ),
        ("[[route]]\ntopic_pattern = '.*'\ntable = '{topic}'", ["chsink_state"], "state"),
        (
            "[dead_letters]\ntable = 'dead'\n[[route]]\ntopic_pattern = '.*'\ntable = '{topic}'",
            ["dead"],
            "dead letters",
        ),
    ],
)
def test_what_only_the_topics_show_is_refused_then(build: Build, changes: str, topics: list[str], words: str) -> None:
    config = build(changes)

    with pytest.raises(InvalidConfigError, match=words):
        config.expanded(topics)


@pytest.mark.parametrize(
    "pattern",
    [
        "events.*",
        r"events\..*",
        "(?P<a>x)(?<b>y)|z",
        "[a-z_.-]+",
        r"\w{2,3}?",
        "a(?!b).*",
        r"[^\d]*",
        "(?:a|b)?c",
        "^a$",
    ],
)
def test_what_python_and_java_read_alike_is_a_pattern(pattern: str) -> None:
    parse_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(", "[z-a]", "a**", "(?i)a", r"\p{Alpha}", r"(a)\1", "[a-z&&[^b]]", "[[a]b]", "x{,3}", "(?<=a)b", "events/*",
     "(?<topic>a)", r"\Qa\E", "(?(1)a|b)", "(?a)b", " a"],
)  # fmt: skip
def test_what_they_may_read_differently_is_refused(problems: Problems, pattern: str) -> None:
    found = problems(f"[[route]]\ntopic_pattern = '{pattern}'\ntable = 't'")

    assert found["route[0].topic_pattern"].id == "CHS-104"
    assert "regular expression" in found["route[0].topic_pattern"].hint


@pytest.mark.parametrize("table", ["{topic", "{}", "a.{topic}.b", "{a-b}", "1{topic}", "{topic:-}"])
def test_what_is_no_template_is_refused(problems: Problems, table: str) -> None:
    assert problems(f"[[route]]\ntopic = 'a'\ntable = '{table}'")["route[0].table"].id == "CHS-104"


def test_a_mirrored_topic_is_read_as_its_pattern_says(build: Build) -> None:
    config = build(EVENTS + "[[mirror.route]]\ntopic = 'air.x'\ntable = 's.t'")

    assert config.mirror_format_of(config.mirror.routes[0]).type == "string"


def test_a_topic_may_have_several_tables(build: Build) -> None:
    config = build(
        '[[route]]\ntopic = "a"\ntable = "t"\nformat = "raw"\n[[route]]\ntopics = ["b", "a"]\ntable = "{topic}_raw"\n'
        "[[route]]\ntopic_pattern = 'c.*'\ntable = 'one.{topic}'\n"
        "[[route]]\ntopic_pattern = 'c.*'\ntable = 'two.{topic}'"
    ).expanded(["c1"])

    assert [(route.topic, config.table_of(route).canonical, route.at) for route in config.routes] == [
        ("a", "default.t", "route[0]"),
        ("a", "default.a_raw", "route[1]"),
        ("b", "default.b_raw", "route[1]"),
        ("c1", "one.c1", "route[2]"),
        ("c1", "two.c1", "route[3]"),
    ]
    assert config.topics == ("a", "b", "c1")


BY_TYPE = '[[route]]\ntopic = "a"\ntable_by = { field = "$.type", tables = { x = "one", y = "d.{topic}", z = "one" } }'


def test_a_record_names_its_table(build: Build) -> None:
    """The first table answers for records that name none."""
    routes = build(BY_TYPE).routes

    assert [(route.table, route.choice) for route in routes] == [
        ("one", Choice("field", "$.type", ("x", "z"), ("x", "y", "z"))),
        ("d.a", Choice("field", "$.type", ("y",))),
    ]
    ignoring = build(BY_TYPE.replace('$.type"', '$.type", unknown = "ignore"')).routes
    assert [route.choice for route in ignoring] == [
        Choice("field", "$.type", ("x", "z"), ("x", "y", "z"), ignores=True),
        Choice("field", "$.type", ("y",)),
    ]


@pytest.mark.parametrize(
    ("route", "key", "word"),
    [
        ('table = "t"\ntable_by = { header = "h", tables = { x = "x" } }', "route[0]", "either table or"),
        ('table_by = { header = "h", tables = { x = "{y}" } }', "route[0].table_by.tables.x", "{y}"),
        ('table_by = { header = "h", tables = { } }', "route[0].table_by", "names no table"),
        ('table_by = { field = "type", tables = { x = "x" } }', "route[0].table_by.field", "not a path"),
    ],
)
def test_what_names_tables_is_checked(problems: Problems, route: str, key: str, word: str) -> None:
    assert word in str(problems(f'[[route]]\ntopic = "a"\n{route}\n')[key])
