"""One text as the finders want to see it, and where in it a secret was found."""

from __future__ import annotations

# Start, end and kind of one secret in a text.
SecretSpan = tuple[int, int, str]

# How much of a value is a secret, by what was asked.
Judged = dict[object, int]

# A first letter may belong to an escape: a newline and ``pm_`` are written \npm_ in JSON.
ESCAPE_LETTERS = "abefnrtuvx"


class Views:
    """A text, and copies of it. But for ``raw``, every character has the same place in all of them."""

    __slots__ = ("flat", "is_ascii", "judged", "lower", "narrow", "raw", "text")

    def __init__(self, text: str, judged: Judged | None = None) -> None:
        """``judged`` is shared by the texts that are looked at for the same purpose."""
        self.judged: Judged = {} if judged is None else judged
        self.text = text
        self.is_ascii = text.isascii()
        self.raw = text.encode("utf-8", "surrogatepass")
        # With "?" for every character outside ASCII.
        self.narrow = self.raw if self.is_ascii else text.encode("ascii", "replace")
        # The same as a text: one of narrow characters is searched much faster.
        self.flat = text if self.is_ascii else self.narrow.decode("ascii")
        self.lower = self.flat.lower()
