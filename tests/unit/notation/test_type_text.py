"""A type's text as a tree, and written out again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chsink.notation.sql import quote_identifier, quote_string
from chsink.notation.type_text import TypeNode, parse_type_text

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
LEAVES = st.one_of(
    st.sampled_from(["Int8", "String", "9", "-1"]).map(TypeNode),
    st.builds(lambda text, number: TypeNode(quote_string(text), number=number), NAMES, st.integers()),
)
TREES = st.recursive(
    LEAVES,
    lambda below: st.builds(
        lambda name, args, element: TypeNode(name, tuple(args), (quote_identifier(element),) if element else ()),
        st.sampled_from(["Array", "Tuple", "JSON"]),
        st.lists(below, max_size=4),
        st.none() | NAMES,
    ),
    max_leaves=12,
)


@given(TREES)
def test_what_is_written_is_read_back(tree: TypeNode) -> None:
    assert parse_type_text(str(tree)) == tree


@pytest.mark.parametrize(
    "text",
    [
        "Nullable(Decimal(9, 2))",
        "Enum8('it\\'s' = -1, 'a, b) = 2' = 2)",
        "Tuple(`a b` UInt8, c Nullable(UInt8))",
        "JSON(max_dynamic_paths = 3, `a b`.c UInt8, `a.b.d` String, SKIP x.`y z`, SKIP REGEXP 'q\\\\.')",
        "AggregateFunction(quantiles(0.5, 1e-9), UInt64)",
        "DateTime64(3, 'Europe/Berlin')",
    ],
)
def test_types_of_the_server(text: str) -> None:
    assert str(parse_type_text(text)) == text


def test_the_parts_of_a_tree() -> None:
    tree = parse_type_text("Tuple(\n    `a``b` LowCardinality(Nullable(Enum8('x\\n' = 1))),\n    Int8)")
    assert tree.args is not None
    first, second = tree.args
    assert (first.element, second.element) == ("a`b", None)
    inner = first.unwrapped("LowCardinality", "Nullable")
    assert inner.args is not None
    assert (inner.name, inner.args[0].literal, inner.args[0].number) == ("Enum8", "x\n", 1)
    assert [node.name for node in tree.walk()][-1] == "Int8"


@pytest.mark.parametrize(
    "text", ["", " ", "Array(", "Array(Int8", "Array)", "Int8)", "Tuple(,)", "A(B C D) E", "Enum8('a", "x = y"]
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"type|arguments|invalid literal"):
        parse_type_text(text)
