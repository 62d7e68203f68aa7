"""Text from outside as people may read it: what would hide, turn round or overwrite something is made visible.

And as HTML: code blocks, headings, code and bold type; everything else word for word. Only this much of Markdown is
known. Links and pictures stay text: a page must not fetch or open anything. This is the one place where what was said
becomes HTML; everything else stays text, which templates escape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"
_UNSEEN = "\u200b\u2028\u2029\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
_HIDDEN = re.compile(f"[{_CONTROLS}{_DIRECTIONS}{_UNSEEN}\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_SPACE = 0x20
_DELETE = 0x7F
_CARET = 0x40  # ^[ stands for Escape, as on terminals
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)")
_HEADING = re.compile(r"^ {0,3}#{1,6} +(\S.*)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*")


def visible(text: str) -> str:
    """The text, with every control but line feed and tab, every mark of direction and every stray half written out."""
    return _HIDDEN.sub(_written_out, text.replace("\r\n", "\n"))


def one_line(value: object) -> str:
    """The same for names and the like, which have no lines."""
    return " ".join(visible(str(value)).split())


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"^{chr(code ^ _CARET)}" if code < _SPACE or code == _DELETE else f"⟦U+{code:04X}⟧"


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
