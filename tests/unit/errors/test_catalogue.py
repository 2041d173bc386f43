"""The error catalogue: every id has one family, every raise site gives what its entry asks for."""

from __future__ import annotations

import ast
import pickle
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from chsink.errors.catalogue import CATALOGUE, from_wire
from chsink.errors.counts import counted
from chsink.errors.entry import fields, halt, preflight
from chsink.errors.families import HaltError
from chsink.findings import passed
from tests.support.parsed import nodes

CHECKOUT = Path(__file__).parents[3]
ENTRY = halt("CHS-399", "{tp}: {count} records are gone", "restore {tp}", ok="{tp} is whole")
NOT_OF_THE_ENTRY = {"severity"}


def calls() -> Iterator[tuple[str, str, set[str]]]:
    """Where an entry is made an error: place, entry, keywords.  ``found`` and ``passed`` take the entry as an argument."""
    for file in sorted((CHECKOUT / "chsink").rglob("*.py")):
        for node in nodes(file):
            if not isinstance(node, ast.Call):
                continue
            for target in (node.func, *node.args):
                if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "CommitHalt":
                    continue  # the core's name for it, not the entry
                name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
                keywords = {k.arg for k in node.keywords if k.arg} - NOT_OF_THE_ENTRY
                if name in CATALOGUE and not any(k.arg is None for k in node.keywords):
                    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    yield f"{file.relative_to(CHECKOUT)}:{node.lineno} {called}", name, keywords


def test_entries_that_share_an_id_stand_together() -> None:
    """Nobody words one without seeing the others."""
    apart = set()
    for file in (CHECKOUT / "chsink" / "errors").glob("*.py"):
        ids = re.findall(r"^[A-Z_]+ = \w+\(\n? *\"(CHS-\d+)\"", file.read_text(encoding="utf-8"), re.MULTILINE)
        runs = [one for one, before in zip(ids, [None, *ids], strict=False) if one != before]
        apart |= {(file.name, one) for one in runs if runs.count(one) > 1}
    assert not apart


def test_every_raise_site_gives_the_parameters_of_its_entry() -> None:
    wrong = []
    for place, name, keywords in calls():
        entry = CATALOGUE[name]
        wanted = fields(entry.ok) if place.endswith(" passed") else entry.parameters
        if keywords != wanted:
            wrong.append((place, name, sorted(keywords), sorted(wanted)))
    assert wrong == []


@pytest.mark.parametrize(
    ("number", "said"),
    [("0", "0 dead letters"), ("1", "1 dead letter"), ("11", "11 dead letters"), (1, "1 dead letter")],
)
def test_what_is_counted_has_its_noun(number: object, said: str) -> None:
    entry = preflight("CHS-299", "{table} holds {count:dead letters}", "delete {count}", ok="{count:dead letters}")
    error = entry(table="d.t", count=number)
    assert (error.message, error.hint) == (f"d.t holds {said}", f"delete {number}")
    assert passed(entry, count=number).sentence == said
    assert counted(1_000, "dead letters") == "1,000 dead letters"


def test_an_id_is_written_in_the_catalogue_only() -> None:
    """Besides the core's ``Halt``, whose values are ids: the core knows nothing of chsink."""
    elsewhere = [
        f"{file.relative_to(CHECKOUT)}:{node.lineno}"
        for file in sorted((CHECKOUT / "chsink").rglob("*.py"))
        if not {"errors", "statemachine"} & set(file.relative_to(CHECKOUT).parts)
        for node in nodes(file)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"CHS-\d{3}", node.value)
    ]
    assert elsewhere == []


def test_an_id_has_one_family() -> None:
    families = defaultdict(set)
    for entry in CATALOGUE.values():
        families[entry.id].add(entry.family)
    assert {i: sorted(f.__name__ for f in found) for i, found in families.items() if len(found) > 1} == {}


def test_an_entry_is_named_in_capitals_and_says_what_to_do() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.name == name and name.isupper(), name
        assert entry.hint, entry.name


def test_a_statement_ends_at_a_semicolon() -> None:
    """⚑ A person copies it as a whole: no word of the sentence behind it may become part of it."""
    for entry in CATALOGUE.values():
        for said in re.findall(r"(?:ALTER TABLE|DELETE FROM)(?! …) [^;]+|\{delete\}[^;]*", entry.hint):
            prose = re.search(r"\b(and|or|then|also|to)\b", re.sub(r"\bMODIFY SETTING\b", "", said))
            assert prose is None, (entry.name, said)


def test_an_error_is_made_of_its_entry_and_parameters() -> None:
    error = ENTRY(tp="t[0]", count=3)

    assert isinstance(error, HaltError)
    assert (error.id, error.message, error.hint) == ("CHS-399", "t[0]: 3 records are gone", "restore t[0]")
    assert (error.name, error.params) == ("", {"tp": "t[0]", "count": "3"})


def test_a_parameter_too_many_or_too_few_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        ENTRY(tp="t[0]")
    with pytest.raises(AssertionError):
        ENTRY(tp="t[0]", count=1, more=2)


def test_an_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ENTRY(tp="t[0]", count=3)))

    assert (error.id, error.message, error.params) == (
        "CHS-399",
        "t[0]: 3 records are gone",
        {"tp": "t[0]", "count": "3"},
    )


def test_every_error_crosses_by_name_and_parameters() -> None:
    for entry in CATALOGUE.values():
        error = entry(**dict.fromkeys(entry.parameters, "x"))
        assert str(from_wire(error.name, error.params)) == str(error)
