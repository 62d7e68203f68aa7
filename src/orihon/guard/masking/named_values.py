r"""Secrets that only a name beside them gives away: ``DB_PASSWORD=…``, ``"api_key": "…"``, "the password is …".

Where the beginning of a name is found, expressions read its rest, what binds it to its value, and the value, which
``judgement`` then takes or leaves. Promises, as ``rules`` does: linear time (every
expression is bounded) and no cut escapes (no value goes over a backslash).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from orihon.guard.masking.anchors import Anchor, SecretSpan, Views, in_any_case
from orihon.guard.masking.values import (
    OPEN,
    OUTSIDE,
    SAID,
    Judge,
    assigned,
    changed_to,
    dashed,
    exported,
    listed,
    phrase_at,
    quoted,
    secret_in,
    spaced_at,
    with_value,
)
from orihon.system.patterns import lazy_re

# What may follow "=" or ":" and then the end of a word, and is no secret: too little, or a word. Of those with marks
# nothing is said, nor of the words after which the value comes only.
_SHORT = r"[^\s\"'`\\<>?*=:|-][^\s\"'`\\<>?*]"
_NO_PASSWORD = f"{_SHORT}{{0,2}}"
_NO_KEY = rf"{_SHORT}{{0,6}}|[a-z_./,;][a-z_./,;-]{{0,14}}"
_NOT_FOLLOWED = (
    r"(?!\s{{0,2}}[=:]\s{{0,2}}(?!(?:bearer|token|(?:api)?key|sec(?:ure|ret)[a-z]{{1,16}}[(:.])[ \t]{{0,2}}\S{{4}}"
    r"|&|str|char|opt|secretstr|final|new[ ]|[a-z0-9_.\[\]]{{3,6}}\((?=\\{{0,4}}[\"'`]))"
    r"(?:{})(?:[\s\"'`\\<>]|$))"
)
# The words that begin a name, what they have in common, the rest of the name behind that, its beginning looked back at,
# and what of the values behind "=" is not looked at.
_NAMES = (
    # A key is of some sort, or has an underscore in its name.
    ("key token", "ke", r"(?:(?<=toke)n|y(?:(?<=[a-z0-9_.-]key)|(?<=[a-z] key)|(?=_)))", _NO_KEY),
    ("pass", "ss", r"(?<=pass)(?:word|wort|wd|phrase|code)?", _NO_PASSWORD),
    ("pw", "pw", r"(?:d|(?<![a-z0-9]pw))", _NO_PASSWORD),
    ("psk", "psk", r"(?<![a-z0-9]psk)", _NO_KEY),
    # Credentials may be a pair, of which the first is short.
    ("cret cred", "cre", rf"(?:(?<=secre)t{_NOT_FOLLOWED.format(_NO_KEY)}|dentials?|ds)", "(?!)"),
    ("auth", "auth", r"(?:orization)?", _NO_KEY),
)
_SUFFIX = (
    r"(?:[_-]?([0-9]{1,2}|prod|production|staging|dev|test|live|local|backup|old|new|value|main|primary|secondary|id"
    r"|string|text|plain|raw|hash|base|base64|b64)(?![a-z0-9]))?"
    # Nor is anything looked for where a placeholder is the value, as it is after every secret at the second look.
    r"(?![a-z0-9_]|\]#|[\"']?[:=][ ]?[\"']?\[[a-z][a-z0-9_]{1,32}\]#)"
)
# What must follow a name for anything to be said of it: spares most names the closer look. A user before
# a password may be short.
_FOLLOWED = (
    r"(?=[\"'`\](*<?]|[ \t]\(|\[[0-9]{0,4}\]|\\{1,8}[\"'`\]),\s\-vdct]|\s{0,24}-?[ \t]?value"
    r"|[ \t]{0,12}(?:[=:|>?]|-(?:>|[ \t]?\\{0,4}[\"']?(?:val|def|con|text)))"
    r"|[ \t]{1,4}(?:(?=[^\s-]\S{4}|\w{1,4}[ \t]{0,2}[/:,])\S{0,48}?[0-9\"'`!@#$%^&*?]"
    r"|(?:for|of|to|on|in|from|as|at|that|which|we|i|you|it|they|is|was|are|will|should|must|becomes|has|set"
    r"|reset|changed|rotated|updated|equals|and|string|or(?=[ \t][\"'`]))\b))"
)
_KINDS = {
    **dict.fromkeys(("ss", "ssword", "sswort", "sswd", "ssphrase", "sscode", "pwd", "pw"), "PASSWORD"),
    **dict.fromkeys(("cret", "credential", "credentials", "creds", "psk"), "SECRET"),
    "ken": "TOKEN",
}
# The names of what may be several words.
_PHRASES = ("ssword", "ssphrase")
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
    "consumer", "bot", "fernet", "aes", "hex", "activation", "product", "cipher", "symmetric", "recovery",
    "preshared", "wifi", "network", "rest", "anon",
    "management", "personal", "setup", "authenticator", "totp", "otp", "2fa", "mfa", "entry",
    "root", "live", "test", "ssh", "instrumentation",
)  # fmt: skip
_SORTS_BY_END = {
    end: tuple(sort for sort in _KEY_SORTS if sort.endswith(end)) for end in {sort[-2:] for sort in _KEY_SORTS}
}


_CLOSE = r"(?:\\{0,4}[\"'`\])]|\*\*|__|</(?:td|th|dt|b|strong|code)>){0,3}"
_TYPE = (
    r"(?::[ \t]?(?:&(?:'[a-z]{1,8}[ \t])?)?(?:str|string|String\??|Optional\[str\]|char[ \t]?\*|SecretStr"
    r"|Final(?:\[str\])?|str[ \t]\|[ \t]None)|(?<=[ \t])string)"
)
_BOUND = (
    rf"{_CLOSE}(?:\[[0-9]{{0,4}}\])?(?:[ \t]\([^()\n\"'`=]{{1,40}}\)(?=[ \t]{{0,4}}[:=]))?"
    rf"[ \t]{{0,12}}(?:{_TYPE}[ \t]{{0,4}}(?==))?"
    r"(?P<by>=>|:=|\?=|==|->|→|=|:-|:(?![?+])|：|＝|\||>|は、?|を|が)(?:\*\*|</(?:b|strong)>)?[ \t]{0,12}"
    r"(?P<line>(?:[|>][+-]?[1-9]?[ \t]{0,4})?\r?\n[ \t]{0,12}(?:\r?\n[ \t]{0,12})?(?:```\w{0,12}\r?\n[ \t]{0,12})?)?"
    r"(?:(?:<t[dh]>|<dd>|<code>|Bearer|bearer|Token|token|ApiKey|Key"
    r"|[Ss]ec(?:ure|ret)\w{1,16}(?:(?:::|\.)\w{1,8})?\()[ \t]{0,2}"
    # What makes bytes or a text of another form of the value; first quick looks whether anything is called, and so.
    r"|(?=(?:new[ ])?[\w.:\[\]]{0,160}+\()(?=[\w.:()\[\] ]{0,160}?\(\\{0,4}[\"'`])"
    r"(?:new[ ])?(?:[A-Za-z]\w{0,24}(?:\.|::|\(\)\.)){0,3}(?:\[\]byte|bytes?|bytearray|from|from_?hex|unhexlify|atob"
    r"|\w{0,16}(?:[Dd]ecode|[Ee]ncode)\w{0,8}|[Gg]et_?[Bb]ytes|[Ss]tring|str|hex2bin|FromBase64String|FromHex\w{0,6}"
    r"|(?:SymmetricKey\(data:[ ])?Data)\((?=\\{0,4}[\"'`]))?"
)
# Also what is typed into a field of that name: find("password").send_keys("…").
_CALL = r"(?:[\"'\])]{0,5}\.(?:type|fill|send_keys|sendKeys|setValue)(?=\())?\([ \t]{0,2}(?=\\{0,4}[\"'`])"
_ARGUMENT = r"\\{0,4}[\"'][ \t]{0,4},[ \t]{0,4}(?=\\{0,4}[\"'])"
# The next field of the same thing: {"name": "PASSWORD", "value": "…"}, <add key="ApiKey" value="…"/>; in Terraform a
# variable has others before its default.
_BESIDE = (
    r"\\{0,4}[\"']?(?:[ \t]{0,4}\{(?:\s{1,24}(?:type|description|sensitive|nullable)[ \t]{1,16}=[^\n]{1,120}\n){0,4})?"
    r",?\s{0,24}-?[ \t]?\\{0,4}[\"']?(?:value|val|default|content|text)\\{0,4}[\"']?"
    r"[ \t]{0,4}[:=][ \t]{0,4}"
)
# What is taken where nothing else is set: process.env.JWT_SECRET || "…".
_OTHERWISE = r"\\{0,4}[\"'\])]{0,4}[ \t]{1,2}(?:\|\||\?\?|\?:|or)[ \t]{1,2}(?=\\{0,4}[\"'`])"
_FOR = r" (?:for|of|to|on)[ \t][^\n.;:=\"'`]{1,40}:\s{1,4}"
_SAID = (
    r"(?:\*{1,2}|(?<=[A-Z])`)?"
    r"(?:['’]s|(?:[ \t](?:for|of|to|on|in|from|as|at|that|which|we|i|you|it|they)[ \t][^\n.;=\"'`]{1,40}?)?[ \t]{1,4}"
    r"(?:is|was|are|will be|should be|must be|becomes|has been (?:re)?set to|has been (?:changed|rotated|updated) to"
    r"|(?:re)?set to|changed to|rotated to|updated to|equals))(?:[ \t]+(?:now|still|set to|currently|actually|just"
    r"|simply|going to be|called|as follows))?(?:[ \t]?:)?\s{1,4}(?P<said>)"
)
_BARE = (
    r"(?:(?<=[A-Z])`(?=[ \t](?:to|as|with)[ \t]))?[ \t]{1,4}"
    r"(?:[\[(]|(?:of|to|as|with|from|value|named|=|:)[ \t]{1,4})?(?P<bare>)"
)
# An old value that looks like any word, and the new one.
_FROM = with_value(
    rf"(?:[ \t](?:for|of|on)[ \t][\w.@-]{{1,40}})?[ \t]{{1,2}}from[ \t]{{1,2}}"
    rf"[\"'`]?[\w-]{{1,40}}[\"'`]?[ \t]{{1,2}}to[ \t]{{1,2}}{OPEN}"
)
# The first that is there decides.
_BINDING = with_value(f"(?:{'|'.join((_OTHERWISE, _BOUND, _CALL, _BESIDE, _ARGUMENT, _FOR, _SAID, _BARE))}){OPEN}")
_NOTHING = (None,) * _BINDING.groups
# Behind a name in a sentence.
_IN_SENTENCES = (" ", "\t", "*")
_SAYS = lazy_re(r"[ \t]{0,3}(?:are|is|:|=)")
_BEFORE_PAIRS = ("and", "/", "&", "+")
_PAIR = with_value(
    r"[ \t]{0,3}(?:(?:(?:(?:have|has|were|got)[ \t])?(?:changed|rotated|updated|reset)[,;:.]?[ \t])?"
    r"(?:are|is|:|=|with|as|using|\(|it['’]s|they['’]re)[ \t]{0,3}(?:now[ \t])?)?[\"'`]?[\w.@+-]{1,64}[\"'`]?"
    rf"[ \t]{{0,2}}(?:/|:|,|and)[ \t]{{0,2}}{OPEN}"
)

_OUTSIDE = lazy_re(rf"{OUTSIDE}{{1,256}}")
# Behind a name: no value begins so.
_NO_VALUE = ("=[", "={", "=(")
# A longer value that is none is not looked at again for every name in it.
_LONG_VALUE = 48
# In a sentence only a value with one of these is a secret, or one in quotes; so far from its name it stands at most.
_TELLING = lazy_re(r"[\x00-\t\x0b-\x1f!-'*+/0-9<-`{-\x7f“「『‘]")
_REACH = 192
_SHELL_WORDS = frozenset(("", "-", "export", "ENV", "ARG", "set", "env", "-e", "setx", "declare -x", "Environment="))
# Docker and others take a variable of the environment behind these, anywhere on the line.
_BEFORE_VARIABLES = (" -e", " --env", " --build-arg")


@dataclass(frozen=True, slots=True)
class NamedValues:
    """Values that follow a name."""

    anchors: tuple[Anchor, ...]
    expression: re.Pattern[str]

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
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
            span = None if flat.startswith(_NO_VALUE, after) else _value_of(views, name, end)
            if span is not None:
                spans.append(span)
                new = changed_to(views, after, span, end)
                if new is not None:
                    spans.append(new)
                done = spans[-1][1]
            elif (
                after + _LONG_VALUE < end
                and flat[after] > " " < flat[after + _LONG_VALUE]
                and not flat.startswith("=${", after)
            ):
                run = _OUTSIDE.match(flat, after, end)
                done = run.end() if run is not None and run.end() - after > _LONG_VALUE else done
        return spans


def named_values() -> tuple[NamedValues, ...]:
    """One for each row."""
    return tuple(
        NamedValues(
            tuple(anchor for word in words.split() for anchor in in_any_case(word, word.index(common))),
            re.compile(f"({common}{rest}){_SUFFIX}{_FOLLOWED}{_NOT_FOLLOWED.format(no_secret)}"),
        )
        for words, common, rest, no_secret in _NAMES
    )


def _value_of(views: Views, name: re.Match[str], end: int) -> SecretSpan | None:
    """The secret that belongs to a name."""
    text, after = views.text, name.end()
    word, suffix = name.groups()
    kind = None if suffix in _NO_SECRETS else _KINDS.get(word) or _kind_by_sort(views, name, word)
    if kind is None:
        return None
    binding = _BINDING.match(text, after, end)
    by, _, _, _, quote, written = _NOTHING if binding is None else binding.groups()
    found = None
    if binding is not None and written is not None:
        found = _bound(views, name, binding, kind) if by is not None else _told(views, name, binding, kind)
        if found is None and word == "ssphrase":
            found = secret_in(views, binding.start("value"), written, kind, dashed)
    elif binding is not None and quote is not None:
        found = phrase_at(views, binding.end("quote"), end) if word in _PHRASES else None
        # In quotes, several words with a figure or a mark in them.
        if found is None and by is not None and kind in ("PASSWORD", "SECRET"):
            found = spaced_at(views, binding.end("quote"), end, kind)
    if (
        found is None
        and text[after] == " "
        and kind == "PASSWORD"
        and (change := _FROM.match(text, after, end))
        and change["value"]
    ):
        judge = SAID[6] if change["quote"] is None else quoted
        found = secret_in(views, change.start("value"), change["value"], kind, judge)
    if found is None and (by is not None or text[after] in _IN_SENTENCES) and _may_be_pair(views, name, word):
        pair = _PAIR.match(text, after, end)
        if pair is not None and pair["value"] is not None:
            of_pair = SAID[5] if pair["quote"] is None else quoted
            found = secret_in(views, pair.start("value"), pair["value"], "PASSWORD", of_pair)
    # What is before the name is looked at only where it decides something.
    if found is not None and word == "cret" and text[after] == ":" and _is_in_address(views, name):
        return None
    return found


def _is_in_address(views: Views, name: re.Match[str]) -> bool:
    """Does the name belong to that of a thing: arn:aws:…:123456789012:secret:…?"""
    first = _beginning(views, name)
    return views.flat[first - 1 : first] == ":" and views.flat[first - 2 : first - 1].isdigit()


def _may_be_pair(views: Views, name: re.Match[str], word: str) -> bool:
    """Does the name stand for a user and a password: "credentials", "user and password"?"""
    if word.startswith("cred"):
        return True
    if word not in _PHRASES or _SAYS.match(views.text, name.end()) is None:
        return False
    first = _beginning(views, name)
    return views.lower[max(0, first - 5) : first].rstrip().endswith(_BEFORE_PAIRS)


def _told(views: Views, name: re.Match[str], binding: re.Match[str], kind: str) -> SecretSpan | None:
    """The value behind a name to which no mark of an assignment binds it."""
    _, _, said, bare, quote, written = binding.groups()
    if quote is not None:
        judge: Judge = quoted
    elif bare is not None:
        is_flag = views.text.startswith("-", _beginning(views, name))
        judge = SAID[5 if is_flag else 8 if kind == "PASSWORD" else 16]
    else:
        judge = SAID[6 if said is not None and kind == "PASSWORD" else 8]
    return secret_in(views, binding.start("value"), written, kind, judge)


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
    place, lower = name.start(), views.lower
    last = place - 1 if lower[max(0, place - 1) : place] in _BETWEEN else place
    if lower.endswith(_SORTS_BY_END.get(lower[max(0, last - 2) : last], ()), 0, max(0, last)):
        return "API_KEY"
    if not views.flat[place].isupper():
        return None
    written = views.flat[_beginning(views, name) : name.end()]
    return "API_KEY" if "_" in written and written.isupper() else None


def _bound(views: Views, name: re.Match[str], binding: re.Match[str], kind: str) -> SecretSpan | None:
    """The value of an assignment."""
    by, line, _, _, quote, written = binding.groups()
    text, start = views.text, binding.start("value")
    if line is not None and by == ">" and text.find("</", start, start + len(written) + 16) < 0:
        return None  # <token> stands for a value, unless it is closed again
    if line is not None or quote is not None:
        return secret_in(views, start, written, kind, quoted if quote is not None else SAID[8])
    found = secret_in(views, start, written, kind, assigned)
    # What is glued to a name in capitals, or listed under one.
    is_glued = by == "=" and start == name.end() + 1
    if (is_glued or (by == ":" and found is None)) and text[name.start() : name.end()].isupper():
        whole = secret_in(views, start, written, kind, exported if is_glued else listed)
        # The line is looked at only where it decides something.
        if whole != found and _starts_line(text, _beginning(views, name), name.end()):
            return whole
    return found


def _starts_line(text: str, first: int, after: int) -> bool:
    """Is the name in capitals and the first thing on its line, but for what a shell or a Dockerfile writes there?"""
    if not text[first:after].isupper():
        return False
    line = text[max(0, first - 24) : first].replace("\\n", "\n")
    before = line.rpartition("\n")[2].strip(" \t$#>\"'")
    return before in _SHELL_WORDS or before.endswith(_BEFORE_VARIABLES)
