"""The mirror's routes: the grammar of ``[[route]]``, with names of Iceberg tables."""

from __future__ import annotations

import pytest

from chsink.config.problems import InvalidConfigError
from chsink.formats.table_by import Choice
from tests.unit.config.conftest import Load as Build
from tests.unit.config.conftest import Problems

PATTERN = """
[[mirror.route]]
topic_pattern = '(?<team>\\w+)\\.events\\.(?<entity>.+)'
table = "lake.{team}.{entity:_}"
"""
KINDS = """
[[mirror.route]]
topic = "payments"
table_by = { field = "$.type", tables = { order = "shop.orders", refund = "shop.refunds", cancel = "shop.refunds" } }
"""


def tables(config: object) -> list[tuple[str, str]]:
    return [(route.topic, route.table) for route in config.mirror.routes]  # type: ignore[attr-defined]


def test_topics_that_match_now_have_routes(build: Build) -> None:
    config = build(PATTERN + "[[mirror.route]]\ntopics = ['shop.orders', 'b.c']\ntable = '{topic}'")

    found = config.with_mirrored(lambda: ["air.events.x-y", "other", "air.events.z", "b.c", "__offsets"])

    named = [("shop.orders", "shop.orders"), ("b.c", "b.c")]
    assert tables(config) == named
    assert tables(found) == [*named, ("air.events.x-y", "lake.air.x_y"), ("air.events.z", "lake.air.z")]
    assert found.mirror.matched_topics == ("air.events.x-y", "air.events.z")
    assert config.mirror.unknown(["no.such"]) == [] and found.mirror.unknown(["no.such", "b.c"]) == ["no.such"]


def test_kafka_is_not_asked_without_a_pattern(build: Build) -> None:
    def topics() -> list[str]:
        raise AssertionError("asked")

    config = build(KINDS)

    assert config.with_mirrored(topics) is config and config.mirror_pattern is None


def test_chsinks_own_topics_match_no_pattern(build: Build) -> None:
    config = build("[dead_letters]\ntopic = 'dead'\n[[mirror.route]]\ntopic_pattern = '.*'\ntable = 's.{topic:_}'")

    found = config.with_mirrored(lambda: ["a", "dead", "chsink-mirror"])

    assert tables(found) == [("a", "s.a")]


def test_records_name_tables(build: Build) -> None:
    orders, refunds = build(KINDS).mirror.routes

    assert orders.choice == Choice("field", "$.type", ("order",), ("order", "refund", "cancel"))
    assert refunds.choice == Choice("field", "$.type", ("refund", "cancel"))
    assert (orders.table, refunds.table) == ("shop.orders", "shop.refunds")


def test_patterns_take_the_values_that_are_not_named(build: Build) -> None:
    by = (
        """table_by = { header = "h", tables = { 'eu-x' = "s.x" }, patterns = { '(?<area>eu|us)-.*' = "s.{topic}" } }"""
    )
    x, rest = build(f'[[mirror.route]]\ntopic = "a"\n{by}').mirror.routes

    assert x.choice == Choice("header", "h", ("eu-x",), ("eu-x",), known_patterns=("(?:eu|us)-.*",))
    assert rest.choice == Choice("header", "h", (), patterns=("(?:eu|us)-.*",), named=("eu-x",))
    assert rest.table == "s.a"


def test_the_choice_skips_what_the_format_has_before_the_json(build: Build) -> None:
    registry = "[schema_registry]\nurl = 'http://r:1'\n"
    config = build(registry + KINDS.replace('topic = "payments"', 'topic = "payments"\nformat = "json_schema"'))
    choice = config.mirror_choice_of(config.mirror.routes[0])

    assert choice is not None and choice.header == 5


@pytest.mark.parametrize(
    ("job", "key", "words"),
    [
        ("topic = 'a'", "mirror.route[0]", "either table or table_by"),
        ("table = 's.t'", "mirror.route[0]", "which topics it takes"),
        ("topic = 'a'\ntopics = ['b']\ntable = 's.t'", "mirror.route[0]", "topic"),
        ("topic = 'a'\ntable = '{team}.t'", "mirror.route[0].table", "{team}"),
        ("topic = 'a'\ntable = '{topic:_}'", "mirror.route[0].table", "Iceberg table"),
        ("topic = 'a'\ntable = 's.{t'", "mirror.route[0].table", "Iceberg table"),
        ("topic = 'a'\ntable_by = { column = 'kind', tables = { x = 's.t' } }", "mirror.route[0].table_by.column", "column 'kind'"),
        ("topic = 'a'\ntable_by = { header = 'h' }", "mirror.route[0].table_by", "names no table"),
        ("topic = 'a'\ntable_by = { header = 'h', patterns = { '(?!x)y' = 's.t' } }",
         "mirror.route[0].table_by.patterns.(?!x)y", "look ahead"),
        ("topic = 'a'\ntable_by = { tables = { x = 's.t' } }", "mirror.route[0].table_by", "exactly one of"),
        ("topic = 'a'\nformat = 'raw'\ntable_by = { field = '$.x', tables = { x = 's.t' } }",
         "mirror.route[0].table_by.field", "the format is raw"),
        ("topics = ['a', 'a']\ntable = 's.t'", "mirror.route[0].topics", "2 times"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(problems: Problems, job: str, key: str, words: str) -> None:
    found = problems(f"[[mirror.route]]\n{job}")

    assert words in str(found[key])


@pytest.mark.parametrize(
    ("job", "topics", "words"),
    [
        (PATTERN + "[[mirror.route]]\ntopic_pattern = 'air.*'\ntable = 's.t'", ["air.events.x"], "[[mirror.route]]"),
        ("[[mirror.route]]\ntopic_pattern = 'a.*'\ntable = '{topic}'", ["ab"], "'ab' is not a name"),
    ],
)
def test_what_only_the_topics_show_is_refused_then(build: Build, job: str, topics: list[str], words: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        build(job).with_mirrored(lambda: topics)

    assert words in str(refused.value)
