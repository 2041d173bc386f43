"""The status page in a real browser: what each state looks like, with the keyboard, for screen readers, light and dark.

The pictures that docs/ui.md shows are drawn here, by ``make pictures``; tests/unit/test_pictures.py notices old ones.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from chsink.ui.picture import Picture
from tests.support import pictures

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: the status page was not tested; run: apt-get install -y chromium"
)
DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "images/ui"
DRAW = "CHSINK_DRAW" in os.environ
QUALITY = 80
LIMIT_MS = 30_000
WIDTH = 1160
Show = Callable[..., AbstractContextManager[Page]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Browser) -> Show:
    """``show(picture…)`` opens a page that shows them.  What the browser complains about fails the test."""

    @contextmanager
    def opened(*shown: Picture, **observe: Any) -> Iterator[Page]:
        complaints: list[str] = []
        with pictures.page(*shown, **observe) as served:
            context = browser.new_context(viewport={"width": WIDTH, "height": 700}, timezone_id="UTC")
            context.set_default_timeout(LIMIT_MS)
            page = context.new_page()
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda request: complaints.extend([request.url] * (served.url not in request.url)))
            page.goto(served.url)
            if not observe:
                page.locator("#live[data-state=live], #live[data-state=ended]").wait_for()
            yield page
            context.close()
        assert complaints == []

    expect.set_options(timeout=LIMIT_MS)
    return opened


@pytest.fixture(scope="module", autouse=True)
def drawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once all pictures are drawn, a note beside them of what they were drawn from."""
    yield
    if DRAW and not request.session.testsfailed:
        (FOLDER / "drawn-from.sha256").write_text(f"{pictures.digest()}\n", encoding="ascii")


def looks_well(page: Page, name: str) -> None:
    """All that can be seen has the contrast of WCAG AA, light and dark, and fits the window."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRASTS) == []
        if DRAW:
            draw(page, f"{name}-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"


def draw(page: Page, name: str) -> None:
    """Draw the whole page, if the docs show it.  WebP, since Playwright's own PNG is twice as large."""
    file = FOLDER / f"{name}.webp"
    if f"images/ui/{file.name}" not in (DOCS / "ui.md").read_text(encoding="utf-8"):
        return
    usual = page.viewport_size
    assert usual is not None
    height = page.evaluate("document.body.getBoundingClientRect().height")
    page.set_viewport_size({"width": WIDTH, "height": round(height)})
    options = {"format": "webp", "quality": QUALITY}
    taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", options)
    file.write_bytes(base64.b64decode(taken["data"]))
    assert file.stat().st_size < 120_000, f"{file} is too large"
    page.set_viewport_size(usual)


def test_idle(show: Show) -> None:
    with show(pictures.idle()) as page:
        expect(page.locator("#sentence")).to_have_text("Up to date: everything that Kafka holds has landed.")
        expect(page).to_have_title("web · chsink")
        hidden = page.locator("#problems, #doubt, #batch, #letters, #mirror")
        assert [part.is_visible() for part in hidden.all()] == [False] * 5
        expect(page.locator("#verified")).to_have_text("Last verified 3 h ago: 810,413 offsets judged, no difference.")
        looks_well(page, "idle")


def test_differences_that_verify_found(show: Show) -> None:
    with show(pictures.differing()) as page:
        expect(page.locator("#health")).to_have_attribute("data-level", "warn")
        expect(page.locator("#verified")).to_have_text(
            "Last verified 3 h ago (--topic clicks): 810,413 offsets judged, 3 missing, 1 unexpected."
        )
        looks_well(page, "differences")


def test_kafka_is_away(show: Show) -> None:
    with show(pictures.away()) as page:
        expect(page.locator("#sentence")).to_contain_text("The state cannot be read: CHS-702: Kafka at kafka-1:9092")
        expect(page.locator("#problems .id")).to_have_text("CHS-702")
        expect(page.locator("#routes tbody tr")).to_have_count(2)
        looks_well(page, "away")


def test_landing(show: Show) -> None:
    with show(pictures.landing()) as page:
        row = page.locator("#routes tbody tr").first
        expect(row.locator("td")).to_have_text(
            ["web.clicks", "41,200", "", "18,400", "163,732", "1 min 1 s", "55 s", "8", "0", "0"]
        )
        expect(row.locator("svg path")).to_have_count(1)
        expect(page.locator("#batch")).to_contain_text("insert3.48 s")
        expect(page.locator("#doubt tbody tr")).to_have_count(8)
        looks_well(page, "landing")
        letters = page.locator("#letters details").first
        letters.locator("summary").click()
        expect(letters.locator("tbody tr").first).to_contain_text("flights040,100".replace(",", ""))
        assert "Value" not in letters.inner_text()
        looks_well(page, "letters")


def test_in_doubt(show: Show) -> None:
    with show(pictures.in_doubt()) as page:
        expect(page.locator("#health")).to_have_attribute("data-level", "warn")
        expect(page.locator("#doubt tbody tr")).to_have_count(3)
        expect(page.locator("#maps .cell.doubt")).to_have_count(3)
        looks_well(page, "in-doubt")


def test_halted(show: Show) -> None:
    with show(pictures.halted()) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        expect(page.locator("#problems .id")).to_have_text(["CHS-309", "CHS-308"])
        expect(page.locator("#live-text")).to_contain_text("ended, last seen")
        looks_well(page, "halted")
        page.get_by_role("button", name="Copy: chsink state resolve clicks 5 --resend").click()
        expect(page.locator("#announce")).to_have_text("The command was copied.")
        assert page.evaluate("navigator.clipboard.readText()") == "chsink state resolve clicks 5 --resend"


