r"""Secrets that only a name beside them gives away: ``DB_PASSWORD=…``, ``"api_key": "…"``, "the password is …".

Where the beginning of a name is found, expressions read its rest, what binds it to its value, and the value, which
``judging`` then takes or leaves. Promises, as ``rules`` does: linear time (every
expression is bounded) and no cut escapes (no value goes over a backslash).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from orihon.guard.anchors import Anchor, in_any_case
from orihon.guard.judging import is_env_secret, is_quoted_secret, is_strong
from orihon.guard.views import Span, Views

# The words that begin a name, what they have in common, and the rest of the name behind that, its beginning looked back
# at.
_NAMES = (
    ("key token", "ke", r"(?:(?<=toke)n|y)"),
    ("pass", "ss", r"(?<=pass)(?:word|wort|wd|phrase|code)?"),
    ("pw", "pw", r"(?:d|(?<![a-z0-9]pw))"),
    ("psk", "psk", r"(?<![a-z0-9]psk)"),
    ("secret cred", "cre", r"(?:(?<=secre)t|dentials?)"),
    ("auth", "auth", r"(?:orization)?"),
)
_SUFFIX = (
    r"(?:[_-]?([0-9]{1,2}|prod|production|staging|dev|test|live|local|backup|old|new|value|main|primary|secondary|id"
    r"|string|text|plain|raw|hash|base|base64|b64)(?![a-z0-9]))?(?![a-z0-9_]|\]#)"
)
# What must follow a name for anything to be said of it: spares most names the closer look.
_FOLLOWED = (
    r"(?=[\"'`\](*<\\_?]|\s{0,24}-?[ \t]?value|[ \t]{0,12}[=:|>?-]"
    r"|[ \t]{1,4}(?:\S{0,48}?[0-9\"'`!@#$%^&*?]|(?:for|of|to|on|in|from|as|at|that"
    r"|which|we|i|you|it|they|is|was|are|will|should|must|becomes|has|set|reset|changed|rotated|updated|equals|and)\b))"
)
_KINDS = {
    **dict.fromkeys(("ss", "ssword", "sswort", "sswd", "ssphrase", "sscode", "pwd", "pw"), "PASSWORD"),
    **dict.fromkeys(("cret", "credential", "credentials", "psk"), "SECRET"),
    "ken": "TOKEN",
}
_WORD = "abcdefghijklmnopqrstuvwxyz0123456789_.-"
# Names that end with these name no secrets.
_NO_SECRETS = ("id", "hash")
# What may stand between a sort of key and the "key".
_BETWEEN = ("_", " ", ".", "-")
# A "key" is a secret only of these sorts, or as the end of a name in capitals.
_KEY_SORTS = (
    "api", "access", "secret", "private", "auth", "authentication", "encrypt", "encryption", "crypt", "sign",
    "signing", "signature", "master", "account", "service", "service_role", "role", "license", "licence",
    "subscription", "app", "application", "storage", "session", "jwt", "hmac", "webhook", "deploy", "admin",
    "function", "functions", "host", "ingest", "write", "read", "server", "client", "shared", "data", "security",
    "consumer", "bot", "rest", "anon", "management", "personal", "root", "live", "test", "ssh", "instrumentation",
)  # fmt: skip
_SORTS_BY_END = {
    end: tuple(sort for sort in _KEY_SORTS if sort.endswith(end)) for end in {sort[-2:] for sort in _KEY_SORTS}
}


_CLOSE = r"(?:\\{0,4}[\"'`\])]|\*\*|__|</(?:td|th|dt|b|strong|code)>){0,3}"
_OPEN = r"(?P<quote>\\{0,4}[rbuf]?[\"'`“「『‘])?"
_BOUND = re.compile(
    rf"{_CLOSE}[ \t]{{0,12}}(?::[ \t]?(?:str|string|String|Optional\[str\]|char[ \t]?\*)[ \t]{{0,4}}(?==))?"
    r"(?P<by>=>|:=|\?=|==|->|→|=|:|：|＝|\||>|は、?|を|が)(?:\*\*|</(?:b|strong)>)?[ \t]{0,12}"
    r"(?P<line>\r?\n[ \t]{0,12}(?:\r?\n[ \t]{0,12})?)?"
    rf"(?:(?:<t[dh]>|<dd>|<code>|Bearer|bearer|Token|token|ApiKey|Key|SecureString\()[ \t]{{0,2}})?{_OPEN}"
)
_ARGUMENT = re.compile(r"\\{0,4}[\"'][ \t]{0,4},[ \t]{0,4}(?P<quote>\\{0,4}[\"'])")
_CALL = re.compile(r"\([ \t]{0,2}(?P<quote>\\{0,4}[\"'`])")
# The next field of the same thing: {"name": "PASSWORD", "value": "…"}, <add key="ApiKey" value="…"/>.
_BESIDE = re.compile(
    r"\\{0,4}[\"']?,?\s{0,24}-?[ \t]?\\{0,4}[\"']?(?:value|val|default|content|text)\\{0,4}[\"']?"
    rf"[ \t]{{0,4}}[:=][ \t]{{0,4}}{_OPEN}"
)
_SAID = re.compile(
    r"\*{0,2}(?:[ \t](?:for|of|to|on|in|from|as|at|that|which|we|i|you|it|they)[ \t][^\n.;=\"'`]{1,40}?)?[ \t]{1,4}"
    r"(?:is|was|are|will be|should be|must be|becomes|has been (?:re)?set to|has been (?:changed|rotated|updated) to"
    r"|(?:re)?set to|changed to|rotated to|updated to|equals)(?:[ \t]+(?:now|still|set to|currently|actually|just"
    rf"|simply|going to be|called|as follows))?(?:[ \t]?:)?\s{{1,4}}{_OPEN}"
)
_FOR = re.compile(rf"[ \t](?:for|of|to|on)[ \t][^\n.;:=\"'`]{{1,40}}:\s{{1,4}}{_OPEN}")
_GLUED = (_CALL, _BESIDE, _ARGUMENT)
_SPACED = (_BESIDE, _FOR)
# Behind a name in a sentence.
_IN_SENTENCES = (" ", "\t", "*")
# With these, after the blanks, what ``_SPACED`` and ``_SAID`` match can begin: quicker than to try.
_SPACED_BEGINNINGS = frozenset(("", *"vdctfo\\\"',-\r\n\v\f\u3000"))
_SAID_BEGINNINGS = frozenset(("", *"fotiawysmbhrcue*"))
_BARE = re.compile(rf"[ \t]{{1,4}}(?:[\[(]|(?:of|to|as|with|from|value|named|=|:)[ \t]{{1,4}})?{_OPEN}")
_PAIR = re.compile(
    r"[ \t]{0,3}(?:(?:are|is|:|=|with|as|using|\()[ \t]{0,3})?[\"'`]?[\w.@+-]{1,64}[\"'`]?"
    rf"[ \t]{{0,2}}(?:/|:|,|and)[ \t]{{0,2}}{_OPEN}"
)

# A value never goes over a backslash: that may be half of an escape.
_OUTSIDE = re.compile(r"[!#-&(-;=?-\[\]-_a-~]{1,256}")
_CLOSING = {"“": "”", "「": "」", "『": "』", "‘": "’"}
_INSIDE = {
    "": _OUTSIDE,
    '"': re.compile(r"[!#-\[\]-~]{1,256}"),
    "'": re.compile(r"[!-&(-\[\]-~]{1,256}"),
    "`": re.compile(r"[!-\[\]-_a-~]{1,256}"),
}
_ANY_INSIDE = re.compile(r"[!-\[\]-~]{1,256}")
# Code, templates and placeholders begin with one of these.
_NO_VALUE = ("[", "{", "<", "(")
_UNQUOTED_END = re.compile(r"[,;&|]")
# A longer value that is none is not looked at again for every name in it.
_LONG_VALUE = 48
_TRAILING = ".,;:)]}|?"
# No value that ``judging`` takes is shorter.
_SHORTEST = 4
# In a sentence only a value with one of these is a secret, or one in quotes; so far from its name it stands at most.
_TELLING = re.compile(r"[\x00-\t\x0b-\x1f!-'*+/0-9<-`{-\x7f“「『‘]")
_REACH = 192
_SHELL_WORDS = frozenset(("", "export", "ENV", "ARG", "set", "env", "-e", "setx", "declare -x", "Environment="))


# Where it begins, what it is, and whether it stands in quotes.
Value = tuple[int, str, bool]


def read_value(text: str, binding: re.Match[str], end: int) -> Value | None:
    """The value after ``binding``, which may have opened a quote; none where the quote holds more than one word, and
    none that is too short for a secret."""
    place, quote = binding.end(), binding["quote"]
    if text.startswith(_NO_VALUE, place):
        return None
    opened = quote[-1] if quote else ""
    match = _INSIDE.get(opened, _ANY_INSIDE).match(text, place, end)
    if match is None or match.end() - place < _SHORTEST:
        return None
    if opened and text[match.end() : match.end() + 1] not in (_CLOSING.get(opened, opened), "\\"):
        return None
    return place, match[0], opened != ""


@dataclass(frozen=True, slots=True)
class NamedValues:
    """Values that follow a name."""

    anchors: tuple[Anchor, ...]
    expression: re.Pattern[str]

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[Span]:
        spans: list[Span] = []
        flat, lower, begins = views.flat, views.lower, self.expression.match
        done = calm = start  # up to ``calm`` there is nothing telling
        for place in places:
            name = begins(lower, place, end) if done <= place else None
            if name is None or (after := name.end()) >= end:
                continue
            if flat[after] == " ":
                reach = min(after + _REACH, end)
                if _TELLING.search(views.text, calm if calm > after else after, reach) is None:
                    calm = reach
                    continue
            span = _value_of(views, name, end)
            if span is not None:
                spans.append(span)
                done = span[1]
            elif after + _LONG_VALUE < end and flat[after] > " " < flat[after + _LONG_VALUE]:
                run = _OUTSIDE.match(flat, after, end)
                done = run.end() if run is not None and run.end() - after > _LONG_VALUE else done
        return spans


def named_values() -> tuple[NamedValues, ...]:
    """One for each row."""
    return tuple(
        NamedValues(
            tuple(anchor for word in words.split() for anchor in in_any_case(word, word.index(common))),
            re.compile(f"({common}{rest}){_SUFFIX}{_FOLLOWED}"),
        )
        for words, common, rest in _NAMES
    )


def _value_of(views: Views, name: re.Match[str], end: int) -> Span | None:
    """The secret that belongs to a name."""
    text, after = views.text, name.end()
    word, suffix = name.groups()
    kind = None if suffix in _NO_SECRETS else _KINDS.get(word) or _kind_by_sort(views, name, word)
    if kind is None:
        return None
    if binding := _BOUND.match(text, after, end):
        found = _bound(views, name, binding, kind, end)
    else:
        found = _told(views, name, kind, end)
        if text[after] not in _IN_SENTENCES:
            return found
    if found is None and name[0].startswith("credential") and (pair := _PAIR.match(text, after, end)):
        found = _checked(read_value(text, pair, end), "PASSWORD", least=5)
    return found


def _told(views: Views, name: re.Match[str], kind: str, end: int) -> Span | None:
    """The value behind a name to which no mark of an assignment binds it."""
    text, after = views.text, name.end()
    following = text[after]
    if following != " ":
        if binding := _first(_GLUED, text, after, end):
            return _checked(read_value(text, binding, end), kind, least=8)
        if following not in _IN_SENTENCES:
            return None
    initial = text[after : after + 8].lstrip(" \t")[:1]
    if following == " " and initial in _SPACED_BEGINNINGS and (binding := _first(_SPACED, text, after, end)):
        return _checked(read_value(text, binding, end), kind, least=8)
    if initial in _SAID_BEGINNINGS and (binding := _SAID.match(text, after, end)):
        return _checked(read_value(text, binding, end), kind, least=6 if kind == "PASSWORD" else 8)
    binding = _BARE.match(text, after, end)
    value = None if binding is None else read_value(text, binding, end)
    if value is None:
        return None
    is_flag = text.startswith("-", _beginning(views, name))
    return _checked(value, kind, least=5 if is_flag else 8 if kind == "PASSWORD" else 16)


def _first(expressions: Iterable[re.Pattern[str]], text: str, place: int, end: int) -> re.Match[str] | None:
    for expression in expressions:
        if match := expression.match(text, place, end):
            return match
    return None


def _beginning(views: Views, name: re.Match[str]) -> int:
    """Where the whole name begins, of which the end was found."""
    place = name.start()
    before = views.lower[max(0, place - 48) : place]
    return place - len(before) + len(before.rstrip(_WORD))


def _kind_by_sort(views: Views, name: re.Match[str], word: str) -> str | None:
    """What a name says about its value that does not say it by its last word alone."""
    if word.startswith("auth"):
        whole = views.lower[_beginning(views, name) : name.end()]
        is_header = word == "authorization" or whole in ("auth", "_auth") or whole.endswith(":_auth")
        return "AUTHORIZATION" if is_header else None
    place = name.start()
    sort = views.lower[max(0, place - 24) : place]
    sort = sort[:-1] if sort.endswith(_BETWEEN) else sort
    if sort.endswith(_SORTS_BY_END.get(sort[-2:], ())):
        return "API_KEY"
    if not views.flat[place].isupper():
        return None
    written = views.flat[_beginning(views, name) : name.end()]
    return "API_KEY" if "_" in written and written.isupper() else None


def _bound(views: Views, name: re.Match[str], binding: re.Match[str], kind: str, end: int) -> Span | None:
    """The value of an assignment."""
    text = views.text
    value = read_value(text, binding, end)
    if value is None:
        return None
    start, written, is_quoted = value
    by, line = binding.group("by", "line")
    if by == ">" and line is not None and text.find("</", start, start + len(written) + 16) < 0:
        return None  # <token> stands for a value, unless it is closed again
    if line is not None or is_quoted:
        return _checked(value, kind, least=8)
    is_password = kind == "PASSWORD"
    # What is glued to a name in capitals.
    is_glued = by == "=" and start == name.end() + 1 and text[name.start() : name.end()].isupper()
    if is_glued and _starts_line(text, _beginning(views, name), name.end()):
        taken = written if is_env_secret(written, is_password=is_password) else ""
    else:
        taken = _UNQUOTED_END.split(written, maxsplit=1)[0].rstrip(_TRAILING)
        taken = taken if "(" in taken else taken.partition(")")[0]
        taken = taken if is_strong(taken, is_password=is_password, least=5 if is_password else 8) else ""
    return (start, start + len(taken), kind) if taken else None


def _starts_line(text: str, first: int, after: int) -> bool:
    """Is the name in capitals and the first thing on its line, but for what a shell or a Dockerfile writes there?"""
    if not text[first:after].isupper():
        return False
    line = text[max(0, first - 24) : first].replace("\\n", "\n")
    return line.rpartition("\n")[2].strip(" \t$#>\"'") in _SHELL_WORDS


def _checked(value: Value | None, kind: str, *, least: int) -> Span | None:
    """A value that is quoted, or stands in a sentence and goes without what ends that."""
    if value is None:
        return None
    start, taken, is_quoted = value
    is_password = kind == "PASSWORD"
    if is_quoted:
        is_secret = is_quoted_secret(taken, is_password=is_password)
    else:
        taken = taken.rstrip(_TRAILING)
        is_secret = is_strong(taken, is_password=is_password, least=least)
    return (start, start + len(taken), kind) if is_secret else None
