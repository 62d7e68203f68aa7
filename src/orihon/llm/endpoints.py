"""From the address that somebody configured to the one that requests go to."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit, urlunsplit


def endpoint(base_url: str, prefix: str, path: str, *, instead_of: str = "") -> str:
    """``base_url`` with ``path`` behind it; ``prefix`` is added when it has no path, or one that is ``instead_of``."""
    parts = urlsplit(base_url)
    base = parts.path.rstrip("/")
    if base in ("", instead_of):
        base = prefix
    if not base.endswith(path):
        base += path
    return urlunsplit((parts.scheme, parts.netloc, base, parts.query, ""))


def without_user(url: str) -> tuple[str, str | None]:
    """An address without the user's name and password, and the header that stands for them: addresses are logged."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    encoded = base64.b64encode(unquote(user).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {encoded}"
