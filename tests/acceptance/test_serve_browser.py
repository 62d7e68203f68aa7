"""The page of ``orihon serve`` in a real Chromium, through the real command: live, for everybody, after a crash."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold
from tests.browser import PATIENCE, chromium
from tests.command_walk import prepare
from tests.damage import settings_for
from tests.looking import cut_tables, faint_texts, too_wide, unnamed_things, unspoken
from tests.ports import free_port
from tests.serving_command import Served, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SETTINGS = settings_for("files")
KEY = TaskKey("github", "team", "garden", "issue", "12", "ana")
PLACES = ("", "approvals", "search", "search?query=step", "statistics", "workers", "notifications", "settings", "api")
OF_TASK = (
    *("", "?tab=tools", "?tab=plans", "?tab=summaries", "?tab=changes", "?tab=questions", "?tab=chain"),
    *("/view?at=8", "/compare/1"),
)
ALL = (
    *PLACES,
    *(f"tasks/paused-1{part}" for part in OF_TASK),
    "tasks/waiting-1",
    "tasks/waiting-1/phases/1",
    "nowhere",
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    prepare(folder)
    return folder / "contexts"


@pytest.fixture(scope="module")
def served(base: Path) -> Iterator[Served]:
    with serve(base) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@contextmanager
def window(browser: Browser, served: Served, **options: Any) -> Iterator[Page]:
    """A window whose reader has come in; nothing may go wrong in it."""
    problems: list[str] = []
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(served.login_address)
    page.wait_for_selector("nav [aria-current]")
    page.wait_for_load_state()  # its styles are there, and its buttons do something
    yield page
    context.close()
    assert problems == []


@pytest.fixture(scope="module")
def reader(browser: Browser, served: Served) -> Iterator[Page]:
    with window(browser, served) as page:
        yield page


def started_task(base: Path, uuid: str) -> TaskContextManager:
    task = TaskContextManager(base, KEY, SETTINGS, uuid=uuid, inherit=False)
    task.message_store.add_message("system", "You are a coding agent.")
    task.message_store.add_message("user", "Mend the garden gate.")
    return task


def on(page: Page) -> None:
    page.wait_for_selector("[data-live][data-on]", state="attached")


def test_the_token_opens_the_page_and_leaves_the_address(browser: Browser, served: Served) -> None:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(served.login_address)
    page.wait_for_selector("nav [aria-current]")
    assert page.url == served.address
    for _ in range(2):  # once more, by somebody who is in already: in the same window, and in a new one
        page.goto(served.login_address)
        on(page)
        page.wait_for_url(served.address)
        page = context.new_page()
    page.goto(served.address)
    cookie = next(one for one in context.cookies() if one["name"].startswith("orihon_session"))
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.locator("[data-logout]").click()
    page.wait_for_url("**/login")
    assert page.goto(served.address).status == 401  # type: ignore[union-attr]
    context.close()


def test_the_form_works_without_scripts(browser: Browser, served: Served) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{served.address}workers")
    page.get_by_label("Token").fill("a guess")
    page.get_by_role("button").click()
    assert "not the token" in page.locator("[role=alert]").inner_text()
    page.get_by_label("Token").fill(served.token)
    page.get_by_role("button").click()
    page.locator("h1", has_text=re.compile("^Tasks$")).wait_for()
    page.goto(f"{served.address}tasks/paused-1")
    assert "paused-1" in page.locator("main").inner_text()
    context.close()


def test_a_task_fills_and_folds_while_somebody_watches(base: Path, browser: Browser, served: Served) -> None:
    task = started_task(base, "live-1")
    with window(browser, served) as page:
        page.wait_for_selector("text=garden")
        page.goto(f"{served.address}tasks/live-1")
        on(page)
        seen = int(page.locator("[data-tokens]").inner_text().replace(",", ""))
        for number in range(6):
            task.message_store.add_message(
                "user" if number % 2 else "assistant", f"leaf-{number} " + "grows well " * 60
            )
            page.wait_for_selector(f".conversation >> text=leaf-{number}")
        filled = _tokens(page, lambda now: now > seen)
        task.message_store.folding.compress([PlannedFold(3, 6, "The leaves grew well.", reason="they are many")])
        page.wait_for_selector(".conversation >> text=The leaves grew well.")
        page.wait_for_selector("text=leaf-0", state="hidden")
        assert _tokens(page, lambda now: now < filled) < filled
        page.wait_for_selector("text=leaf-5")
        task.stop()
        task.catalogue.close()
        page.wait_for_selector("[data-status=paused]")


def test_a_fold_opens_in_place(base: Path, browser: Browser, served: Served) -> None:
    task = started_task(base, "live-2")
    for number in range(4):
        task.message_store.add_message("user" if number % 2 else "assistant", f"root-{number}")
    task.message_store.folding.compress([PlannedFold(3, 5, "Roots were looked at.")])
    task.stop()
    task.catalogue.close()
    with window(browser, served) as page:
        page.goto(f"{served.address}tasks/live-2")
        inside = page.locator(".conversation >> text=root-0")
        assert inside.count() == 0 or not inside.first.is_visible()
        page.locator(".conversation .fold summary").first.click()
        inside.first.wait_for(state="visible")


def test_a_page_finds_its_server_again_after_a_crash(base: Path, browser: Browser) -> None:
    task = started_task(base, "live-3")
    with serve(base, port=free_port()) as first, window(browser, first) as page:
        page.goto(f"{first.address}tasks/live-3")
        on(page)
        first.kill()
        page.wait_for_selector("[data-live]:not([data-on])", state="attached")
        task.message_store.add_message("assistant", "said while nobody listened")
        with serve(base, port=first.port) as second:
            assert second.token == first.token
            on(page)
            page.wait_for_selector("text=said while nobody listened")
            task.message_store.add_message("assistant", "and now live again")
            page.wait_for_selector("text=and now live again")
    task.stop()
    task.catalogue.close()


def test_the_language_can_be_switched(browser: Browser, served: Served) -> None:
    with window(browser, served) as page:
        page.get_by_role("button", name="日本語").click()
        page.wait_for_selector("html[lang=ja]")
        assert page.locator("h1").inner_text() == "タスク"
        for place in (*PLACES, "tasks/paused-1", "tasks/waiting-1"):
            page.goto(served.address + place)
            shown = page.locator("body").inner_text()
            # English that nobody has said in a task, and that is no name of a command or a setting.
            assert re.findall(r"\b(?:Tasks|Approvals|Settings|Workers|Statistics|Nothing|Log out)\b", shown) == []
        page.get_by_role("button", name="English").click()
        page.wait_for_selector("html[lang=en]")
    with window(browser, served, locale="ja-JP") as page:
        assert page.locator("html").get_attribute("lang") == "ja"


@pytest.mark.parametrize("place", ALL)
def test_a_page_is_for_everybody(place: str, reader: Page, served: Served) -> None:
    """Names for screen readers, contrast in both schemes, no scrolling sideways on a phone."""
    reader.set_viewport_size({"width": 1280, "height": 800})
    reader.goto(served.address + place)
    reader.wait_for_selector("main")
    assert unnamed_things(reader) == []
    assert unspoken(reader) == []
    for scheme in ("dark", "light"):
        reader.emulate_media(color_scheme=scheme)
        assert faint_texts(reader) == []
    reader.set_viewport_size({"width": 390, "height": 844})
    assert _still_found(reader, too_wide) == []
    assert _still_found(reader, cut_tables) == []


def test_dark_and_light_follow_the_system_and_the_switch(browser: Browser, served: Served) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    with window(browser, served, color_scheme="dark") as page:
        assert page.evaluate(paper) == "rgb(21, 23, 27)"
        page.locator("[data-theme-switch]").click()
        assert page.evaluate(paper) == "rgb(250, 248, 244)"
        page.reload()
        assert page.evaluate(paper) == "rgb(250, 248, 244)"
    with window(browser, served, color_scheme="light") as page:
        assert page.evaluate(paper) == "rgb(250, 248, 244)"


def test_everything_is_reached_by_keys(reader: Page, served: Served) -> None:
    reader.set_viewport_size({"width": 1280, "height": 800})
    reader.goto(served.address)
    reader.keyboard.press("Tab")
    reader.wait_for_selector(".skip:focus")
    reader.keyboard.press("Enter")
    reader.wait_for_selector("#main:focus")
    reader.keyboard.press("j")
    reader.wait_for_selector(":is([data-walk]:focus, [data-walk] :focus)")
    for keys, path in (
        ("ga", "approvals"),
        ("gs", "statistics"),
        ("gw", "workers"),
        ("gn", "notifications"),
        ("gf", "search"),
    ):
        for key in keys:
            reader.keyboard.press(key)
        reader.wait_for_url(f"**/{path}")
    reader.keyboard.press("/")
    reader.wait_for_selector("[data-find]:focus")
    reader.keyboard.press("Tab")
    outline = reader.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    reader.goto(served.address)
    reader.keyboard.press("?")
    reader.locator("dialog[data-keys-dialog]").wait_for(state="visible")
    reader.keyboard.press("Escape")
    reader.locator("dialog[data-keys-dialog]").wait_for(state="hidden")


def _still_found(page: Page, look: Callable[[Page], list[str]]) -> list[str]:
    """What is there although the page had time: charts follow the size of the window a few frames later."""
    until = time.monotonic() + 20
    while (found := look(page)) and time.monotonic() < until:
        page.wait_for_timeout(50)
    return found


def _tokens(page: Page, holds: Any) -> int:
    """The figure beside the meter, once it is as wanted."""
    for _ in range(1200):
        now = int(page.locator("[data-tokens]").inner_text().replace(",", ""))
        if holds(now):
            return now
        page.wait_for_timeout(50)
    raise AssertionError(now)
