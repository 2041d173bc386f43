"""The documentation as a site: it builds, no link is dead, and nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site.  ``--strict``: a dead link or anchor, or a page that is not there, fails the build."""
    folder = tmp_path_factory.mktemp("site") / "0.1.0"
    for published in ("0.0.9", "0.2.0rc1", "of somebody else"):
        (folder.parent / published).mkdir()
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_versions_lie_side_by_side_and_latest_is_the_newest(site: Path) -> None:
    root = site.parent
    menu = json.loads((root / "versions.json").read_text(encoding="utf-8"))
    assert [(one["version"], one["aliases"]) for one in menu] == [
        ("0.2.0rc1", []),
        ("0.1.0", ["latest"]),
        ("0.0.9", []),
    ]
    assert (root / "latest" / "promise" / "index.html").read_text() == (site / "promise" / "index.html").read_text()
    assert 'url=latest/"' in (root / "index.html").read_text(encoding="utf-8")
    assert (root / "of somebody else").is_dir()


def test_every_page_is_in_the_navigation(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    for page in sorted((CHECKOUT / "docs").glob("*.md")):
        if page.name != "README.md":
            assert f'href="{page.stem}/"' in start, page.name
    assert 'href="changelog/"' in start and 'href="reading-order/"' in start


def test_each_error_has_an_address(site: Path) -> None:
    page = (site / "errors" / "index.html").read_text(encoding="utf-8")
    ids = set(re.findall(r"CHS-\d{3}(?=</(?:h6|td)>)", page))
    assert len(ids) > 150
    for known in ids:
        assert page.count(f'id="{known.lower()}"') == 1, known


def test_links_follow_the_pages_that_moved(site: Path) -> None:
    assert 'href="../#evidence"' in (site / "promise" / "index.html").read_text(encoding="utf-8")
    assert 'href="../how-a-batch-survives/' in (site / "changelog" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", sorted(p.parent for p in CHECKOUT.glob("docs/examples/*/README.md")), ids=str)
def test_a_page_of_examples_offers_its_files(site: Path, folder: Path) -> None:
    """⚑ It named paths of a checkout, which a reader who has the wheel lacks."""
    page = site / "examples" / folder.name
    assert f'href="{folder.name}.zip"' in (page / "index.html").read_text(encoding="utf-8")
    with zipfile.ZipFile(page / f"{folder.name}.zip") as archive:
        there = {name: archive.read(name) for name in archive.namelist()}
    kept = [file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert there == {str(file.relative_to(CHECKOUT)): file.read_bytes() for file in kept}
    named = re.findall(r"docs/examples/[\w./-]+[\w]", (folder / "README.md").read_text(encoding="utf-8"))
    assert [name for name in named if not any(kept.startswith(name) for kept in there)] == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]*?(?:src|href)="(https?:[^"]+)"', page.read_text(encoding="utf-8")
        )
        assert loaded == [], page


def test_each_error_is_found_by_its_id(site: Path) -> None:
    """Each is a title of the search, and what is typed is cut as titles are; ``tests/browser`` types some of them."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["title"]: entry["location"] for entry in index["docs"]}
    ids = set(re.findall(r"\| (CHS-\d{3}) \|", (CHECKOUT / "docs" / "errors.md").read_text(encoding="utf-8")))
    assert len(ids) > 150
    assert {known: titles.get(known) for known in ids} == {known: f"errors/#{known.lower()}" for known in ids}
    assert re.split(index["config"]["separator"], "CHS-314") == ["CHS", "314"]
