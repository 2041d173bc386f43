"""The documentation's site in a real browser: whoever types the id of an error is led to it; the menu of versions."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.test_page import CHROMIUM
from tests.conftest import CHECKOUT

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        CHROMIUM is None, reason="NO BROWSER: the search was not tested; run: apt-get install -y chromium"
    ),
]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The built site, served."""
    (tmp_path / "0.0.9").mkdir()
    line = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "0.1.0")]
    subprocess.run(line, cwd=CHECKOUT, check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_whoever_types_an_id_is_led_to_the_error(site: str) -> None:
    """One id of each hundred."""
    page_of_errors = (CHECKOUT / "docs" / "errors.md").read_text(encoding="utf-8")
    by_hundred = {known[:5]: known for known in re.findall(r"\| (CHS-\d{3}) \|", page_of_errors)}
    assert len(by_hundred) > 5
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(site)
        box = page.locator("input.md-search__input")
        for known in by_hundred.values():
            for typed in (known, known.lower(), known[4:]):
                box.fill(typed[:-1])
                box.press_sequentially(typed[-1])
                first = page.locator(".md-search-result__list a[href*='/errors/'][href*='#']").first
                expect(first).to_have_attribute("href", re.compile(f"/errors/.*#{known.lower()}$"), timeout=20_000)
        browser.close()


def test_the_menu_of_versions(site: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(site)
        page.wait_for_url("**/latest/")
        expect(page.locator(".md-version__current")).to_have_text("0.1.0latest")
        links = page.locator(".md-version__link")
        expect(links).to_have_text(["0.1.0latest", "0.0.9"])
        page.locator(".md-version__current").hover(force=True)
        links.last.click()
        page.wait_for_url("**/0.0.9/")
        browser.close()
