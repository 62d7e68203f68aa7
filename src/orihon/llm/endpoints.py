"""From the address that somebody configured to the one that requests go to."""

from __future__ import annotations

import base64
import re
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from orihon.errors import Unreachable


def endpoint(base_url: str, prefix: str, path: str, *, instead_of: str = "") -> str:
    """``base_url`` with ``path`` behind it; ``prefix`` is added when it has no path, or one that is ``instead_of``."""
    parts = parsed(base_url)
    base = parts.path.rstrip("/")
    if base in ("", instead_of):
        base = prefix
    if not base.endswith(path):
        base += path
    return urlunsplit((parts.scheme, parts.netloc, base, parts.query, ""))


def parsed(url: str) -> SplitResult:
    """An address in its parts, if it is one."""
    try:
        return urlsplit(url)
    except ValueError as error:  # which may quote a password
        raise Unreachable("url", url="?", detail=re.sub("'.*'", "…", str(error), flags=re.DOTALL)) from None


def without_user(url: str) -> tuple[str, str | None]:
    """An address without the user's name and password, and the header that stands for them: addresses are logged."""
    parts = parsed(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    encoded = base64.b64encode(unquote(user).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {encoded}"
