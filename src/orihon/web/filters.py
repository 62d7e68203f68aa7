"""How values look on a page: the filters of the templates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_THOUSAND = 1000
_BYTES_STEP = 1024


def plain(value: object) -> str:
    """A text from outside: what could not be seen, or would turn the line round, is made visible."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], str(value))


def count(value: float | None) -> str:
    """A number with its thousands apart."""
    return "–" if value is None else f"{value:,.0f}"


def short_count(value: float | None) -> str:
    """A number as people say it: ``4.2 k``."""
    if value is None:
        return "–"
    for unit in ("", "k", "M", "G"):
        if abs(value) < _THOUSAND:
            return f"{value:,.0f}{unit}" if not unit or abs(value) >= 100 else f"{value:,.1f}{unit}"
        value /= _THOUSAND
    return f"{value:,.1f}T"


def size(value: float | None) -> str:
    """A number of bytes."""
    if value is None:
        return "–"
    for unit in ("B", "KB", "MB", "GB"):
        if value < _BYTES_STEP:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= _BYTES_STEP
    return f"{value:,.1f} TB"


def money(value: float | None) -> str:
    """Dollars; small amounts to the hundredth of a cent."""
    if value is None:
        return "–"
    return f"${value:,.4f}" if 0 < value < 1 else f"${value:,.2f}"


def percent(value: float | None) -> str:
    """A share of 1."""
    return "–" if value is None else f"{100 * value:,.0f} %"


def moment(value: str | None) -> str:
    """A time of the records, in UTC; scripts put the reader's own time in its place."""
    return "–" if not value else value[:19].replace("T", " ")


FILTERS: dict[str, Callable[..., Any]] = {
    "plain": plain,
    "count": count,
    "short_count": short_count,
    "size": size,
    "money": money,
    "percent": percent,
    "moment": moment,
}
