"""Secrets in headers, addresses and command lines: basic authentication, cookies, signatures, ``-u user:password``.

Secrets in tables: what stands in a column whose head says so.

At the line below the head, ``|---|---|`` or ``------+------``, the head is read, and then row after row. Promises
linear time: a table is read once, and no row beyond a bound.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from orihon.guard.masking.anchors import Anchor, SecretSpan, Views, in_any_case
from orihon.guard.masking.judgement import is_quoted_secret, is_strong
from orihon.guard.masking.values import secret_in

# Secrets, and how far a text was read for them: nothing of that is read again.
Read = tuple[list[SecretSpan], int]

_BASIC = re.compile(r"basic[ \t]{1,4}()[a-z0-9+/]{8,1024}={0,2}")
_COOKIE = re.compile(r"cookies?2?(?:\\{0,4}[\"'\])])?[ \t]{0,4}[:=,][ \t]{0,4}(?:\\{0,4}[\"'])?")
_CRUMB = re.compile(r"[ \t;]{0,4}([A-Za-z0-9_.%-]{1,64})=([!#-&(-+\--:<-\[\]-~]{1,1024})")
_SESSION = re.compile(r"sess|sid|auth|token|csrf|xsrf|jwt|login|remember|secret|key|user", re.IGNORECASE)
_ATTRIBUTES = frozenset(("path", "domain", "expires", "max-age", "samesite", "version", "comment"))
_CLIENTS = (
    r"curl wget http https mysql\w* mariadb\w* sshpass docker podman helm mongo\w* redis-cli smbclient ldap\w* cqlsh"
    " snowsql"
)
# These take a password behind a capital only, and ssh-keygen a new one behind "-N".
_CAPITAL_CLIENTS = r"ssh-keygen zip unzip sqlcmd bcp ipmitool mosquitto_\w*"
# Each begins with a letter, and looks back from there: so the search is much faster.
_CLIENT, _CAPITAL_CLIENT = (
    re.compile("|".join(rf"{name[0]}(?<!\w.){name[1:]}\b" for name in names.split()))
    for names in (_CLIENTS, _CAPITAL_CLIENTS)
)
_LONGEST_LINE = 200
_LONGEST_CLIENT = 32
_FLAG = re.compile(
    r" -(?:(?:u|-user|-proxy-user)[ \t=]{1,2}(?P<q>\\{0,4}[\"'])?[\w.@+-]{1,64}:(?P<pair>[!#-&(-\[\]-~]{3,128})"
    r"|(?:[pa][ \t]?|[nw][ \t]{1,2})(?P<q2>\\{0,4}[\"'])?(?P<alone>[!#-&(-\[\]-~]{4,128}))"
)


# A user and a password in the call of something that logs in, or behind "logged in with"; a line of .pgpass.
_ARGUMENTS = re.compile(
    r"(?:login|auth|auth=|edentials?|tication)\([ \t]{0,4}\\{0,4}[\"'][^\s\"'\\]{1,64}\\{0,4}[\"'],[ \t]{0,4}"
    r"(?:some\()?\\{0,4}[\"']()[!#-&(-\[\]-~]{5,128}(?=\\{0,4}[\"'])"
)
_CALLS = "login( Login( auth( Auth( auth=( edential( edentials( tication("
_LOGS = tuple(f"{verb} in {how} " for verb in ("og", "ogged", "ign", "igned") for how in ("with", "as"))
_LOGGED_IN = re.compile(r"in (?:with|as) [`\"']?[\w.@+-]{1,64} ?[/:] ?[`\"']?()[!#-&(-\[\]-_a-~]{5,128}")
_SECURED = re.compile(r"securestring (?:-string )?\\{0,4}[\"']()[!#-&(-\[\]-~]{4,128}(?=\\{0,4}[\"'])")
_PGPASS = re.compile(r":[0-9]{4}:[\w*.-]{1,64}:[\w*.-]{1,64}:()[!#-&(-\[\]-~]{4,128}")
_IDENTIFIED = re.compile(r"identified by[ \t]{1,4}\\{0,4}['\"]()[!#-&(-\[\]-~]{4,128}(?=\\{0,4}['\"])")


def _whole(_text: str, match: re.Match[str], _end: int) -> Read:
    return [(match.start(1), match.end(), "PASSWORD")], match.end()


def _strong(text: str, match: re.Match[str], _end: int) -> Read:
    first = match.start(1)
    taken = text[first : match.end()].rstrip(".,;:)")
    is_secret = is_strong(taken, is_password=True, least=5)
    return [(first, first + len(taken), "PASSWORD")] if is_secret else [], match.end()


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
    spans: list[SecretSpan] = []
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

    anchors: tuple[Anchor, ...] = (
        *(anchor for flag in (" -p", " -a", " -u", " --u", " --p") for anchor in in_any_case(flag)),
        Anchor(" -N"),
        Anchor(" -w"),
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
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
                takes = _takes_behind_capital(views.flat, line, place)
            else:
                takes = is_pair or _takes_password(client[0], views.flat, line, place)
            if takes:
                spans.append(span)
                done = span[1]
        return spans


def _takes_password(client: str, text: str, line: int, place: int) -> bool:
    """Docker and podman take a port there, unless they log in or run something else."""
    flag = text[place + 2]
    if client in ("docker", "podman", "helm"):
        if text.find("login", line, place) >= 0:
            return flag not in "Nw"
        inside = text.find(" exec ", line, place)
        other = _CLIENT.search(text, inside, place) if inside >= 0 else None
        return other is not None and other[0] != client and _takes_password(other[0], text, inside, place)
    if flag in "Nw":
        return flag == "w" and client.startswith("ldap")
    return client not in ("curl", "http", "https", "wget")


def _takes_behind_capital(text: str, line: int, place: int) -> bool:
    flag = text[place + 2]
    client = _CAPITAL_CLIENT.search(text, line, place) if flag in "NP" else None
    return client is not None and (flag == "P" or client[0] == "ssh-keygen")


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

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
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
        Around(tuple(Anchor(word) for word in _CALLS.split()), _ARGUMENTS, _strong),
        Around(tuple(Anchor(words, words.index("in ")) for words in _LOGS), _LOGGED_IN, _strong),
        Around((Anchor("SecureString "),), _SECURED, _strong),
        Around(tuple(Anchor(f":{port}:") for port in (5432, 5433, 6432)), _PGPASS, _strong),
    )


_LONGEST_ROW: Final = 400
_MOST_ROWS: Final = 64
_RULE = re.compile(r"[ \t]{0,8}[|+:-][ \t|+:-]{2,400}\r?(?:\n|$)")
_HEAD = re.compile(
    r"[ \t*`]*(?:[a-z_]{1,16}[ _-])?(?:(?P<password>pass(?:word|phrase|wd)|pwd?"
    r"|[ぁ-ヿ一-鿿]{0,8}(?:パスワード|パスフレーズ))"
    r"|api[ _-]?key|secret(?:[ _-]key)?|token|[a-z]{0,3}(?:[ぁ-ヿ一-鿿]{0,8}(?:トークン|シークレット)|キー))[ \t*`]*"
)
# Of a token more is wanted: there are tables of words, too.
_SHORTEST_TOKEN: Final = 16


@dataclass(frozen=True, slots=True)
class Tables:
    """Values in the columns of a table; the places are those in the line below its head."""

    anchors: tuple[Anchor, ...] = tuple(map(Anchor, ("|--", "| --", "|:-", "| :-", "-+-", "-|-")))

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        text, done = views.text, start
        for place in places:
            if place < done:
                continue
            below = text.rfind("\n", max(0, place - _LONGEST_ROW), place) + 1
            rule = _RULE.match(text, below, end) if below else None
            if rule is None:
                line = text.find("\n", place, place + _LONGEST_ROW)
                done = place + _LONGEST_ROW if line < 0 else line
                continue
            done = rule.end()
            columns = _columns(text, below)
            if columns:
                found, done = _cells(text, columns, done, end)
                spans += found
        return spans


def _columns(text: str, below: int) -> dict[int, bool]:
    """The numbers of the columns with secrets, and whether those are passwords."""
    first = text.rfind("\n", max(0, below - 1 - _LONGEST_ROW), below - 1) + 1
    head = text[max(first, below - 1 - _LONGEST_ROW) : below - 1]
    if "|" not in head:
        return {}
    names = map(_HEAD.fullmatch, head.lower().rstrip("\r").split("|"))
    return {number: name["password"] is not None for number, name in enumerate(names) if name is not None}


def _cells(text: str, columns: dict[int, bool], place: int, end: int) -> tuple[list[SecretSpan], int]:
    """The secrets in those columns, and where the table ends."""
    spans: list[SecretSpan] = []
    for _ in range(_MOST_ROWS):
        line = text.find("\n", place, min(place + _LONGEST_ROW, end))
        last = min(place + _LONGEST_ROW, end) if line < 0 else line
        row = text[place:last]
        if "|" not in row or _RULE.match(row):
            break
        for number, cell in enumerate(row.split("|")):
            value = cell.strip(" \t\r*`")
            if number in columns and _is_secret(value, is_password=columns[number]):
                first = place + cell.index(value)
                spans.append((first, first + len(value), "PASSWORD" if columns[number] else "SECRET"))
            place += len(cell) + 1
        place = last + 1
        if line < 0:
            break
    return spans, min(place, end)


def _is_secret(value: str, *, is_password: bool) -> bool:
    if not is_password and len(value) < _SHORTEST_TOKEN:
        return False
    return not value.isalpha() and is_quoted_secret(value, is_password=is_password)
