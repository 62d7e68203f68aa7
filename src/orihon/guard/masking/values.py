r"""Values behind a name: where they begin and end, and how much of them is a secret.

One expression reads what binds a value to its name, and the value. A masked text is looked at several times: as it is,
without the characters that nobody sees, and once more with its placeholders; each value is judged once for all of them.
Promises that no value goes over a backslash, which may be half of an escape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from orihon.guard.masking.anchors import SecretSpan, Views
from orihon.guard.masking.judgement import (
    is_env_secret,
    is_numbered_word,
    is_passphrase,
    is_quoted_secret,
    is_spaced_secret,
    is_strong,
)
from orihon.system.patterns import lazy_re

# How many characters of a value, which may be that of a password, are a secret.
Judge = Callable[[str, bool], int]

#: May open a value, at the end of what binds it.
OPEN: Final = r"(?P<quote>\\{0,4}[rbuf]?[\"'`“「『‘])?"
#: A value outside of quotes.
OUTSIDE: Final = r"[!#-&(-;=?-\[\]-_a-~]"
# Code, templates and placeholders begin with one of these.
_NO_VALUE = r"[\[{<(]"
_UNQUOTED_END = lazy_re(r"[,;&|]")
_TRAILING = ".,;:)]}|?"
# The opening quote, what may follow inside, and what closes.
_QUOTED = (
    ('"', r"[!#-\[\]-~]", '"'),
    ("'", r"[!-&(-\[\]-~]", "'"),
    ("`", r"[!-\[\]-_a-~]", "`"),
    *((opening, r"[!-\[\]-~]", closing) for opening, closing in ("“”", "「」", "『』", "‘’")),
)
# Nothing shorter is a secret, and nothing longer is judged.
_WIDTH = "{4,256}+"
_IN_QUOTES = "|".join(rf"(?<={opening}){inside}{_WIDTH}(?=[{closing}\\])" for opening, inside, closing in _QUOTED)
# What a binding does not take for a quote is none, whatever it looks like.
_VALUE = rf"(?(quote)(?:{_IN_QUOTES})|{OUTSIDE}{_WIDTH})"

# Behind the quote that opens it, which is no backtick: commands stand there.
_PHRASE = lazy_re(r"(?<!`)(?:[a-z]{3,10} ){3,23}+[a-z]{3,10}(?=[\"'”」』’\\])")
_TOLD_PHRASE = lazy_re(r"(?:[A-Za-z]{1,12} ){3,23}+[a-z]{1,12}(?=[.!]?[\"'”」』’\\])")
_SPACED = lazy_re(
    r"(?<=\")[!#-\[\]-~]++(?: [!#-\[\]-~]++){1,5}+(?=[\"\\])|(?<=')[!-&(-\[\]-~]++(?: [!-&(-\[\]-~]++){1,5}+(?=['\\])"
)
_DASHED_PHRASE = lazy_re(r"(?:[a-z]{3,10}-){3,23}+[a-z]{3,10}")


def with_value(binding: str) -> re.Pattern[str]:
    """An expression for what binds a value to its name, and for the value, if there is one; a quote holds one word
    only. ``binding`` has the group ``quote``, and ends with it."""
    return lazy_re(rf"(?>{binding})(?P<value>(?!{_NO_VALUE}){_VALUE})?")


def secret_in(views: Views, start: int, written: str, kind: str, judge: Judge) -> SecretSpan | None:
    """What is a secret of the value that begins at ``start``."""
    key = judge, written, kind == "PASSWORD"
    length = views.judged.get(key)
    if length is None:
        length = views.judged[key] = judge(written, kind == "PASSWORD")
    return (start, start + length, kind) if length else None


def phrase_at(views: Views, start: int, end: int, *, is_told: bool = False) -> SecretSpan | None:
    """The passphrase of several words behind the quote that ends at ``start``; ``is_told`` where that is said."""
    phrase = (_TOLD_PHRASE if is_told else _PHRASE).match(views.text, start, end)
    if phrase is None or not is_passphrase(phrase[0].lower(), is_told=is_told):
        return None
    return start, phrase.end(), "PASSWORD"


def spaced_at(views: Views, start: int, end: int, kind: str) -> SecretSpan | None:
    """The password of several words, not all of which are words, behind the quote that ends at ``start``."""
    spaced = _SPACED.match(views.text, start, end)
    if spaced is None:
        return None
    key = spaced_at, spaced[0], True
    is_secret = views.judged.get(key)
    if is_secret is None:
        is_secret = views.judged[key] = is_spaced_secret(spaced[0])
    return (start, spaced.end(), kind) if is_secret else None


def dashed(written: str, _is_password: bool) -> int:
    """Several words, and dashes in between."""
    phrase = _DASHED_PHRASE.match(written)
    return phrase.end() if phrase is not None and is_passphrase(phrase[0].replace("-", " ")) else 0


def quoted(written: str, is_password: bool) -> int:
    """In quotes: all of it or nothing."""
    return len(written) if is_quoted_secret(written, is_password=is_password) else 0


def exported(written: str, is_password: bool) -> int:
    """Glued to a name in capitals at the beginning of a line."""
    return len(written) if is_env_secret(written, is_password=is_password) else 0


def listed(written: str, is_password: bool) -> int:
    """Behind a name in capitals and a colon at the beginning of a line, as in YAML."""
    return len(written) if is_password and is_numbered_word(written) else 0


def assigned(written: str, is_password: bool) -> int:
    """After the mark of an assignment."""
    ends = _UNQUOTED_END.search(written)
    taken = (written if ends is None else written[: ends.start()]).rstrip(_TRAILING)
    taken = taken if "(" in taken else taken.partition(")")[0]
    return len(taken) if is_strong(taken, is_password=is_password, least=5 if is_password else 8) else 0


def told(least: int, trailing: str, written: str, is_password: bool) -> int:
    """In a sentence: without what ends that, and with so many characters at least."""
    taken = written.rstrip(trailing)
    return len(taken) if is_strong(taken, is_password=is_password, least=least) else 0


SAID: Final[dict[int, Judge]] = {least: partial(told, least, _TRAILING) for least in (5, 6, 8, 16)}


# Between an old value and the one that replaces it.
_CHANGED = with_value(rf"[\"'`”」』’]?[ \t]{{0,3}}(?:to(?=[ \t])|→|->|=>|から)[ \t]{{0,3}}{OPEN}")


def changed_to(views: Views, after: int, old: SecretSpan, end: int) -> SecretSpan | None:
    """The value that replaces ``old``, which belongs to a name that ends at ``after``: "from … to …", 「…から…に」."""
    change = _CHANGED.match(views.text, old[1], end)
    if change is None or change["value"] is None:
        return None
    # "with the password … to a host" is another matter.
    if views.lower.find("to", old[1], change.start("value")) >= 0 > views.lower.find("from", after, old[0]):
        return None
    judge = SAID[6 if old[2] == "PASSWORD" else 8] if change["quote"] is None else quoted
    return secret_in(views, change.start("value"), change["value"], old[2], judge)
