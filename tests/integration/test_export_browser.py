"""HTML exports in a real Chromium: whatever a task holds is shown, and nothing of it runs, loads or leads away."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orihon import export_task
from orihon.texts import set_language
from tests.browser import PATIENCE, chromium
from tests.hostile import ELSEWHERE, PNG, SENTINEL, SETTINGS, hostile_task, long

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Every element that a page may be made of.
OURS = set(
    "html head meta title style body main header footer section article aside h1 h2 h3 p div span b strong code pre "
    "ins del bdi time a dl dt dd ul li meter details summary img table thead tbody tr th td".upper().split()
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """The page of a hostile task, and the fields that it has to show."""
    folder = tmp_path_factory.mktemp("hostile")
    uuid, fields = hostile_task(folder / "base")
    file = export_task(folder / "base", uuid, SETTINGS, "html", folder / "page.html").file
    assert file is not None
    return file, fields


class Watched:
    """A page in the browser, and everything that it did beside showing itself."""

    def __init__(self, browser: Browser, path: Path, **options: Any) -> None:
        self.noticed: list[str] = []
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(
            f"window.{SENTINEL} = what => window.told('ran ' + what);"
            "addEventListener('securitypolicyviolation', event => window.told('blocked ' + event.blockedURI))"
        )
        context.expose_function("told", lambda what: self.noticed.append(what))
        self.page: Page = context.new_page()
        self.page.on("dialog", lambda dialog: self.noticed.append(f"dialog {dialog.message}"))
        self.page.on("pageerror", lambda error: self.noticed.append(f"error {error}"))
        self.page.on("popup", lambda popup: self.noticed.append(f"popup {popup.url}"))
        self.page.on("requestfinished", lambda request: self._requested(request.url, path))
        self.page.on("requestfailed", lambda request: self._requested(request.url, path, request.failure or ""))
        self.page.goto(path.as_uri())
        self.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        self.page.wait_for_timeout(100)

    def _requested(self, url: str, path: Path, failure: str = "") -> None:
        if url != path.as_uri() and not url.startswith("data:") and failure != "csp":
            self.noticed.append(f"request {url}")

    def has_noticed(self, line: str) -> bool:
        """Wait for something that is told by the browser's other processes when they come to it."""
        give_up = time.monotonic() + PATIENCE / 1000
        while not any(re.fullmatch(line, one) for one in self.noticed) and time.monotonic() < give_up:
            self.page.wait_for_timeout(20)
        return any(re.fullmatch(line, one) for one in self.noticed)

    def text(self) -> str:
        """All that a printer would print; on a screen, what is far away is left out until somebody comes near."""
        self.page.emulate_media(media="print")
        return self.page.locator("body").inner_text()


def test_the_watch_notices_what_runs_and_what_is_fetched(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "open.html"
    page.write_text(f"<html><body>{long('x')}".encode("utf-8", "replace").decode(), encoding="utf-8")
    watched = Watched(browser, page)
    assert watched.has_noticed("ran 1")
    assert watched.has_noticed("ran 2")
    assert watched.has_noticed(f"request {re.escape(ELSEWHERE)}.*")


def test_the_policy_alone_would_hold(browser: Browser, hostile: tuple[Path, set[str]], tmp_path: Path) -> None:
    """If a text came through unescaped, there would still be the policy."""
    page, harm = tmp_path / "injected.html", long("x").encode("utf-8", "replace").decode()
    whole = hostile[0].read_text(encoding="utf-8")
    page.write_text(whole.replace("</header>", f"</header><div>{harm}</div>", 1), encoding="utf-8")
    watched = Watched(browser, page)
    assert watched.has_noticed("blocked.*")
    assert not [line for line in watched.noticed if line.startswith(("ran", "request", "dialog", "popup"))]


def test_a_hostile_task_is_shown_and_nothing_of_it_runs(browser: Browser, hostile: tuple[Path, set[str]]) -> None:
    path, fields = hostile
    watched = Watched(browser, path)
    page = watched.page
    text = watched.text()
    assert {field for field in fields if f"[{field}]" not in text} == set()
    assert f"<script>{SENTINEL}(1)</script>" in text
    assert "⟦U+202E⟧" in text
    assert not set("\u202e\u2066\u200f\u200b\ufeff\x00\x1b") & set(text)

    elements = page.evaluate("[...document.querySelectorAll('*')].map(one => one.tagName)")
    assert set(elements) <= OURS
    attributes = "[...document.querySelectorAll('*')].flatMap(one => [...one.attributes].map(a => [a.name, a.value]))"
    for name, value in page.evaluate(attributes):
        assert not name.startswith("on")
        assert name != "style"
        assert name != "href" or value.startswith("#")
        assert name != "src" or value == f"data:image/png;base64,{PNG}"
    for link in page.locator("a").all():
        link.dispatch_event("click")
    assert watched.noticed == []
    assert page.url.startswith(path.as_uri())


def test_the_policy_is_strict_and_comes_first(browser: Browser, hostile: tuple[Path, set[str]]) -> None:
    page = Watched(browser, hostile[0]).page
    first = page.evaluate("[...document.head.children].map(one => [one.tagName, one.httpEquiv, one.content])")[:3]
    assert first[0][0] == "META"
    assert first[1][:2] == ["META", "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in first[1][2].split(";"))
    assert rules.pop("style-src").startswith("'sha256-")
    assert rules == {"default-src": "'none'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
    assert page.evaluate("document.querySelector('meta[name=referrer]').content") == "no-referrer"
    # The style sheet is the one that the policy allows, and it is in force.
    assert page.evaluate("getComputedStyle(document.querySelector('pre')).whiteSpaceCollapse") == "preserve"
    assert base64.b64decode(PNG)
    assert page.evaluate("[...document.images].map(one => one.naturalWidth)") == [1]


def test_it_fits_its_window_in_both_schemes(browser: Browser, hostile: tuple[Path, set[str]]) -> None:
    page = Watched(browser, hostile[0]).page
    for width, scheme, paper in ((390, "light", "rgb(246, 243, 236)"), (1200, "dark", "rgb(23, 24, 26)")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        wanted = [width, paper]
        look = "[document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]"
        give_up = time.monotonic() + PATIENCE / 1000
        while page.evaluate(look) != wanted and time.monotonic() < give_up:  # it may take a moment to come about
            page.wait_for_timeout(20)
        assert page.evaluate(look) == wanted


def test_a_fold_opens_without_a_script(browser: Browser, hostile: tuple[Path, set[str]]) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(hostile[0].as_uri())
    inside = page.locator("#m7")
    assert not inside.is_visible()
    page.locator(".conversation > .fold > details > summary").click()
    assert inside.is_visible()


def test_labels_are_japanese_where_that_is_the_language(browser: Browser, tmp_path: Path) -> None:
    uuid, fields = hostile_task(tmp_path / "base")
    set_language("ja")
    try:
        export_task(tmp_path / "base", uuid, SETTINGS, "html", tmp_path / "page.html")
    finally:
        set_language(None)
    watched = Watched(browser, tmp_path / "page.html")
    assert watched.page.evaluate("document.documentElement.lang") == "ja"
    text = watched.text()
    assert {"会話", "アシスタント", "計画", "質問"} <= set(text.replace(":", "\n").split())
    assert {field for field in fields if f"[{field}]" not in text} == set()
