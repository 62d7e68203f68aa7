"""Tasks, workers and statistics in a real browser: they follow what happens, by pointer and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orihon import TaskKey, load_settings
from orihon.catalogue import Catalogue, WorkerStatistics
from orihon.catalogue.connect import open_catalogue
from orihon.values.task import TaskStatus
from orihon.web import access
from orihon.web.server import WebServer
from tests.browser import PATIENCE, chromium
from tests.helpers import lasting_day
from tests.serving import Client, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_HIDING = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
_PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    with open_catalogue(tmp_path, load_settings({}, environ={})) as opened:
        yield opened


@pytest.fixture
def server(tmp_path: Path, catalogue: Catalogue) -> Iterator[WebServer]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def page(browser: Browser, server: WebServer) -> Iterator[Page]:
    """A page that has shown the token; whatever it complains about fails the test."""
    context = browser.new_context(locale="en-US")
    context.set_default_timeout(PATIENCE)
    shown = context.new_page()
    shown.goto(server.login_address)
    shown.wait_for_selector("header.top")
    shown.goto("about:blank")  # a list that is open loads itself again when its first task comes
    wrong: list[str] = []
    shown.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    shown.on("pageerror", lambda error: wrong.append(str(error)))
    yield shown
    assert wrong == []
    context.close()


def register(catalogue: Catalogue, uuid: str, title: str, status: TaskStatus = TaskStatus.RUNNING) -> None:
    key = TaskKey("github", "acme", "shop", "issue", uuid, "mika")
    catalogue.tasks.register(key, uuid, status=status, context_length=100_000, metadata={"title": title})


def usage(catalogue: Catalogue, days: int = 5) -> None:
    register(catalogue, "paid", "Paid for")
    catalogue.tasks.update("paid", llm_provider="openai")
    today = date.fromisoformat(lasting_day())
    for ago in range(days):
        day = (today - timedelta(days=ago)).isoformat()
        catalogue.usage.add("paid", "gpt-4o", day, input=1_000_000 * (ago + 1), saved=500_000)


def wait_for_focus(page: Page, address: str) -> None:
    page.wait_for_function("address => document.activeElement.getAttribute('href') === address", arg=address)


def wait_for_tip(page: Page, text: str) -> None:
    """The box beside the pointer says it."""
    page.wait_for_function(
        "text => [...document.querySelectorAll('.tip:not([hidden])')].some(tip => tip.textContent.includes(text))",
        arg=text,
    )


def test_the_list_follows_what_happens(page: Page, server: WebServer, catalogue: Catalogue) -> None:
    page.goto(server.address)
    page.get_by_text("No tasks yet").wait_for()
    register(catalogue, "one", "Mend the login")
    page.locator("[data-task=one]").wait_for()  # the first task brings the list
    register(catalogue, "two", "Write the guide", TaskStatus.QUEUED)
    page.locator("[data-task=two]").wait_for()
    page.locator("[data-task=one] a.title").focus()
    catalogue.tasks.set_totals("one", view_tokens=50_000)
    page.locator("[data-task=one] .context b", has_text="%").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('href')") == "/tasks/one"  # nobody loses their place
    catalogue.tasks.change_status("one", TaskStatus.WAITING)
    page.locator("[data-task=one] .badge.waiting").wait_for()
    page.locator("[data-waiting]", has_text="1").wait_for()
    catalogue.tasks.change_status("one", TaskStatus.RUNNING)
    catalogue.tasks.change_status("one", TaskStatus.COMPLETED)
    page.locator("tr[data-task=two] + tr[data-task=one] .badge.completed").wait_for()  # below what is younger
    page.locator("[data-waiting]").wait_for(state="hidden")
    page.locator("[data-status=queued] b", has_text=re.compile("^1$")).wait_for()


def test_a_filtered_list_lets_go_of_what_no_longer_fits(page: Page, server: WebServer, catalogue: Catalogue) -> None:
    register(catalogue, "one", "Mend the login")
    register(catalogue, "two", "Write the guide")
    page.goto(f"{server.address}?status=running")
    page.locator("[data-live][data-on]").wait_for()
    for key, reached in (("j", "two"), ("j", "one"), ("j", "one"), ("k", "two")):
        page.keyboard.press(key)
        wait_for_focus(page, f"/tasks/{reached}")
    page.keyboard.press("/")
    page.keyboard.type("guide")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?search=guide&status=running")
    page.locator("[data-task=two]").wait_for()
    assert page.locator("tr[data-task]").count() == 1
    catalogue.tasks.change_status("two", TaskStatus.FAILED)
    page.get_by_text("No task fits these filters.").wait_for()


def test_a_page_that_nobody_sees_lets_go_and_catches_up(page: Page, server: WebServer, catalogue: Catalogue) -> None:
    register(catalogue, "one", "Mend the login")
    page.goto(server.address)
    page.locator("[data-live][data-on]").wait_for()
    page.evaluate(_HIDING, True)
    page.locator("[data-live]:not([data-on])").wait_for()
    register(catalogue, "two", "Write the guide")
    page.evaluate(_HIDING, False)
    page.locator("[data-task=two]").wait_for()


def test_workers_come_and_go(page: Page, server: WebServer, catalogue: Catalogue) -> None:
    page.goto(f"{server.address}workers")
    page.get_by_text("No worker has been here yet.").wait_for()
    register(catalogue, "one", "Mend the login")
    catalogue.workers.add("box-1", "1")
    catalogue.workers.note(WorkerStatistics("box-1", 4), "working", "one")
    page.get_by_role("row", name="box-1").get_by_role("link", name="Mend the login").wait_for()
    catalogue.workers.note(WorkerStatistics("box-1", 5), "stopped")
    page.get_by_text("Workers that have ended (1)").wait_for()


def test_charts_answer_to_pointer_and_keyboard(page: Page, server: WebServer, catalogue: Catalogue) -> None:
    usage(catalogue)
    page.goto(f"{server.address}statistics")
    chart = page.locator("figure[data-chart]").first
    chart.locator("rect.series").first.wait_for()
    for name in ("Slowest tools", "Storage"):  # they come later: from then on nothing moves
        page.get_by_role("heading", name=name).wait_for()
    assert chart.locator("rect.series").count() == 10  # five days, paid and saved
    chart.locator("[data-draw]").focus()
    page.keyboard.press("End")
    wait_for_tip(page, "Cost: $2.50\nSaved by folding: $1.25\nSum: $3.75")
    page.keyboard.press("ArrowLeft")
    wait_for_tip(page, "Cost: $5.00")
    page.keyboard.press("Escape")
    page.locator(".tip").wait_for(state="hidden")
    chart.get_by_role("button", name="Saved by folding", pressed=True).click()
    chart.get_by_role("button", name="Saved by folding", pressed=False).wait_for()
    assert chart.locator("rect.series").count() == 5
    box = chart.locator("rect.series").last.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    wait_for_tip(page, "Cost: $2.50")


@pytest.mark.parametrize("path", ["", "workers", "statistics"])
def test_pages_fit_on_a_phone_and_in_the_dark(
    browser: Browser, server: WebServer, catalogue: Catalogue, path: str
) -> None:
    usage(catalogue)
    register(catalogue, "one", "設定の読み込みを直す" * 8)
    catalogue.workers.add("box-with-a-very-long-name-that-goes-on-and-on", "1")
    context = browser.new_context(viewport=_PHONE, color_scheme="dark", locale="ja-JP")  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(server.login_address)
    page.wait_for_selector("header.top")
    page.goto(server.address + path)
    page.locator("main").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= _PHONE["width"]
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 27)"
    assert page.evaluate("document.documentElement.lang") == "ja"
    unnamed = "[...document.querySelectorAll('input, select')].filter((one) => !one.labels.length).length"
    assert page.evaluate(unnamed) == 0
    context.close()


# ---- coming in -----------------------------------------------------------------------------------------------------


def test_the_printed_address_works_in_a_page_that_is_open_already(browser: Browser, server: WebServer) -> None:
    with browser.new_context(locale="en-US") as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(f"{server.address}statistics")
        for token, shows in (("x" * 43, ".wrong"), (server.token, "header.top")):
            page.evaluate("token => { location.hash = `token=${token}`; }", token)
            page.wait_for_selector(shows)
            page.wait_for_url(f"{server.address}statistics")


def test_whoever_has_to_wait_is_told_so(browser: Browser, server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "FAILURE_SECONDS", 3600.0)  # however long it takes here
    stranger = Client(server, token="x" * 43)
    while stranger.as_program("GET", "/api/health").status != 429:
        pass
    with browser.new_context(locale="en-US") as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(server.login_address.replace(server.token, "y" * 43))
        page.wait_for_selector("text=Wait a minute")
        page.goto("about:blank")
        page.goto(server.login_address)
        page.wait_for_url(server.address)
