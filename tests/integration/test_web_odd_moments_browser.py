"""A real Chromium in odd moments: two tabs, a double click, an ended session, a wrong clock, an erased task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orihon import TaskContextManager, erase_user, load_settings
from orihon.tasks.base import OpenBase
from orihon.tasks.view_reader import reading_view
from orihon.values.view import PlannedFold
from orihon.web.server import WebServer
from tests.browser import PATIENCE, TOASTS_STAY, chromium
from tests.integration.run_supervisor import eventually
from tests.integration.test_web_changes import start
from tests.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SETTINGS = load_settings({"context_storage": {"backend": "sqlite", "durability": "os"}}, environ={})
LOGGED_OUT = "not logged in any more"


@dataclass
class Place:
    """A task with three folds, and a server that shows it."""

    base: Path
    uuid: str
    server: WebServer

    def open(self, context: BrowserContext, path: str = "") -> Page:
        page = context.new_page()
        page.goto(self.server.login_address)
        page.locator("nav [data-place=tasks]").wait_for()
        return self.go(page, path or f"tasks/{self.uuid}")

    def go(self, page: Page, path: str) -> Page:
        page.goto(self.server.address + path)
        page.locator("[data-live][data-on]").wait_for()
        return page

    def changes(self) -> int:
        with reading_view(OpenBase(self.base, SETTINGS), self.uuid) as view:
            return len(list(view.compressions()))


def folded(task: TaskContextManager) -> None:
    for first in (2, 12, 22):
        task.message_store.folding.compress(
            [PlannedFold(first, first + 7, f"Steps from {first}.")], strategy="summarize"
        )


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    task = start(tmp_path / "contexts", SETTINGS)
    folded(task)
    task.stop()
    task.catalogue.close()
    with serving(tmp_path / "contexts", SETTINGS) as server:
        yield Place(tmp_path / "contexts", task.uuid, server)


@contextmanager
def seen_by(browser: Browser, **options: Any) -> Iterator[BrowserContext]:
    """Somebody's browser; a script that fails there fails the test."""
    problems: list[str] = []
    with closing(browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US", **options)) as context:
        context.on("weberror", lambda error: problems.append(str(error.error)))
        context.set_default_timeout(PATIENCE)
        context.add_init_script(TOASTS_STAY)
        yield context
    assert problems == []


def test_a_double_click_is_one_undo_and_a_key_held_down_is_too(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        context.clock.install()
        page = place.open(context)
        before, told = place.changes(), page.locator(".toast").filter(has_text="is undone")
        page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))  # on a busy machine a double click takes long
        page.locator("[data-actions] [data-act=undo]").dblclick()
        told.wait_for()
        page.wait_for_timeout(300)
        assert place.changes() == before + 1
        page.clock.run_for(1000)  # now it would be another wish
        page.locator("main").focus()
        page.keyboard.down("u")
        told.nth(1).wait_for()
        page.clock.run_for(1000)
        for _ in range(3):
            page.keyboard.down("u")  # repetitions
        page.keyboard.up("u")
        page.wait_for_timeout(300)
        assert place.changes() == before + 2


