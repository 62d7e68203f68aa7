"""A real Chromium with windows of many sizes: low ones, and those between a phone and a desk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orihon import TaskContextManager
from tests.integration.test_web_odd_moments_browser import SETTINGS, Place, browser, place, seen_by

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser", "place"]  # fixtures

#: Whether the end of the conversation is inside the window, once nothing moves any more.
_END_IS_SEEN = """() => {
  const box = document.querySelector("[data-conversation]");
  const last = [...box.querySelectorAll(":scope > .stretch > [data-seq]")].at(-1);
  return last.getBoundingClientRect().bottom <= Math.min(innerHeight, box.getBoundingClientRect().bottom);
}"""


def resize(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1366, 700), (1200, 800)])
def test_a_low_window_shows_the_newest_message(browser: Browser, place: Place, width: int, height: int) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        resize(page, width, height)
        page.reload()
        page.wait_for_function(_END_IS_SEEN)
        assert page.evaluate("scrollY") == 0


def test_a_window_made_lower_goes_on_following_the_end(browser: Browser, place: Place) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        page.wait_for_function(_END_IS_SEEN)
        resize(page, 1280, 720)
        page.wait_for_function(_END_IS_SEEN)
        task = TaskContextManager.resume(place.base, place.uuid, SETTINGS)
        task.message_store.add_message("user", "Something new at the end. " * 12)
        page.locator("[data-conversation] article").filter(has_text="Something new at the end").wait_for()
        page.wait_for_function(_END_IS_SEEN)
        assert not page.locator("[data-news]").is_visible()
        task.stop()
        task.catalogue.close()


@pytest.mark.parametrize("width", [1080, 1000, 900, 768, 721])
def test_between_a_phone_and_a_desk_names_are_not_squeezed(browser: Browser, place: Place, width: int) -> None:
    with seen_by(browser) as context:
        page = place.open(context)
        resize(page, width, 1000)
        title = page.locator("h1").bounding_box()
        assert title is not None
        assert title["height"] < 80, title
        for name in page.locator("header nav a").all():
            box = name.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width, name.inner_text()
        place.go(page, "")
        row = page.locator("td.about").first.bounding_box()
        assert row is not None
        assert row["width"] > 160, row
        assert page.evaluate("document.documentElement.scrollWidth") <= width
