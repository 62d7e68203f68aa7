"""What people and models write, as HTML: code blocks, headings, code and bold type; everything else word for word.

Only this much of Markdown is known. Links and pictures stay text: a page must not fetch or open anything. This is the
one place where what was said becomes HTML; everything else stays text, which templates escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup

from orihon.transfer.export.visible import visible

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)")
_HEADING = re.compile(r"^ {0,3}#{1,6} +(\S.*)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*")


def escape(text: str) -> Markup:
    """Any text as HTML that shows it, whatever would hide or turn it round written out."""
    return Markup.escape(visible(text))


def prose(text: str) -> Markup:
    """A text as blocks."""
    return Markup().join(_blocks(text))


def code(text: str, language: str = "") -> Markup:
    """A text as it is; of a difference, what came and what went is marked."""
    is_diff = language.strip().lower() in ("diff", "patch")
    return Markup('<pre dir="auto">{}</pre>').format(_marked(text) if is_diff else escape(text))


def _blocks(text: str) -> Iterator[Markup]:
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


def _paragraphs(lines: list[str]) -> Iterator[Markup]:
    text = "\n".join(lines).strip("\n")
    if text.strip(" \t\n"):
        # Escaped first: what is put around it afterwards is the only markup there is.
        headed = _HEADING.sub(r'<strong class="heading">\1</strong>', str(escape(text)))
        styled = Markup(_INLINE.sub(_styled, headed))  # noqa: S704 - escaped above
        yield Markup('<div class="prose" dir="auto">{}</div>').format(styled)


def _styled(match: re.Match[str]) -> str:
    return f"<code>{match[1]}</code>" if match[1] else f"<strong>{match[2]}</strong>"


def _marked(text: str) -> Markup:
    return Markup("\n").join(map(_diff_line, text.split("\n")))


def _diff_line(line: str) -> Markup:
    kind = {"+": "ins", "-": "del"}.get(line[:1])
    if kind is None or line[:3] in ("+++", "---"):
        return escape(line)
    return Markup("<{0}>{1}</{0}>").format(kind, escape(line))
