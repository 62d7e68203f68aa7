"""Statements by name: a ``.sql`` file with a line ``-- name: …`` above each of them."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@cache
def statements(package: str, name: str) -> dict[str, bytes]:
    """The statements of ``sql/<name>`` in a package, without their comments, as the driver takes them."""
    text = files(package).joinpath("sql", name).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return {
        found: _COMMENT.sub("", body.lstrip("\n")).strip().encode()
        for found, body in zip(parts[::2], parts[1::2], strict=True)
    }
