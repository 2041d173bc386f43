"""The documentation as a site: ``make site``.  MkDocs calls these functions while it builds.

The pages stay as they are read in a checkout.  What differs here is done once, at the build:

- pages of the checkout's root (README, changelog, …) become pages of the site, and links to them follow;
- a page of examples offers its folder as an archive, because a reader who has only the wheel lacks the checkout;
- the order of the navigation is that of ``docs/README.md``, which names every page;
- the site of a version lies in a folder of its name, beside those of other versions; ``latest`` leads to the newest.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from packaging.version import InvalidVersion, Version

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = "docs/examples"
DOWNLOAD: Final = (
    "\n**Files:** download [{0}.zip]({0}.zip) and unpack it where you run the commands below. It holds the folder "
    "`docs/examples/{0}` with all files that this page names.\n"
)
LATEST: Final = "latest"
FORWARD: Final = '<!doctype html><meta http-equiv="refresh" content="0; url={0}"><a href="{0}">{0}</a>\n'
READING_ORDER: Final = "reading-order.md"
MOVED: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "docs/README.md": READING_ORDER,
}
"""Pages whose place on the site is not that in the checkout, by their path there."""
_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]+)(?=[)#])")
_SECTION: Final = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ID_CELL: Final = re.compile(r"<td>(CHS-\d{3})</td>")
_PAGE: Final = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root; ``docs/README.md`` gives way to the README as the first page."""
    for place, page in MOVED.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        old = files.get_file_from_path(place.removeprefix("docs/")) if place.startswith("docs/") else None
        if old is not None:
            files.remove(old)
        files.append(File.generated(config, page, content=text))
    for readme in sorted((ROOT / EXAMPLES).glob("*/README.md")):
        folder = readme.parent
        files.append(File.generated(config, f"examples/{folder.name}/{folder.name}.zip", content=archive(folder)))
    return files


def archive(folder: Path) -> bytes:
    """The files of a folder of examples, under their paths in the checkout; the same bytes at each build."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as into:
        for file in sorted(folder.rglob("*.*")):
            if file.is_file() and "__pycache__" not in file.parts:
                into.writestr(zipfile.ZipInfo(str(file.relative_to(ROOT))), file.read_bytes())
    return made.getvalue()


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links follow the pages that moved, and lead from a page of examples to its archive."""
    del config, files
    places = {site: place for place, site in MOVED.items()}
    origin = PurePosixPath(places.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    if origin.parent.parent == PurePosixPath(EXAMPLES):
        title, _, rest = markdown.partition("\n")
        markdown = f"{title}\n{DOWNLOAD.format(origin.parent.name)}{rest}"
    return _LINK.sub(lambda link: moved_link(link[1], origin, PurePosixPath(page.file.src_uri)), markdown)


def moved_link(link: str, origin: PurePosixPath, page: PurePosixPath) -> str:
    """The link as it must stand on ``page`` of the site, which is ``origin`` in the checkout."""
    target = _joined(origin.parent, link)
    there = MOVED.get(target, target.removeprefix("docs/"))
    up = [".."] * len(page.parent.parts)
    return "/".join([*up, there]) if (target in MOVED or str(origin) in MOVED) else link


def _joined(folder: PurePosixPath, link: str) -> str:
    parts: list[str] = []
    for part in (*folder.parts, *PurePosixPath(link).parts):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Each error has an address, ``errors/#chs-314``, and is a heading, to which the search leads."""
    del config, files
    if page.file.src_uri != "errors.md":
        return html
    seen: set[str] = set()

    def cell(found: re.Match[str]) -> str:
        first = found[1] not in seen
        seen.add(found[1])
        heading = f'<h6 id="{found[1].lower()}" style="all: unset">{found[1]}</h6>'
        return f"<td>{heading}</td>" if first else found[0]

    return _ID_CELL.sub(cell, html)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation: the headings of the reading order, and under each the pages that it is the first to name."""
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    named: set[str] = set()
    nav: list[dict[str, list[dict[str, str]]]] = []
    for heading, body in _SECTION.findall(text):
        pages = []
        for title, target in _PAGE.findall(body):
            page = moved_link(target, PurePosixPath("docs/README.md"), PurePosixPath(READING_ORDER))
            if page not in named:
                named.add(page)
                pages.append({title[0].upper() + title[1:]: page})
        nav.append({heading: pages})
    nav[0][next(iter(nav[0]))].append({"Reading order": READING_ORDER})
    config.nav = nav
    return config


def on_post_build(config: MkDocsConfig) -> None:
    """Write what the menu of versions reads, the copy ``latest`` of the newest version, and a start page.

    Folders of other versions are left alone: whoever publishes keeps them there.
    """
    site = Path(config.site_dir)
    if _version(site) is None:
        return
    there = sorted(filter(None, map(_version, site.parent.iterdir())), reverse=True)
    newest = str(max(there, key=lambda version: (not version.is_prerelease, version)))
    menu = [{"version": str(v), "title": str(v), "aliases": [LATEST] * (str(v) == newest)} for v in there]
    (site.parent / "versions.json").write_text(json.dumps(menu, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(site.parent / LATEST, ignore_errors=True)
    shutil.copytree(site.parent / newest, site.parent / LATEST)
    (site.parent / "index.html").write_text(FORWARD.format(f"{LATEST}/"), encoding="utf-8")


def _version(folder: Path) -> Version | None:
    """The version whose site the folder holds."""
    try:
        version = Version(folder.name)
    except InvalidVersion:
        return None
    return version if folder.is_dir() and str(version) == folder.name else None
