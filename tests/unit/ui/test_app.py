"""Requests to a page that listens: who may see it, what it answers, and that nothing can be changed."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import quote, urlencode, urlsplit

import pytest
import structlog

from chsink.config import InvalidConfigError
from chsink.errors import PreflightError
from chsink.ui.access import Access
from chsink.ui.serve import StatusPage
from tests.support import pictures
from tests.support.pictures import Shown, config, page

TOKEN = {"ui_token": {"env": "TOKEN"}}
KNOWN = "a token of this test"
PATHS = ("/", "/status.json", "/events", "/page.js", "/page.css", "/icon.svg")


@dataclass(frozen=True)
class Answer:
    """``body`` is cut after the first event of a stream."""

    status: int
    headers: dict[str, str]
    body: str


def ask(url: str, path: str = "/", method: str = "GET", body: str | None = None, **headers: str) -> Answer:
    """One request.  Underscores in names of headers stand for dashes."""
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port or 0, timeout=10)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        stream = found.get("content-type", "").startswith("text/event-stream") and method == "GET"
        text = b"".join(answer.readline() for _ in range(5)) if stream else answer.read()
        return Answer(answer.status, found, text.decode())
    finally:
        connection.close()


@contextmanager
def idle(**observe: object) -> Iterator[str]:
    with page(pictures.idle(), **observe) as shown:
        yield shown.url


def test_the_page_its_parts_and_its_data() -> None:
    with idle() as url:
        assert "<title>chsink</title>" in ask(url).body
        found = json.loads(ask(url, "/status.json").body)
        assert found["health"]["level"] == "good"
        stream = ask(url, "/events").body.split("\n")
        assert stream[:3] == ["retry: 3000", "", "event: status"]
        assert json.loads(stream[3].removeprefix("data: ")) == found


def test_each_answer_forbids_what_the_page_does_not_need() -> None:
    with idle(**TOKEN) as url:
        for path in (*PATHS, "/login", "/nothing"):
            headers = ask(url, path, authorization=f"Bearer {KNOWN}").headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["referrer-policy"] == "no-referrer"
            assert "server" not in headers


def test_nothing_can_be_changed() -> None:
    with idle() as url:
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            assert {ask(url, path, method).status for path in PATHS} == {405}, method
            assert ask(url, "/login", method).status == 404, "without a token there is no form"


def test_a_head_of_the_stream_ends() -> None:
    with idle() as url:
        assert ask(url, "/events", "HEAD").status == ask(url, "/status.json", "HEAD").status == 200


def test_another_name_is_refused_on_this_machine() -> None:
    """⚑ A site whose own name resolves to 127.0.0.1 could read the page (DNS rebinding)."""
    with idle() as url:
        for host in ("evil.example", "evil.example:8686", "127.0.0.1.evil.example", "", "[::2]", "10.0.0.1"):
            assert {ask(url, path, host=host).status for path in PATHS} == {421}, host


def test_names_of_this_machine() -> None:
    """Also behind a tunnel, whose port is another one."""
    with idle() as url:
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:9", "[::1]:8686", "localhost."):
            assert ask(url, host=host).status == 200, host


def test_without_the_token_nothing_is_shown() -> None:
    with idle(**TOKEN) as url:
        first = ask(url)
        assert (first.status, first.headers["location"]) == (303, "/login")
        for given in (
            {},
            {"authorization": "Bearer wrong"},
            {"cookie": f"chsink_ui={KNOWN}"},
            {"cookie": "chsink_ui="},
        ):
            refused = ask(url, "/status.json", **given)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert ask(url, "/events", **given).status == 401
        assert ask(url, f"/status.json?token={quote(KNOWN)}").status == 401, "a URL is written into logs"
        assert ask(url, "/status.json", authorization=f"bearer {KNOWN}").status == 200


def test_the_form_gives_a_cookie_for_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chsink.ui.app.PAUSE_S", 0.01)
    form = {"content_type": "application/x-www-form-urlencoded"}
    with idle(**TOKEN) as url:
        assert 'name="token"' in ask(url, "/login").body
        for body in ("", "token=", "token=wrong", "x=" + KNOWN):
            wrong = ask(url, "/login", "POST", body, **form)
            assert wrong.status == 401 and "This is not the token." in wrong.body and "set-cookie" not in wrong.headers
        assert ask(url, "/login", "POST", "token=" + "x" * 10_000, **form).status == 413

        right = ask(url, "/login", "POST", urlencode({"token": KNOWN}), **form)
        cookie = right.headers["set-cookie"]
        assert (right.status, right.headers["location"]) == (303, "/")
        assert KNOWN not in cookie
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
        assert ask(url, "/status.json", cookie=cookie.partition(";")[0]).status == 200
    with idle(**TOKEN) as url:
        assert ask(url, "/status.json", cookie=cookie.partition(";")[0]).status == 401, "another process"


def test_tokens_are_compared_as_a_whole() -> None:
    access = Access(None, "secret-secret-é")
    assert access.is_token("secret-secret-é")
    assert not any(access.is_token(text) for text in ("", "secret-secret-", "secret-secret-éé", "SECRET-SECRET-É"))
    assert not Access(None).is_token("")
    assert "secret" not in repr(access)


def test_other_machines_need_a_token() -> None:
    for ui in ("0.0.0.0:0", "[::]:0", "status.example:80"):
        with pytest.raises(InvalidConfigError, match="observe.ui_token"):
            config(ui=ui)
        assert not config(ui=ui, **TOKEN).observe.ui_is_local
    for ui in ("127.0.0.1:0", "127.8.0.1:0", "[::1]:0", "localhost:0"):
        assert config(ui=ui).observe.ui_is_local


def test_a_token_is_no_text_in_the_file_and_not_short() -> None:
    with pytest.raises(InvalidConfigError, match="CHS-107"):
        config(ui_token="a token of this test")
    with pytest.raises(InvalidConfigError, match="fewer than 16"):
        config(ui_token={"env": "SHORT"})


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PreflightError, match=f"CHS-279.*127.0.0.1:{port}: Address already in use"):
            StatusPage(config(ui=f"127.0.0.1:{port}"), structlog.get_logger(), Shown(pictures.idle()))
    assert [config(ui=f"127.0.0.1:{port}").observe.ui_place for port in (0, 9999, 65_535)]
    for ui in ("127.0.0.1:65536", "127.0.0.1:99999", "127.0.0.1", ":1", "http://127.0.0.1:1"):
        with pytest.raises(InvalidConfigError, match="CHS-104"):
            config(ui=ui)


def test_the_page_says_nothing_of_a_state_store_before_it_knows_of_one() -> None:
    """⚑ A job with a mirror only has none."""
    assert "state store" not in (files("chsink.ui") / "static" / "page.html").read_text(encoding="utf-8")


def test_the_script_makes_no_html_from_text_and_loads_nothing_from_elsewhere() -> None:
    static = files("chsink.ui") / "static"
    for name in ("page.js", "page.html", "login.html", "page.css"):
        text = (static / name).read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text), (
            name
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text), name
        assert not re.search(r"<script(?! type=\"module\" src=\"/page.js\")|\son\w+=\"|\sstyle=\"|<style", text), name
