"""Text from outside as people may read it: whatever would hide, turn round or overwrite something is made visible."""

from __future__ import annotations

import re

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"
_UNSEEN = "\u200b\u2028\u2029\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
_HIDDEN = re.compile(f"[{_CONTROLS}{_DIRECTIONS}{_UNSEEN}\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_SPACE = 0x20
_DELETE = 0x7F
_CARET = 0x40  # ^[ stands for Escape, as on terminals


def visible(text: str) -> str:
    """The text, with every control but line feed and tab, every mark of direction and every stray half written out."""
    return _HIDDEN.sub(_written_out, text.replace("\r\n", "\n"))


def one_line(value: object) -> str:
    """The same for names and the like, which have no lines."""
    return " ".join(visible(str(value)).split())


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"^{chr(code ^ _CARET)}" if code < _SPACE or code == _DELETE else f"⟦U+{code:04X}⟧"
