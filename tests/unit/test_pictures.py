"""The pictures of the documentation are drawn from the code, complete, and shown with a text instead of them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from chsink.statemachine.table import CELLS, TABLE
from docs.site.pictures import PICTURES, ways
from tests.support import pictures
from tests.unit.test_architecture import ROOMS

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def words(name: str) -> list[str]:
    """Every text of a picture."""
    return [element.text or "" for element in ET.fromstring(PICTURES[name]()).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_the_code_draws_it(name: str) -> None:
    drawn = PICTURES[name]()
    assert (DOCS / "images" / name).read_text(encoding="utf-8") == drawn, "run: make docs"
    root = ET.fromstring(drawn)
    title, about = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None and title.text and about is not None and about.text
    assert "prefers-color-scheme: dark" in drawn


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_shown_with_a_text_for_those_who_do_not_see_it(name: str) -> None:
    shown = [
        alt
        for page in DOCS.glob("*.md")
        for alt in re.findall(rf"!\[([^\]]+)\]\(images/{name}\)", page.read_text(encoding="utf-8"))
    ]
    assert len(shown) == 1 and len(shown[0]) > 20


def test_the_pictures_of_the_status_page_show_it_as_it_is() -> None:
    """They are drawn by a browser, which this test does without: it asks only whether what they show has changed."""
    drawn_from = (DOCS / "images/ui/drawn-from.sha256").read_text(encoding="ascii").strip()
    assert drawn_from == pictures.digest(), "the status page or its states have changed; run: make pictures"


def test_every_picture_of_the_status_page_is_in_the_docs_with_a_text() -> None:
    shown = re.findall(r"!\[([^\]]{20,})\]\(images/ui/([a-z-]+\.webp)\)", (DOCS / "ui.md").read_text(encoding="utf-8"))
    assert sorted(name for _, name in shown) == sorted(each.name for each in (DOCS / "images/ui").glob("*.webp"))


def test_every_cell_that_decides_is_at_an_arrow_of_the_state_machine() -> None:
    assert sum(map(len, ways().values())) == len(CELLS)
    said = words("state-machine.svg")
    for number, row in enumerate(TABLE, 1):
        assert said.count(f"{number} {row.name}") == (0 if row.crops else len(row.cells)), row.name


def test_every_room_is_in_the_house() -> None:
    said = words("rooms.svg")
    for room in ROOMS:
        assert any(room.removeprefix("chsink.") in text.split(", ") for text in said), room


@pytest.mark.parametrize(
    ("name", "page", "heading"),
    [
        ("batch.svg", "how-a-batch-survives.md", "## The steps"),
        ("commit.svg", "mirror.md", "## How a commit survives"),
    ],
)
def test_the_steps_of_a_picture_are_those_of_its_page(name: str, page: str, heading: str) -> None:
    section = (DOCS / page).read_text(encoding="utf-8").split(f"{heading}\n")[1].split("\n## ")[0]
    steps = re.findall(r"^(\d)\. (?:\*\*(\w+))?", section, re.MULTILINE)
    drawn = [text.split() for text in words(name) if text[0].isdigit()]
    assert sorted({each[0] for each in drawn}) == [number for number, _ in steps]
    for number, verb in steps:
        assert not verb or [number, f"{verb}:"] in [each[:2] for each in drawn]
