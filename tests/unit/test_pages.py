"""Links between pages lead somewhere, the indexes are complete, and the README leads a new user in the right order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import DRAWN, drawn

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
DECISION = re.compile(r"# (\d+)\. (.+)\n\nDate: (\d{4}-\d\d-\d\d)\nStatus: (.+)\n")
ROOMS = ("chsink", "statemachine")
GLOSSARY = (CHECKOUT / "docs" / "glossary.md").read_text(encoding="utf-8")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
README = (CHECKOUT / "README.md").read_text(encoding="utf-8").splitlines()
WIDTH = 120


def anchors(page: Path) -> set[str]:
    """How headings are linked: lower case, no punctuation, hyphens for spaces."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            wrong.append(f"{path}#{anchor}")
    assert wrong == []


def test_the_readme_leads_to_the_first_row_and_then_to_the_promise() -> None:
    at = {name: README.index(f"## {name}") for name in ("Why", "Try it", "Quick start", "The promise")}
    promise = README[at["The promise"] + 1 : README.index("## A job of your own")]

    assert list(at.values()) == sorted(at.values())
    assert at["Quick start"] < 50
    assert len([line for line in promise if line]) <= 8 and "](docs/promise.md)" in "".join(promise)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "docs/README.md", "docs/promise.md"])
def test_no_line_is_wider_than_a_terminal(name: str) -> None:
    lines = (CHECKOUT / name).read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if len(line) > WIDTH] == []


def test_the_index_names_every_page() -> None:
    index = CHECKOUT / "docs" / "README.md"
    named = [path for path, anchor in LINK.findall(index.read_text(encoding="utf-8")) if not anchor]

    pages = {page.name for page in (CHECKOUT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(named)
    assert len(named) == len(set(named))


def test_files_that_pages_name_exist() -> None:
    named = {
        n
        for p in PAGES
        for n in re.findall(r"`((?:chsink|statemachine|tests|sql|docker|docs)/[\w./-]+)`", p.read_text())
    }

    assert [n for n in sorted(named) if not (CHECKOUT / n).exists()] == []
    assert len(named) > 20


def test_the_glossary_defines_each_term_once() -> None:
    terms = re.findall(r"^### (.+)$", GLOSSARY, re.MULTILINE)

    assert 40 < len(terms) == len(set(terms)) <= 60
    core = GLOSSARY.split("\n## ")[1]
    assert core.startswith("The core: twenty words") and core.count("\n### ") == 20


def test_the_glossary_names_code_that_exists() -> None:
    code = "\n".join(f.read_text(encoding="utf-8") for room in ROOMS for f in (CHECKOUT / room).rglob("*.py"))
    bracketed = re.findall(r"\(([^()]*`[^()]*)\)$", GLOSSARY, re.MULTILINE)
    names = [name for found in bracketed for name in re.findall(r"`([^`]+)`", found)]

    missing = [n for n in names if not ((CHECKOUT / n).exists() or re.search(rf"\b{n.split('.')[-1]}\b", code))]
    assert missing == []
    assert len(names) > 40


def test_the_index_of_decisions_lists_each_with_its_date_and_status() -> None:
    folder = CHECKOUT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for page in sorted(folder.glob("0*.md")):
        head = DECISION.match(page.read_text(encoding="utf-8"))
        assert head, f"{page.name}: number and title, date, status"
        assert f"| {head[1]} | [{head[2]}]({page.name}) | {head[3]} | {head[4]} |" in index


@pytest.mark.parametrize("page", DRAWN)
def test_tables_are_drawn_from_what_the_tests_send(page: str) -> None:
    text = (CHECKOUT / "docs" / page).read_text(encoding="utf-8")
    assert drawn(page, text) == text, "run: make docs"
