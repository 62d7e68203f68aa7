"""A real Chromium for tests of pages: Debian's, driven by Playwright.

Without it such a test is skipped and says how to get it; in continuous integration (``CI=true``) it fails.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


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


def _missing(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
