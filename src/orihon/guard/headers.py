"""Secrets in headers, addresses and command lines: basic authentication, cookies, signatures, ``-u user:password``."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orihon.guard.anchors import Anchor, in_any_case
from orihon.guard.judging import is_strong
from orihon.guard.values import secret_in
from orihon.guard.views import Span, Views

# Secrets, and how far a text was read for them: nothing of that is read again.
Read = tuple[list[Span], int]

_BASIC = re.compile(r"basic[ \t]{1,4}()[a-z0-9+/]{8,1024}={0,2}")
_COOKIE = re.compile(r"cookies?2?(?:\\{0,4}[\"'\])])?[ \t]{0,4}[:=,][ \t]{0,4}(?:\\{0,4}[\"'])?")
_CRUMB = re.compile(r"[ \t;]{0,4}([A-Za-z0-9_.%-]{1,64})=([!#-&(-+\--:<-\[\]-~]{1,1024})")
_SESSION = re.compile(r"sess|sid|auth|token|csrf|xsrf|jwt|login|remember|secret|key|user", re.IGNORECASE)
_ATTRIBUTES = frozenset(("path", "domain", "expires", "max-age", "samesite", "version", "comment"))
_CLIENTS = r"curl wget http https mysql\w* mariadb\w* sshpass docker podman helm mongo\w* redis-cli smbclient ldap\w*"
# Each begins with a letter, and looks back from there: so the search is much faster.
_CLIENT = re.compile("|".join(rf"{name[0]}(?<!\w.){name[1:]}\b" for name in _CLIENTS.split()))
_LONGEST_LINE = 200
_LONGEST_CLIENT = 32
_FLAG = re.compile(
    r" -(?:(?:u|-user|-proxy-user)[ \t=]{1,2}(?P<q>\\{0,4}[\"'])?[\w.@+-]{1,64}:(?P<pair>[!#-&(-\[\]-~]{3,128})"
    r"|[pa][ \t]?(?P<q2>\\{0,4}[\"'])?(?P<alone>[!#-&(-\[\]-~]{4,128}))"
)


_IDENTIFIED = re.compile(r"identified by[ \t]{1,4}\\{0,4}['\"]()[!#-&(-\[\]-~]{4,128}(?=\\{0,4}['\"])")


def _whole(_text: str, match: re.Match[str], _end: int) -> Read:
    return [(match.start(1), match.end(), "PASSWORD")], match.end()


def _basic(text: str, match: re.Match[str], _end: int) -> Read:
    """Only what is a user and a password: people write "Basic authentication" too."""
    encoded = text[match.start(1) : match.end()]
    try:
        decoded = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:
        return [], match.end()
    is_pair = b":" in decoded and decoded.replace(b"\t", b" ").decode("utf-8", "replace").isprintable()
    return [(match.start(1), match.end(), "BASIC_AUTH")] if is_pair else [], match.end()


def _cookie(text: str, match: re.Match[str], end: int) -> Read:
    spans: list[Span] = []
    place = match.end()
    while crumb := _CRUMB.match(text, place, end):
        place = crumb.end()
        name, value = crumb[1], crumb[2]
        least = 6 if _SESSION.search(name) else 16
        if name.lower() not in _ATTRIBUTES and is_strong(value, is_password=False, least=least):
            spans.append((crumb.start(2), crumb.end(2), "COOKIE"))
    return spans, place


@dataclass(frozen=True, slots=True)
class Flags:
    """What follows ``-p`` or ``-u``. They mean many things: only on lines of programs that take a password there."""

    anchors: tuple[Anchor, ...] = tuple(
        anchor for flag in (" -p", " -a", " -u", " --u", " --p") for anchor in in_any_case(flag)
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[Span]:
        spans: list[Span] = []
        done = start
        without = 0  # up to here the line has no such program
        for place in places:
            match = _FLAG.match(views.lower, place, end) if done <= place else None
            if match is None:
                continue
            is_pair = match["pair"] is not None
            first, last = match.span("pair" if is_pair else "alone")
            span = secret_in(views, first, views.flat[first:last], "PASSWORD", _paired if is_pair else _alone)
            if span is None:
                continue
            earliest = max(0, place - _LONGEST_LINE)
            line = max(views.flat.rfind("\n", earliest, place) + 1, earliest)
            client = _CLIENT.search(views.flat, max(line, without - _LONGEST_CLIENT), place)
            if client is None:
                without = place
            elif is_pair or _takes_password(client[0], views.flat, line, place):
                spans.append(span)
                done = span[1]
        return spans


def _takes_password(client: str, text: str, line: int, place: int) -> bool:
    """Docker and podman take a port there, unless they log in."""
    if client in ("docker", "podman", "helm"):
        return text.find("login", line, place) >= 0
    return client not in ("curl", "http", "https", "wget")


def _paired(written: str, _is_password: bool) -> int:
    return 0 if written.startswith(("$", "{", "<", "%")) else len(written.rstrip(",;)"))


def _alone(written: str, is_password: bool) -> int:
    length = _paired(written, is_password)
    return length if is_strong(written[:length], is_password=is_password, least=5) else 0


@dataclass(frozen=True, slots=True)
class Around:
    """Secrets that begin near an anchor, given in small letters."""

    anchors: tuple[Anchor, ...]
    expression: re.Pattern[str]
    read: Callable[[str, re.Match[str], int], Read]

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[Span]:
        spans: list[Span] = []
        done = start
        for place in places:
            match = self.expression.match(views.lower, place, end) if done <= place else None
            if match is not None:
                found, done = self.read(views.flat, match, end)
                spans += found
        return spans


def header_values() -> tuple[Around | Flags, ...]:
    """One for each anchor."""
    return (
        Flags(),
        Around(tuple(in_any_case("basic ")), _BASIC, _basic),
        Around(tuple(in_any_case("cookie")), _COOKIE, _cookie),
        Around(tuple(in_any_case("fied by", -len("identi"))), _IDENTIFIED, _whole),
    )