def test_mirror(show: Show) -> None:
    with show(pictures.mirrored()) as page:
        row = page.locator("#mirror tbody tr").first
        expect(row.locator("td")).to_have_text(
            ["60,210", "44 s", "41,200", "3", "17", "38 s ago", "41 s ago", "5126883402117345921"]
        )
        looks_well(page, "mirror")


def test_the_mirror_alone(show: Show) -> None:
    with show(pictures.mirror_alone()) as page:
        expect(page.locator("#sentence")).to_have_text("Up to date: the mirror has all that Kafka holds.")
        expect(page.locator("#owner")).to_have_text("This page is served by the job.")
        assert page.get_by_role("heading", level=2).all_inner_texts() == ["Iceberg mirror"]
        expect(page.locator("#mirror .owner")).to_contain_text("Claimed by spark-driver-0:4211, epoch 4")
        looks_well(page, "mirror-alone")


def test_512_partitions_with_the_keyboard(show: Show) -> None:
    with show(pictures.many()) as page:
        cells = page.locator("#maps button.cell")
        expect(cells).to_have_count(512)
        assert page.locator("#maps button.cell[tabindex='0']").count() == 1, "one stop for the tabulator, not 512"
        assert page.locator(".cells").bounding_box()["height"] < 200  # type: ignore[index]
        looks_well(page, "many")
        cells.first.focus()
        for key, at in (("ArrowRight", 1), ("End", 511), ("ArrowRight", 511), ("Home", 0), ("ArrowLeft", 0)):
            page.keyboard.press(key)
            assert (
                page.evaluate("[...document.querySelectorAll('#maps button.cell')].indexOf(document.activeElement)")
                == at
            )
        page.keyboard.press("ArrowDown")
        below = page.evaluate("document.activeElement.getBoundingClientRect().left")
        assert below == cells.first.bounding_box()["x"]  # type: ignore[index]
        expect(page.locator("#cell")).to_have_text(page.evaluate("document.activeElement.ariaLabel"))
        page.locator("#as-table summary").press("Enter")
        expect(page.locator("#as-table tbody tr")).to_have_count(512)


def test_hostile_names_are_text(show: Show) -> None:
    with show(pictures.hostile()) as page:
        shown = '<img src=x onerror="document.title=1">\\u{202e}txt.\\u{7}exe'
        expect(page.locator("#routes tbody th")).to_have_text(shown)
        expect(page.locator("#problems .what")).to_have_text(shown)
        assert page.locator(".command").count() == 0, "a command with such a name is not offered"
        page.locator("#letters summary").click()
        expect(page.locator("#letters pre").nth(1)).to_have_text("<script>alert(1)</script>")
        assert page.locator("main img, main script, main b:not(.fix b)").count() == 0
        assert page.title() == "!! web · chsink"
        assert "\u202e" not in page.inner_text("body")
        looks_well(page, "hostile")


def test_what_a_screen_reader_is_told(show: Show) -> None:
    """Landmarks and headings; a change of health is announced, a change of numbers is not."""
    with show(*[pictures.idle()] * 6, pictures.in_doubt()) as page:
        for role in ("banner", "main", "contentinfo"):
            assert page.get_by_role(role).count() == 1
        assert page.get_by_role("heading", level=1).inner_text().split() == ["chsink", "web"]
        headings = page.get_by_role("heading", level=2).all_inner_texts()
        assert headings == ["Routes", "Partitions by lag"]
        expect(page.get_by_role("region", name="Health")).to_have_count(1)
        said = page.get_by_role("status")
        expect(said).to_contain_text("Up to date")
        expect(said).to_contain_text("3 ranges are in doubt")
        assert page.locator("#maps button.cell:not([aria-label])").count() == 0
        assert page.locator("table th:not([scope])").count() == 0


def test_the_keyboard_reaches_everything_visibly(show: Show) -> None:
    with show(pictures.halted()) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
        reached = [""]
        while "JSON" not in reached:
            assert len(reached) < 20, reached
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.textContent.slice(0, 4)"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid"
        assert reached.count("Copy") == page.get_by_role("button", name="Copy").count() >= 2


def test_a_page_that_is_updated_keeps_focus_and_open_parts(show: Show) -> None:
    with show(pictures.landing(), pictures.landing(), pictures.idle()) as page:
        page.locator("#as-table summary").click()
        page.locator("#maps button.cell").first.focus()
        expect(page.locator("#sentence")).to_contain_text("Up to date")
        assert page.evaluate("document.activeElement.className") == "cell"
        assert page.locator("#as-table").get_attribute("open") is not None
        expect(page.locator("#as-table tbody tr")).to_have_count(18)


def test_the_token_is_entered_once(show: Show) -> None:
    with show(pictures.idle(), ui_token={"env": "TOKEN"}) as page:
        assert page.url.endswith("/login")
        looks_well(page, "token")
        page.get_by_label("Token").fill("a token of this test")
        page.keyboard.press("Enter")
        expect(page.locator("#sentence")).to_contain_text("Up to date")
        assert "token" not in page.url
        page.reload()
        expect(page.locator("#sentence")).to_contain_text("Up to date")


def test_a_page_that_ends_says_so(browser: Browser) -> None:
    page = browser.new_page(viewport={"width": WIDTH, "height": 700}, timezone_id="UTC")
    page.set_default_timeout(LIMIT_MS)
    with pictures.page(pictures.landing()) as served:
        page.goto(served.url)
        page.locator("#live[data-state=live]").wait_for()
    expect(page.locator("#live-text")).to_contain_text("no connection, last seen")
    looks_well(page, "no-connection")
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        page.reload()
    page.close()


CONTRASTS = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
  };
  const low = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const text = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || !one.checkVisibility() || one.closest(".unseen, noscript")) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) low.add(`${one.tagName} ${one.textContent.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return [...low];
}"""
