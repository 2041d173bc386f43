"""Links between the pages of the documentation lead somewhere, and glossary terms that are linked exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


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


def test_the_glossary_defines_each_term_once() -> None:
    terms = re.findall(r"^### (.+)$", (CHECKOUT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert len(terms) == len(set(terms)) > 40
