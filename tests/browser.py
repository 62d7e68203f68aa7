"""A real Chromium for tests of pages: Debian's, driven by Playwright.

Without it such a test is skipped and says how to get it; in continuous integration (``CI=true``) it fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from re import Pattern

    from playwright.sync_api import Browser, Page, Route

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
#: For a context: what pages show for some seconds is there for minutes. A busy machine may be slower than any reader.
TOASTS_STAY = """(() => {
  const later = window.setTimeout;
  window.setTimeout = (act, delay, ...rest) => later(act, delay >= 8000 ? delay * 30 : delay, ...rest);
})()"""
#: Milliseconds, for a context; nothing takes so long unless it hangs.
PATIENCE = 120_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    path = shutil.which("chromium")
    if path is None:
        _missing("no chromium; install it with: apt-get install chromium fonts-noto-cjk")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("no playwright; install it with: pip install -e '.[dev]'")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS, timeout=120_000)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def late_news(page: Page, address: str, stream: Pattern[str]) -> Iterator[None]:
    """Open a page that hears nothing before the block is over."""
    from playwright.sync_api import Error

    held: list[Route] = []
    is_over = False

    def meet(route: Route) -> None:
        if is_over:
            route.continue_()
        else:
            held.append(route)

    page.route(stream, meet)
    with page.expect_request(stream):
        page.goto(address)
    yield
    is_over = True
    for route in held:
        with suppress(Error):  # a page that was left has given its request up
            route.continue_()


def _missing(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
