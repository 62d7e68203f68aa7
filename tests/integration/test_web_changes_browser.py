"""Changing a task in a real Chromium: preview, fold, undo, edit, fork; and notices that come with a way back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orihon import Settings, load_settings
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.tasks.base import OpenBase
from orihon.tasks.hand_edits import apply_preview, change_view, preview_compression
from orihon.tasks.view_reader import reading_view
from tests.browser import PATIENCE, TOASTS_STAY, chromium
from tests.integration.run_supervisor import eventually
from tests.integration.test_web_changes import start
from tests.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

SETTINGS = load_settings({"context_storage": {"backend": "sqlite"}}, environ={})


@dataclass
class Screen:
    """A task, and somebody who looks at the site."""

    base: Path
    uuid: str
    page: Page
    address: str
    settings: Settings = SETTINGS

    def open(self, path: str = "") -> Page:
        self.page.goto(f"{self.address}{path or f'tasks/{self.uuid}'}")
        self.page.locator("[data-live][data-on]").wait_for()
        return self.page

    def dialog(self) -> Locator:
        return self.page.locator("dialog[open]")

    def toast(self, words: str) -> Locator:
        return self.page.locator(".toast").filter(has_text=words)

    def view(self) -> list[str]:
        with reading_view(OpenBase(self.base, self.settings), self.uuid) as view:
            return [str(shown.message.get("content")) for shown in view.entries()]

    def label(self) -> str:
        """What people call the task."""
        with open_catalogue(self.base, self.settings) as catalogue:
            return catalogue.tasks.get(self.uuid).key.label

    def fold(self) -> int:
        """As somebody else does it, meanwhile."""
        planned = preview_compression(OpenBase(self.base, self.settings), self.uuid, target=0.001)
        return apply_preview(OpenBase(self.base, self.settings), planned, made_by="cli").record.id


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def screen(browser: Browser, tmp_path: Path) -> Iterator[Screen]:
    task = start(tmp_path / "contexts", SETTINGS)
    task.stop()
    task.catalogue.close()
    problems: list[str] = []
    with (
        serving(tmp_path / "contexts", SETTINGS) as server,
        closing(browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")) as context,
    ):
        context.add_init_script(TOASTS_STAY)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(server.login_address)
        page.locator("nav [data-place=tasks]").wait_for()
        page.on("pageerror", lambda error: problems.append(str(error)))
        yield Screen(tmp_path / "contexts", task.uuid, page, server.address)
    assert problems == []


def test_preview_edit_fold_undo_and_redo(screen: Screen) -> None:
    before = screen.view()
    page = screen.open()
    page.keyboard.press("c")
    dialog = screen.dialog()
    dialog.get_by_text("facts kept").first.wait_for()
    assert screen.view() == before
    assert re.search(r"[0-9,]+ → [0-9,]+ tokens", dialog.locator(".sum").inner_text())
    dialog.get_by_label("Text for").first.fill("What we did first, in my words.")
    dialog.get_by_role("button", name="Fold like this").click()
    screen.toast("Folded:").get_by_role("button", name="Undo").wait_for()
    assert "What we did first, in my words." in "\n".join(screen.view())
    assert page.locator("dialog[open]").count() == 0
    page.get_by_text("What we did first, in my words.").first.wait_for()  # the conversation followed
    screen.toast("Folded:").get_by_role("button", name="Undo").click()
    screen.toast("is undone").wait_for()
    assert screen.view() == before
    page.locator("[data-actions] [data-act=redo]:not([disabled])").wait_for()  # and so did the buttons
    page.locator("main").focus()
    page.keyboard.press("r")
    screen.toast("is made again").wait_for()
    assert len(screen.view()) < len(before)


def test_a_preview_of_what_has_changed_is_refused_and_made_anew(screen: Screen) -> None:
    page = screen.open()
    page.get_by_role("button", name="Fold now…").click()
    dialog = screen.dialog()
    dialog.get_by_text("facts kept").first.wait_for()
    number = screen.fold()
    dialog.get_by_role("button", name="Fold like this").click()
    dialog.get_by_text("What this preview folds has been changed since it was made.").wait_for()
    dialog.locator(".planned[aria-busy=false]").wait_for()
    with reading_view(OpenBase(screen.base, screen.settings), screen.uuid) as view:
        assert view.compression == number
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def test_a_text_that_is_refused_stays_in_the_dialog(screen: Screen) -> None:
    line = "We decided to keep part 0."
    change_view(OpenBase(screen.base, screen.settings), screen.uuid, "pin", 3, line, made_by="")
    page = screen.open()
    page.keyboard.press("c")
    dialog = screen.dialog()
    text = dialog.get_by_label("Text for").first
    text.fill("Without the line.")
    dialog.get_by_role("button", name="Fold like this").click()
    dialog.get_by_role("alert").get_by_text("would drop a pinned line").wait_for()
    assert text.input_value() == "Without the line."
    text.fill(f"With it: {line}")
    dialog.get_by_role("button", name="Fold like this").click()
    screen.toast("Folded:").wait_for()


def test_a_fold_gets_another_text(screen: Screen) -> None:
    screen.fold()
    page = screen.open(f"tasks/{screen.uuid}?at=2")
    page.locator("[data-act=edit]").first.click()
    dialog = screen.dialog()
    text = dialog.get_by_label("Text", exact=True)
    assert "src/part" in text.input_value()
    text.fill("Everything was read.")
    dialog.get_by_role("button", name="Save").click()
    screen.toast("has the new text").get_by_role("button", name="Undo").wait_for()
    assert "Everything was read." in "\n".join(screen.view())
    screen.toast("has the new text").get_by_role("button", name="Undo").click()
    screen.toast("is undone").wait_for()
    assert "Everything was read." not in "\n".join(screen.view())


def test_what_is_compared_is_undone_and_redone_there(screen: Screen) -> None:
    number = screen.fold()
    page = screen.open(f"tasks/{screen.uuid}/compare/{number}")
    folded = screen.view()
    page.locator("main [data-act=undo]").click()
    screen.toast("is undone").wait_for()
    again = page.locator("main [data-act=redo]")
    again.wait_for()
    assert page.locator("main [data-act=undo]").count() == 0
    assert len(screen.view()) > len(folded)
    again.click()
    screen.toast("is made again").wait_for()
    page.locator("main [data-act=undo]").wait_for()
    assert screen.view() == folded
    page.goto(page.url.replace(f"/compare/{number}", f"/compare/{number + 1}"))  # the undo: there is no undo of that
    assert page.locator("main [data-act]").count() == 0


def test_a_task_is_forked_and_a_message_pinned(screen: Screen) -> None:
    page = screen.open()
    page.locator("[data-actions]").get_by_role("button", name="Fork…").click()
    dialog = screen.dialog()
    dialog.get_by_label("Up to message").fill("999")
    dialog.get_by_role("button", name="Fork").click()
    dialog.get_by_role("alert").get_by_text("999").wait_for()
    dialog.get_by_label("Up to message").fill("5")
    dialog.get_by_role("button", name="Fork").click()
    screen.toast("A new task begins").get_by_role("button", name="Open it").click()
    page.wait_for_url(lambda url: screen.uuid not in url and "/tasks/" in url)
    message = page.locator("#m5")
    message.locator("details.acts summary").click()
    message.locator("[data-act=pin]").click()
    screen.toast("Message 5 is pinned").get_by_role("button", name="Undo").click()
    screen.toast("no longer pinned").wait_for()


def test_what_others_fold_is_told_on_every_page_with_a_way_back(screen: Screen) -> None:
    before = screen.view()
    page = screen.open("workers")
    page.wait_for_function("() => document.querySelector('[data-waiting]').title !== ''")  # it has heard how things are
    screen.fold()
    toast = screen.toast("The context was compressed")
    toast.get_by_role("button", name="View original").wait_for()
    assert screen.label() in toast.inner_text()
    toast.get_by_role("button", name="Undo").click()
    screen.toast("Undone:").wait_for()
    eventually(lambda: screen.view() == before)
    feed = screen.open("notifications")
    feed.get_by_text("The context was compressed").first.wait_for()
    assert feed.locator("[data-undo]").count() == 0  # it is undone already
    screen.fold()
    feed.locator("[data-undo]").first.click()
    screen.toast("Undone:").wait_for()
    assert screen.view() == before


def test_who_looks_at_a_task_is_not_told_its_name_nor_that_it_is_full(screen: Screen) -> None:
    page = screen.open()
    page.wait_for_function("() => document.querySelector('[data-waiting]').title !== ''")
    with open_catalogue(screen.base, screen.settings) as catalogue:
        catalogue.outbox.add(NewNotice("e1", "recommended", "warning", screen.uuid, {}))
        catalogue.outbox.add(NewNotice("e2", "failed", "error", screen.uuid, {}))
    told = page.locator("[data-notice]")
    told.wait_for()
    assert told.count() == 1
    assert screen.label() not in told.inner_text()
    assert told.get_by_role("button").all_text_contents() == ["Close"]


def test_many_notices_are_three_and_a_number(screen: Screen) -> None:
    page = screen.open("workers")
    page.wait_for_function("() => document.querySelector('[data-waiting]').title !== ''")
    with open_catalogue(screen.base, screen.settings) as catalogue:
        for number in range(8):
            catalogue.outbox.add(NewNotice(f"e{number}", "failed", "error", screen.uuid, {}))
    page.locator("[data-more-notices]").wait_for()
    page.wait_for_function(
        "() => document.querySelectorAll('[data-notice]').length === 3"
        " && document.querySelector('[data-more-notices]').dataset.moreNotices === '5'"
    )
    screen.toast("More notices: 5").get_by_role("button", name="See them").click()
    page.wait_for_url("**/notifications")
    assert page.locator(".feed li").count() == 8