def test_two_tabs_that_change_at_once_wait_for_each_other(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        pages = [place.open(context) for _ in range(2)]
        before = place.changes()
        for page in pages:
            page.evaluate("document.querySelector('[data-actions] [data-act=undo]').click()")
        for page in pages:
            page.locator(".toast").filter(has_text="is undone").wait_for()
            page.locator("[data-count=compressions]").filter(has_text=str(before + 2)).wait_for()
            assert page.locator(".toast.bad").count() == 0


def test_a_fold_that_is_opened_while_it_is_undone_is_its_messages(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page, other = place.open(context, f"tasks/{place.uuid}?at=23"), place.open(context)
        held: list[Any] = []
        page.route(re.compile("/folds/3"), lambda route: held.append(route))
        with page.expect_request(re.compile("/folds/3")):
            page.locator("#f3 > details > summary").click()
        other.locator("[data-actions] [data-act=undo]").click()
        page.locator("#m25").wait_for()
        for route in held:
            route.continue_()
        page.wait_for_timeout(300)
        assert page.locator("#f3").count() == 0
        assert page.locator("#m25").count() == 1
        assert page.locator(".toast.bad").count() == 0


def test_who_is_logged_out_elsewhere_is_told_and_loses_nothing(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page, other = place.open(context), place.open(context)
        page.locator("[data-actions] [data-act=fork]").click()
        page.locator("dialog[open] input[name=at]").fill("7")
        other.locator("[data-logout]").click()
        other.locator("input[name=token]").wait_for()
        page.locator("dialog[open] [data-go]").click()
        page.locator("dialog[open] [data-problem]").filter(has_text=LOGGED_OUT).wait_for()
        assert page.locator("dialog[open] input[name=at]").input_value() == "7"
        page.keyboard.press("Escape")
        for _ in range(2):
            page.locator("[data-actions] [data-act=undo]").click()
            page.locator(".toast").filter(has_text=LOGGED_OUT).wait_for()
            page.wait_for_timeout(450)
        assert page.locator(".toast").count() == 1
        page.locator(".toast button").first.click()
        page.locator("input[name=token]").wait_for()


def test_an_erased_task_does_not_stay_on_a_screen(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        page.locator("#m40").wait_for()
        erase_user(place.base, SETTINGS, "me", by="a person")
        page.locator("h1").filter(has_text="404").wait_for()
        assert page.locator("#m40").count() == 0


def test_times_are_those_of_the_reader_and_ages_those_of_the_server(browser: Browser, place: Place) -> None:
    with seen_by(browser, timezone_id="Asia/Tokyo") as context:
        page = place.open(context, "search?query=decided")
        shown = page.locator("time:not([data-ago])").first
        stamp = datetime.fromisoformat(str(shown.get_attribute("datetime")))
        assert shown.text_content() == (stamp + timedelta(hours=9)).strftime("%Y-%m-%d %H:%M:%S")
    with seen_by(browser) as context:
        page = place.open(context)
        page.clock.install(time=datetime.now(UTC) + timedelta(hours=5))
        place.go(page, f"tasks/{place.uuid}")
        ages = page.locator("[data-head] time[data-ago]").all_text_contents()
        assert ages
        assert not [age for age in ages if "h" in age.split()], ages


def test_a_menu_closes_by_escape_and_lies_inside_the_window(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        opener = page.locator("details.menu > summary")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            opener.focus()
            page.keyboard.press("Enter")
            box = page.locator("details.menu ul").bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            page.keyboard.press("Escape")
            assert not page.locator("details.menu ul").is_visible()
            assert opener.evaluate("one => one === document.activeElement")


def test_on_a_phone_a_link_to_a_message_leads_to_it(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        page.set_viewport_size({"width": 390, "height": 800})
        place.go(page, f"tasks/{place.uuid}?at=11")
        page.wait_for_function(
            "() => { const at = document.querySelector('#m11').getBoundingClientRect();"
            " return at.top > 80 && at.top < 700 && scrollY > 300; }"
        )


#: Faster than any machine: twenty turns of the wheel with Ctrl held, away from what is looked at.
_TURNS_AT_ONCE = """() => {
  const plot = document.querySelector("[data-plot] svg"), box = plot.getBoundingClientRect();
  const at = { clientX: box.x + box.width / 2, clientY: box.y + 60 };
  for (let turn = 0; turn < 20; turn++)
    plot.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: 120, ctrlKey: true, bubbles: true, cancelable: true }));
}"""


def test_a_wheel_looks_closer_and_the_last_turn_counts(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        box = page.locator("[data-plot] svg").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
        page.keyboard.down("Control")
        for _ in range(20):
            page.mouse.wheel(0, -120)
        eventually(lambda: page.evaluate("timeline.data.last - timeline.data.first") == 10)
        middle = page.evaluate("(timeline.data.first + timeline.data.last) / 2")
        assert abs(middle - page.evaluate("timeline.data.end") / 2) <= 6
        page.keyboard.up("Control")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "timeline" in request.url else None)
        page.evaluate(_TURNS_AT_ONCE)
        eventually(lambda: page.evaluate("[timeline.data.first, timeline.data.last - timeline.data.end]") == [1, 0])
        assert 0 < len(asked) < 10


def test_the_address_of_a_folded_message_leads_into_its_fold_again(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        page.locator("#goto").fill("4")
        page.keyboard.press("Enter")
        page.locator("#m4.found").wait_for()
        page.wait_for_url(re.compile(r"\?at=4#m4$"))
        page.reload()
        page.locator("#m4.found").wait_for()
        assert page.locator("#m4").is_visible()


def test_a_key_that_leads_to_a_page_one_may_not_see_does_nothing(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        page.evaluate(
            "document.querySelector('[data-place=workers]').remove()"
        )  # as whoever is no administrator has it
        page.keyboard.press("g")
        page.keyboard.press("w")
        page.keyboard.press("g")
        page.keyboard.press("a")
        page.wait_for_url(re.compile("/approvals$"))


def test_what_was_written_is_there_again_after_escape_and_gone_after_cancel(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        for button, wanted in (("#f1 [data-act=edit]", "edit"), ("[data-actions] [data-act=compress]", "compress")):
            text = page.locator(f"dialog[data-dialog={wanted}] textarea").first
            page.locator(button).click()
            page.locator(f"dialog[data-dialog={wanted}] [data-go]:not([disabled])").wait_for()
            before = text.input_value()
            assert before
            text.fill("Mine, and long.")
            page.keyboard.press("Escape")
            text.wait_for(state="hidden")
            page.wait_for_timeout(500)  # a double click is one wish
            page.locator(button).click()
            page.locator(f"dialog[data-dialog={wanted}] [data-go]:not([disabled])").wait_for()
            assert text.input_value() == "Mine, and long."
            page.locator(f"dialog[data-dialog={wanted}] [data-close]").first.click()
            page.wait_for_timeout(500)
            page.locator(button).click()
            page.locator(f"dialog[data-dialog={wanted}] [data-go]:not([disabled])").wait_for()
            assert text.input_value() == before
            page.keyboard.press("Escape")
