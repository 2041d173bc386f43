"""docs/errors.md lists every id that the code can show, with meaning and fix, and no other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (CHS-\d{3}) \| (.+?) \| (.+?) \|$", re.MULTILINE)
PAGE = (CHECKOUT / "docs" / "errors.md").read_text(encoding="utf-8")
LISTED = {row[0] for row in ROW.findall(PAGE)}


def ids_in_code() -> set[str]:
    """Ids in string literals; an id that is only spoken of in a comment or docstring is raised somewhere else."""
    files = [*(CHECKOUT / "chsink").rglob("*.py"), *(CHECKOUT / "statemachine").rglob("*.py")]
    return {found for file in files for found in re.findall(r'"(CHS-\d{3})"', file.read_text(encoding="utf-8"))}


def test_every_id_of_the_code_is_listed() -> None:
    assert ids_in_code() - LISTED == set()


def test_every_listed_id_is_in_the_code() -> None:
    assert LISTED - ids_in_code() == set()


def test_each_is_listed_once_in_order() -> None:
    listed = [row[0] for row in ROW.findall(PAGE)]

    assert max(Counter(listed).values()) == 1
    assert listed == sorted(listed)


@pytest.mark.parametrize(("id", "meaning", "fix"), ROW.findall(PAGE))
def test_each_has_a_meaning_and_a_fix(id: str, meaning: str, fix: str) -> None:
    assert meaning.strip().endswith((".", "(info)."))
    assert len(fix.strip()) > 5, id


def test_every_id_that_other_pages_name_exists() -> None:
    pages = [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")]
    named = {found for page in pages for found in re.findall(r"CHS-\d{3}", page.read_text(encoding="utf-8"))}

    assert named <= LISTED
