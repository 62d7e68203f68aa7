"""The page of a task in a real browser: folds open in place, the log loads as one scrolls, what is new appears."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orihon import Settings, TaskContextManager, TaskKey, load_settings, view_at
from orihon.values.task import TaskStatus, new_uuid
from orihon.values.view import PlannedFold
from orihon.web.server import Listening, WebServer
from tests.browser import PATIENCE, chromium, late_news
from tests.ports import free_port
from tests.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MESSAGES = 1200
Open = Callable[[str], "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def settings() -> Settings:
    return load_settings({"context_storage": {"backend": "sqlite", "durability": "os"}}, environ={})


def begun(base: Path, settings: Settings, messages: int) -> TaskContextManager:
    task = TaskContextManager(base, TaskKey("github", "acme", "shop", "issue", "27", "mika"), settings)
    task.message_store.add_message("system", "You are careful.")
    for number in range(2, messages + 1):
        task.message_store.add_message(
            "user" if number % 2 else "assistant", f"This is message {number}. " * (number % 7)
        )
    return task


def fold(task: TaskContextManager, first: int, last: int, text: str) -> int:
    folding = task.message_store.folding
    return folding.compress([PlannedFold(first, last, text, reason="old")], strategy="summarize").folds[0]


@pytest.fixture
def task(tmp_path: Path, settings: Settings) -> Iterator[TaskContextManager]:
    """A short one, with a fold that holds another one."""
    made = begun(tmp_path, settings, 60)
    fold(made, 2, 9, "The first steps.")
    fold(made, 2, 20, "All early steps.")
    yield made
    made.stop()
    made.catalogue.close()


@pytest.fixture
def long_task(tmp_path: Path, settings: Settings) -> Iterator[TaskContextManager]:
    made = begun(tmp_path, settings, MESSAGES)
    yield made
    made.stop()
    made.catalogue.close()


@pytest.fixture
def server(tmp_path: Path, settings: Settings) -> Iterator[WebServer]:
    with serving(tmp_path, settings) as running:
        yield running


@pytest.fixture
def open_page(browser: Browser, server: WebServer) -> Iterator[Open]:
    """Opens an address of the server; whatever a page complains about fails the test."""
    context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(server.login_address)
    page.wait_for_selector("header.top")
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))

    def opened(path: str) -> Page:
        page.goto(server.address.rstrip("/") + path)
        page.wait_for_selector("[data-live][data-on]", state="attached")
        return page

    yield opened
    assert wrong == []
    context.close()


def numbers(page: Page) -> list[int]:
    """The messages that are on the page, in their order."""
    found = page.evaluate("[...document.querySelectorAll('[data-conversation] .message')].map(m => +m.dataset.seq)")
    return [int(number) for number in found]


def scroll(page: Page, place: str, until: str) -> None:
    """To a place of the conversation, and there again until something is so: the page may still be on its way itself.

    It goes to its end when it has been drawn, and looks a second time at what it was sent to.
    """
    box = "const box = document.querySelector('[data-conversation]')"
    page.wait_for_function(f"() => {{ {box}; if ({until}) return true; box.scrollTop = {place}; return false; }}")


def test_a_fold_opens_in_place_and_so_does_the_fold_in_it(task: TaskContextManager, open_page: Open) -> None:
    page = open_page(f"/tasks/{task.uuid}?at=10")
    assert page.locator("#m5").count() == 0
    page.locator("#f2 > details > summary").click()
    page.wait_for_selector("#f2 #f1")
    assert numbers(page)[:3] == [1, 10, 11]
    page.locator("#f1 > details > summary").click()
    page.wait_for_selector("#f1 #m5")
    assert numbers(page)[:10] == list(range(1, 11))
    page.locator("#f2 > details > summary").click()
    assert not page.locator("#m5").is_visible()


def test_a_jump_goes_into_the_folds_that_hold_the_message(long_task: TaskContextManager, open_page: Open) -> None:
    fold(long_task, 200, 500, "Some steps.")
    fold(long_task, 100, 900, "Most steps.")
    page = open_page(f"/tasks/{long_task.uuid}")
    page.fill("#goto", "300")
    page.keyboard.press("Enter")
    page.wait_for_selector("#f2 #f1 #m300.found")
    page.wait_for_function(_VISIBLE.format(seq=300))
    assert page.locator("#m230").count() == 0  # what stands far from it is not loaded
    page.locator("#f1 a[data-more]").first.click()
    page.wait_for_selector("#f1 #m241", state="attached")
    here = [number for number in numbers(page) if 200 <= number <= 500]
    assert here == list(range(here[0], here[-1] + 1))
    page = open_page(f"/tasks/{long_task.uuid}?at=800#m800")  # as a search leads to it
    page.wait_for_selector("#f2 #m800.found")


def test_the_timeline_leads_to_folds_and_messages(task: TaskContextManager, open_page: Open) -> None:
    page = open_page(f"/tasks/{task.uuid}")
    band = page.locator(".plot [data-mark=f2]")
    label = band.get_attribute("aria-label") or ""
    assert "messages 2–20" in label
    assert ", Summarize, " in label  # by its name, not by the word of the record
    assert "old" in label
    band.focus()
    assert "All" not in (page.locator(".tip").text_content() or "")
    band.press("Enter")
    page.wait_for_selector("#f2 #m15")
    box = page.locator(".plot svg").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + box["height"] / 2)
    page.wait_for_selector(".message.found")
    page.wait_for_function("() => location.search.startsWith('?at=4')")


def test_a_long_log_loads_as_one_scrolls_and_jumps_anywhere(long_task: TaskContextManager, open_page: Open) -> None:
    page = open_page(f"/tasks/{long_task.uuid}")
    assert numbers(page)[-1] == MESSAGES
    page.wait_for_selector(f"#m{MESSAGES}", state="visible")
    for _ in range(12):  # upwards
        first = numbers(page)[0]
        scroll(page, "0", f"+box.querySelector('.message').dataset.seq < {first}")
    here = numbers(page)
    assert here == list(range(here[0], here[-1] + 1))
    assert here[-1] < MESSAGES
    assert len(here) <= 9 * 40
    page.fill("#goto", "300")
    page.keyboard.press("Enter")
    page.wait_for_selector("#m300.found")
    page.wait_for_function(_VISIBLE.format(seq=300))
    page.wait_for_url(re.compile("at=300"))
    for _ in range(6):  # downwards
        last = numbers(page)[-1]
        scroll(page, "box.scrollHeight", f"+[...box.querySelectorAll('.message')].at(-1).dataset.seq > {last}")
    here = numbers(page)
    assert here == list(range(here[0], here[-1] + 1))
    page.locator("main").focus()
    page.keyboard.press("e")
    page.wait_for_selector(f"#m{MESSAGES}", state="visible")
    page.keyboard.press("b")
    page.wait_for_selector("#m1.found")


_VISIBLE = (
    "() => {{ const at = document.getElementById('m{seq}').getBoundingClientRect();"
    " const box = document.querySelector('[data-conversation]').getBoundingClientRect();"
    " return at.top >= box.top - 1 && at.top < box.bottom; }}"
)


def test_what_is_added_and_folded_appears_by_itself(task: TaskContextManager, open_page: Open) -> None:
    page = open_page(f"/tasks/{task.uuid}")
    store = task.message_store
    usage = page.locator("[data-tokens]").text_content()
    seq = store.add_message("user", "Is it <b>done</b>?")
    page.wait_for_selector(f"#m{seq}")
    assert page.locator(f"#m{seq} .said").inner_text() == "Is it <b>done</b>?"
    page.wait_for_function(_VISIBLE.format(seq=seq))
    page.wait_for_function("usage => document.querySelector('[data-tokens]').textContent !== usage", arg=usage)
    page.wait_for_selector(".plot [data-mark=f2]")
    number = fold(task, 21, 40, "The middle.")
    page.wait_for_selector(f"#f{number}", state="attached")
    page.wait_for_selector("#m30", state="detached")
    page.wait_for_selector(f".plot [data-mark=f{number}]")
    page.locator("[data-tab=changes]").filter(has_text=re.compile("^3$")).wait_for()
    assert not page.locator("[data-tab=plans]").is_visible()
    task.planning_store.add_plan("initial", ["one step"])
    page.locator("[data-tab=plans]").filter(has_text="1").wait_for()


def test_a_fold_that_is_made_before_the_page_hears_anything_is_on_it(
    task: TaskContextManager, server: WebServer, open_page: Open
) -> None:
    page = open_page("/")
    with late_news(page, f"{server.address}tasks/{task.uuid}", re.compile(f"/tasks/{task.uuid}/events")):
        number = fold(task, 21, 40, "The middle.")
    page.wait_for_selector(f"#f{number}", state="attached")


def test_a_queued_task_is_shown_when_it_begins(
    tmp_path: Path, settings: Settings, task: TaskContextManager, open_page: Open
) -> None:
    key = TaskKey("github", "acme", "shop", "issue", "28", "mika")
    queued = task.catalogue.tasks.register(key, new_uuid(), status=TaskStatus.QUEUED, prompt="Later.")
    page = open_page(f"/tasks/{queued.uuid}")
    assert page.locator("[data-conversation]").count() == 0
    claimed = task.catalogue.queue.claim(queued.uuid)
    assert claimed is not None
    with TaskContextManager(tmp_path, key, settings, uuid=queued.uuid, lease=claimed[1]) as begun:
        begun.message_store.add_message("user", "Now it has begun.")
        page.wait_for_selector("[data-conversation] #m1")
        begun.message_store.add_message("assistant", "And goes on.")
        page.wait_for_selector("[data-conversation] #m2")


def test_who_reads_further_up_is_told_and_not_pulled_down(task: TaskContextManager, open_page: Open) -> None:
    page = open_page(f"/tasks/{task.uuid}")
    scroll(page, "0", "box.scrollTop === 0")
    seqs = [task.message_store.add_message("user", f"More {number}.") for number in range(3)]
    page.wait_for_function("() => document.querySelector('[data-news]').textContent.includes('3')")
    box = "document.querySelector('[data-conversation]')"
    assert page.evaluate(f"{box}.scrollHeight - {box}.scrollTop - {box}.clientHeight") > 500
    page.locator("[data-news]").click()
    page.wait_for_function(_VISIBLE.format(seq=seqs[-1]))
    assert page.locator("[data-news]").is_hidden()


def test_a_page_comes_back_after_a_restart_of_the_server(
    task: TaskContextManager, browser: Browser, settings: Settings, tmp_path: Path
) -> None:
    context = browser.new_context(locale="en-US")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    port = free_port()  # the second server comes back to it: nobody may get it meanwhile
    with serving(tmp_path, settings, Listening(port=port)) as first:
        page.goto(first.login_address)
        page.wait_for_selector("header.top")
        page.goto(f"{first.address}tasks/{task.uuid}")
        page.wait_for_selector("[data-live][data-on]", state="attached")
    page.wait_for_selector("[data-live]:not([data-on])", state="attached")
    seqs = [task.message_store.add_message("user", f"Said meanwhile {number}.") for number in range(30)]
    with serving(tmp_path, settings, Listening(port=port)):
        page.wait_for_selector(f"#m{seqs[-1]}")
        found = numbers(page)
        assert found[-30:] == seqs
    context.close()


def test_what_the_model_saw_and_what_a_change_did(task: TaskContextManager, open_page: Open, tmp_path: Path) -> None:
    page = open_page(f"/tasks/{task.uuid}?at=30")
    page.locator("#m30 details.acts > summary").click()
    page.locator("#m30 details.acts a").click()
    page.wait_for_url(re.compile(r"/view\?at=30$"))
    seen = view_at(tmp_path, task.uuid, 30, task.settings)
    lines = page.evaluate("[...document.querySelectorAll('[data-raw]')].map(one => one.textContent)")
    assert lines == [line.decode() for line in seen.lines]
    page.goto(page.url.replace("/view?at=30", "/compare/2"))
    assert "The first steps." in page.locator(".side.before").inner_text()
    assert "All early steps." in page.locator(".side.after").inner_text()


@pytest.mark.parametrize("path", ["", "/view", "/compare/2", "?tab=changes", "?tab=tools"])
def test_a_narrow_dark_japanese_page_needs_no_sideways_scrolling(
    task: TaskContextManager, browser: Browser, server: WebServer, path: str
) -> None:
    viewport = {"width": 390, "height": 844}
    context = browser.new_context(locale="ja-JP", color_scheme="dark", viewport=viewport)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(server.login_address)
    page.wait_for_selector("header.top")
    page.goto(f"{server.address}tasks/{task.uuid}{path}")
    page.wait_for_selector("[data-live]", state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert re.search(r"[ぁ-んァ-ン]", page.locator("main").inner_text())
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 27)"
    context.close()
