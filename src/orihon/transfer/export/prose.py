"""What people and models write, as HTML: code blocks, headings, code and bold type; everything else word for word.

Only this much of Markdown is known. Links and pictures stay text: a page must not fetch or open anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orihon.transfer.export.html_text import Html, escape, join, tag

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)")
_HEADING = re.compile(r"^ {0,3}#{1,6} +(\S.*)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*")


def prose(text: str) -> Html:
    """A text as blocks."""
    return join(_blocks(text))


def code(text: str, language: str = "") -> Html:
    """A text as it is; of a difference, what came and what went is marked."""
    is_diff = language.strip().lower() in ("diff", "patch")
    return tag("pre", _marked(text) if is_diff else text, dir="auto")


def _blocks(text: str) -> Iterator[Html]:
    plain: list[str] = []
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        fence = _FENCE.fullmatch(line)
        if fence is None:
            plain.append(line)
            continue
        yield from _paragraphs(plain)
        plain = []
        yield code("\n".join(_until(lines, fence[1])), fence[2])
    yield from _paragraphs(plain)


def _until(lines: Iterator[str], fence: str) -> Iterator[str]:
    """The lines up to the end of a code block; one that is never closed goes on to the end."""
    for line in lines:
        bare = line.strip()
        if len(bare) >= len(fence) and not bare.strip(fence[0]):
            return
        yield line


def _paragraphs(lines: list[str]) -> Iterator[Html]:
    text = "\n".join(lines).strip("\n")
    if text.strip(" \t\n"):
        # Escaped first: what is put around it afterwards is the only markup there is.
        headed = _HEADING.sub(r'<strong class="heading">\1</strong>', escape(text))
        yield tag("div", Html(_INLINE.sub(_styled, headed)), cls="prose", dir="auto")


def _styled(match: re.Match[str]) -> str:
    return f"<code>{match[1]}</code>" if match[1] else f"<strong>{match[2]}</strong>"


def _marked(text: str) -> Html:
    return join((_diff_line(line) for line in text.split("\n")), "\n")


def _diff_line(line: str) -> Html:
    kind = {"+": "ins", "-": "del"}.get(line[:1])
    return escape(line) if kind is None or line[:3] in ("+++", "---") else tag(kind, line)
