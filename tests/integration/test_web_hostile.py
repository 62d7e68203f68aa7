"""Every page of a hostile base folder in a real Chromium: nothing of it runs, loads anything or leads away."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from orihon.web.routes import PAGES
from tests.browser import PATIENCE, TOASTS_STAY, chromium
from tests.hostile import SENTINEL
from tests.hostile_site import FINISHED, WAITING, HostileSite, hostile_site, tell
from tests.serving import Client, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from orihon.web.server import WebServer

SECRETS = ("not-for-pages",)
#: What is in an export is looked at in ``test_export_browser``.
DOWNLOADS = ("/export", "/view/lines")
TABS = ("tools", "plans", "changes", "questions", "chain")
#: What people would ask for, and what nobody should.
MORE = ("/search?query=caught", "/search?query=%3Cscript%3Ecaught(1)%3C/script%3E", "/?words=%22%3E%3Cimg%20src%3Dx%3E")


def addresses() -> list[str]:
    """Every page, of both tasks where it is of one."""
    found = []
    for page in PAGES:
        for task in (FINISHED, WAITING):
            path = page.path.replace("{task}", task).replace("{number}", "1")
            needed = "&".join(
                f"{one.name}={one.choices[0] if one.choices else 1}" for one in page.query if one.required
            )
            found.append(f"{path}?{needed}" if needed else path)
    tabs = [f"/tasks/{task}?tab={tab}" for task in (FINISHED, WAITING) for tab in TABS]
    return list(dict.fromkeys([*found, *tabs, *MORE]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> HostileSite:
    return hostile_site(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def server(site: HostileSite) -> Iterator[WebServer]:
    with serving(site.base, site.settings, config=site.config) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


class Watch:
    """A window of the browser, and everything in it that should not be."""

    def __init__(self, browser: Browser, server: WebServer) -> None:
        self.noticed: list[str] = []
        self._server = server
        self.context: BrowserContext = browser.new_context()
        self.context.set_default_timeout(PATIENCE)
        self.context.add_init_script(TOASTS_STAY)
        self.context.add_init_script(
            f"window.{SENTINEL} = what => window.told('ran ' + what);"
            "addEventListener('securitypolicyviolation', event => window.told('blocked ' + event.violatedDirective))"
        )
        self.context.expose_function("told", lambda what: self.noticed.append(what))
        self.page: Page = self.context.new_page()
        self.page.on("dialog", lambda dialog: self.noticed.append(f"dialog {dialog.message}"))
        self.page.on("pageerror", lambda error: self.noticed.append(f"error {error}"))
        self.page.on("popup", lambda popup: self.noticed.append(f"popup {popup.url}"))
        self.page.on("console", self._said)
        self.page.on("request", self._requested)
        self.page.goto(server.login_address)
        self.page.wait_for_selector("[data-live]", state="attached")

    def wait_for(self, start: str | tuple[str, ...]) -> None:
        """Until something was noticed that starts so."""
        give_up = time.monotonic() + PATIENCE / 1000
        while not any(line.startswith(start) for line in self.noticed):
            assert time.monotonic() < give_up, self.noticed
            self.page.wait_for_timeout(20)

    def _said(self, message: Any) -> None:
        # That a page is not there is said by the browser, too.
        if message.type in ("error", "warning") and "status of 40" not in message.text:
            self.noticed.append(f"console {message.text}")

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((self._server.address, "data:")):
            self.noticed.append(f"request {request.url}")


@pytest.fixture(scope="module")
def watch(browser: Browser, server: WebServer) -> Watch:
    return Watch(browser, server)


def test_the_watch_notices_what_runs_and_what_is_fetched(browser: Browser, server: WebServer) -> None:
    """And the policy holds where the escaping would not."""
    watched = Watch(browser, server)
    watched.page.evaluate(
        "document.querySelector('main').innerHTML = '<img src=x onerror=caught(1)><p style=\"color:red\">'"
        " + '<img src=https://harm.invalid/x.png>'"
    )
    watched.page.evaluate("caught(99)")
    for expected in ("ran 99", "blocked img-src", ("blocked script-src", "blocked style-src")):
        watched.wait_for(expected)
    assert "ran 1" not in watched.noticed


@pytest.mark.parametrize("address", addresses())
def test_nothing_of_it_runs(address: str, watch: Watch, server: WebServer) -> None:
    watch.noticed.clear()
    page = watch.page
    if address.partition("?")[0].endswith(DOWNLOADS):
        head = watch.context.request.get(server.address.rstrip("/") + address).headers
        assert head["content-disposition"].startswith("attachment")
        return
    answer = page.goto(server.address.rstrip("/") + address)
    assert answer is not None
    assert answer.status in (200, 400, 404), address
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.wait_for_timeout(50)
    assert watch.noticed == []
    attributes = "[...document.querySelectorAll('*')].flatMap(one => [...one.attributes].map(a => [a.name, a.value]))"
    for name, value in page.evaluate(attributes):
        assert not name.startswith("on"), (name, value)
        assert name not in ("href", "action", "formaction") or re.match(r"(/(?![/\\])|[#?]|data:,$)", value), value
        assert name != "src" or re.match(r"(/static/|data:image/(png|jpeg|gif|webp);base64,)", value), value
        assert name not in ("srcdoc", "srcset", "ping", "background", "http-equiv"), name
    elements = set(page.evaluate("[...document.querySelectorAll('*')].map(one => one.tagName.toLowerCase())"))
    assert not elements & {"iframe", "object", "embed", "base", "frame", "applet", "foreignobject"}
    shown = page.evaluate("document.body.innerText")
    assert not set("\u202e\u2066\u200f\u200b\ufeff\x00\x1b") & set(shown)
    for secret in (*SECRETS, server.token):
        assert secret not in answer.text()


def test_folds_and_dialogs_show_what_they_hold(watch: Watch, server: WebServer) -> None:
    watch.noticed.clear()
    page = watch.page
    page.goto(f"{server.address}tasks/{WAITING}")
    page.wait_for_selector("[data-live][data-on]", state="attached")
    opened = []
    for act in ("compress", "edit", "rewind", "fork"):
        button = page.locator(f"[data-act={act}]:visible").first
        if button.count() == 0:
            continue
        button.click()
        page.wait_for_selector(f"dialog[data-dialog={act}][open]")
        if act == "compress":  # what it would fold comes later
            page.wait_for_selector("dialog[data-dialog=compress] [data-planned][aria-busy=false]")
        page.wait_for_timeout(50)
        page.keyboard.press("Escape")
        page.wait_for_selector(f"dialog[data-dialog={act}]", state="hidden")
        opened.append(act)
    assert opened == ["compress", "edit", "fork"]
    assert watch.noticed == []


def test_a_notice_that_comes_is_only_text(watch: Watch, server: WebServer, site: HostileSite) -> None:
    watch.noticed.clear()
    page = watch.page
    page.goto(f"{server.address}workers")
    page.wait_for_selector("[data-live][data-on]", state="attached")
    page.evaluate("() => new Promise(heard => orihon.listen('/events', heard))")  # what comes before that is no news
    tell(site.base, 1)
    page.wait_for_selector(".toast")
    page.wait_for_timeout(200)
    assert watch.noticed == []


def test_no_address_or_json_breaks_out_of_a_script(server: WebServer) -> None:
    reader = Client(server).log_in()
    for address in (one for one in addresses() if not one.partition("?")[0].endswith(DOWNLOADS)):
        text = reader.ask("GET", address).text
        for data in re.findall(r"<script[^>]*type=\"application/json\"[^>]*>(.*?)</script>", text, re.DOTALL):
            assert not set("<>&") & set(data)
        assert f"<script>{SENTINEL}" not in text
