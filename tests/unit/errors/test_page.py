"""docs/errors.md and the halts of docs/operations.md are drawn from the catalogue, and list every id of the code."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

from chsink.errors.catalogue import CATALOGUE
from chsink.errors.entry import halt
from chsink.errors.families import HaltError
from chsink.errors.page import errors_page, halt_row, operations_page, row, text

CHECKOUT = Path(__file__).parents[3]
DOCS = CHECKOUT / "docs"
ERRORS = (DOCS / "errors.md").read_text(encoding="utf-8")
OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (CHS-\d{3}) \| (.+?) \| (.+?) \|$", re.MULTILINE)
LISTED = {found[0] for found in ROW.findall(ERRORS)}
ENTRY = halt("CHS-399", "{tp}: a | b is gone at {log_end}", "run `chsink x {tp}`", runbook="wait")


def test_the_page_lists_the_ids_of_the_catalogue_in_order() -> None:
    listed = [found[0] for found in ROW.findall(ERRORS)]

    assert set(listed) == {entry.id for entry in CATALOGUE.values()}
    assert listed == sorted(listed)


@pytest.mark.parametrize(("id", "meaning", "fix"), ROW.findall(ERRORS))
def test_each_has_a_meaning_and_a_fix(id: str, meaning: str, fix: str) -> None:
    assert meaning.strip().endswith(".")
    assert len(fix.strip()) > 5, id


def test_every_id_that_other_pages_name_exists() -> None:
    pages = [CHECKOUT / "README.md", *DOCS.rglob("*.md")]
    named = {found for page in pages for found in re.findall(r"CHS-\d{3}", page.read_text(encoding="utf-8"))}

    assert named <= LISTED


def test_every_halt_has_a_way_out() -> None:
    runbook = OPERATIONS.split("## When it halts")[1].split("\n## ")[0]
    halts = {entry.id for entry in CATALOGUE.values() if issubclass(entry.family, HaltError)}

    assert halts <= set(re.findall(r"CHS-\d{3}", operations_page(runbook)))


def test_the_pages_are_what_the_catalogue_says() -> None:
    """``make docs`` draws them."""
    assert errors_page() == ERRORS
    assert operations_page(OPERATIONS) == OPERATIONS


def pattern(template: str) -> str:
    """A template of the catalogue as a regular expression."""
    parts = Formatter().parse(template)
    return "".join(re.escape(literal) + (".+?" if name else "") for literal, name, _, _ in parts)


def test_what_the_incident_quotes_is_what_the_catalogue_says() -> None:
    """The page was printed once; a message that changes since then is printed anew."""
    incident = (DOCS / "incident.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^error (CHS-\d{3}) (.+)\n  fix: (.+)$", incident, re.MULTILINE)

    assert [name for name, _, _ in quoted] == ["CHS-314", "CHS-321", "CHS-322"]
    for name, sentence, fix in quoted:
        said = [(pattern(e.sentence), pattern(e.hint)) for e in CATALOGUE.values() if e.id == name]
        assert any(re.fullmatch(what, sentence) and re.fullmatch(todo, fix) for what, todo in said), name


def test_a_row_holds_sentence_and_fix_with_parameters_by_name() -> None:
    assert row(ENTRY) == "| CHS-399 | *tp*: a \\| b is gone at *log end*. | Run `chsink x <tp>`. |"
    assert halt_row(ENTRY).endswith("| Run `chsink x <tp>`. Wait. |")


def test_a_sentence_begins_with_a_capital_unless_with_a_name_of_code() -> None:
    assert text("is it there?") == "Is it there?"
    assert text("intHash64 takes {count} columns") == "intHash64 takes *count* columns."
    assert text("") == ""


def test_a_parameter_alone_says_nothing_by_its_name() -> None:
    assert text("{advice}") == "See the message."
