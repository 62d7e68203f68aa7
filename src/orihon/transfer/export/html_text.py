"""HTML out of text: the one place where text from outside becomes part of a page.

``tag`` escapes everything that is not ``Html`` already, in contents and attributes alike, so that a page put together
with it holds no markup but our own. Controls and marks that turn text round are written out.
"""

from __future__ import annotations

from collections.abc import Iterable

from orihon.transfer.export.visible import visible

_ENTITIES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))
_VOID = frozenset({"hr", "img", "meta"})


class Html(str):
    """Text that is HTML already; made here and from constants, never from what a task holds."""

    __slots__ = ()


def escape(value: object) -> Html:
    """Any text as HTML that shows it."""
    if isinstance(value, Html):
        return value
    shown = visible(str(value))
    for char, entity in _ENTITIES:
        if char in shown:
            shown = shown.replace(char, entity)
    return Html(shown)


def opening(name: str, /, **attributes: str | bool | None) -> Html:
    """The start of an element; ``None`` and ``False`` leave an attribute out. ``cls`` is its class."""
    written = []
    for attribute, value in attributes.items():
        if value is True:
            written.append(f" {attribute}")
        elif value not in (None, False, ""):
            written.append(f' {"class" if attribute == "cls" else attribute}="{escape(value)}"')
    return Html(f"<{name}{''.join(written)}>")


def closing(name: str) -> Html:
    return Html(f"</{name}>")


def tag(name: str, /, *contents: object, **attributes: str | bool | None) -> Html:
    """An element with its contents; what is not HTML yet is escaped."""
    start = opening(name, **attributes)
    return start if name in _VOID else Html(start + join(contents) + closing(name))


def join(contents: Iterable[object], between: str = "") -> Html:
    """One piece of HTML out of several."""
    return Html(between.join(map(escape, contents)))
