# ruff: noqa: E501 - tables
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

from orihon.guard.masking.anchors import Anchor, Finder, SecretSpan, Views, in_any_case
from orihon.guard.masking.judgement import is_passphrase, is_quoted_secret, is_spaced_secret, is_strong
from orihon.guard.masking.values import SAID, phrase_at, quoted, secret_in
from orihon.system.patterns import lazy_re

# Secrets, and how far a text was read for them: nothing of that is read again.
Read = tuple[list[SecretSpan], int]

_BASIC = lazy_re(r"basic[ \t]{1,4}()[a-z0-9+/]{8,1024}={0,2}")
_COOKIE = lazy_re(r"cookies?2?(?:\\{0,4}[\"'\])])?[ \t]{0,4}[:=,][ \t]{0,4}(?:\\{0,4}[\"'])?")
_CRUMB = lazy_re(r"[ \t;]{0,4}([A-Za-z0-9_.%-]{1,64})=([!#-&(-+\--:<-\[\]-~]{1,1024})")
_SESSION = lazy_re(r"sess|sid|auth|token|csrf|xsrf|jwt|login|remember|secret|key|user", re.IGNORECASE)
_ATTRIBUTES = frozenset(("path", "domain", "expires", "max-age", "samesite", "version", "comment"))
_CLIENTS = (
    r"curl wget http https mysql\w* mariadb\w* sshpass docker podman helm mongo\w* redis-cli smbclient ldap\w* cqlsh"
    r" snowsql 7z\w? rar unrar openssl az oc cf psexec\w* rdesktop plink pscp ncftp\w* snmp\w* useradd usermod"
)
# These take a password behind a capital only, and ssh-keygen a new one behind "-N".
_CAPITAL_CLIENTS = r"ssh-keygen zip unzip sqlcmd bcp ipmitool mosquitto_\w*"
# Each begins with a letter, and looks back from there: so the search is much faster.
_CLIENT, _CAPITAL_CLIENT = (
    lazy_re("|".join(rf"{name[0]}(?<!\w.){name[1:]}\b" for name in names.split()))
    for names in (_CLIENTS, _CAPITAL_CLIENTS)
)
_LONGEST_LINE = 200
_LONGEST_CLIENT = 32
_FLAG = lazy_re(
    r" -(?:(?:u|-user|-proxy-user|-auth)[ \t=]{1,2}(?P<q>\\{0,4}[\"'])?[\w.@+-]{1,64}:(?P<pair>[!#-&(-\[\]-~]{3,128})"
    r"|(?:[pa][ \t]?|[nwk][ \t]{1,2})\\{0,4}(?P<q3>[\"'])(?P<phrase>(?![/$<{-])(?=[^\"'\\\n ]{1,64} )[^\"'\\\n=]{8,128})(?=\\{0,4}(?P=q3))"
    r"|(?:[pa][ \t]?|[nwk][ \t]{1,2})(?P<q2>\\{0,4}[\"'])?(?P<alone>[!#-&(-\[\]-~]{4,128}))"
)


# A user and a password in the call of something that logs in, or behind "logged in with"; a line of .pgpass.
_ARGUMENTS = lazy_re(
    r"(?:login|auth|auth=|edentials?|tication)\([ \t]{0,4}\\{0,4}[\"'][^\s\"'\\]{1,64}\\{0,4}[\"'],[ \t]{0,4}"
    r"(?:some\()?\\{0,4}[\"']()[!#-&(-\[\]-~]{5,128}(?=\\{0,4}[\"'])"
)
_CALLS = "login( Login( auth( Auth( auth=( edential( edentials( tication("
_LOGS = tuple(f"{verb} in {how} " for verb in ("og", "ogged", "ign", "igned") for how in ("with", "as"))
_LOGGED_IN = lazy_re(r"in (?:with|as) [`\"']?[\w.@+-]{1,64} ?[/:] ?[`\"']?()[!#-&(-\[\]-_a-~]{5,128}")
_SECURED = lazy_re(r"securestring (?:-string )?\\{0,4}[\"']()[!#-&(-\[\]-~]{4,128}(?=\\{0,4}[\"'])")
_PGPASS = lazy_re(r":[0-9]{4}:[\w*.-]{1,64}:[\w*.-]{1,64}:()[!#-&(-\[\]-~]{4,128}")
# What other programs take as a password: in a place of its own, from a pipe, from a text behind ``<<<``.
_GIVEN = r"\\{0,4}[\"']?(?P<value>(?![/<$-])[!#-&(-\[\]-{}~]{4,128})"
_ECHOED = (
    r"(?:echo|printf)[ \t]{1,4}(?:-[ne]{1,2}[ \t]{1,4})?(?:[\"']%s(?:\\{1,4}n)?[\"'][ \t]{1,4})?\\{0,4}[\"']?"
    r"(?:[\w.-]{1,64}:(?=[^|\n]{1,140}\|[ \t]{0,4}(?:sudo )?chpasswd))?(?P<value>(?![<$])[!#-&(-\[\]-{}~]{4,128}+)"
    r"(?:\\{1,4}n)?\\{0,4}[\"']?[ \t]{0,4}\|[ \t]{0,4}(?:sudo (?:-[a-z]{1,8} ){0,2}-[a-z]{0,4}s(?![a-z])"
    r"|(?:sudo )?(?:chpasswd|passwd|smbpasswd|cryptsetup)(?!\w)|[^|\n]{1,120}(?:-stdin|--with-token|phrase-fd))"
)
_GAP = r"[ \t]{1,4}"
_MAYBE_QUOTE = r"\\{0,4}[\"']?"
# The literals by which a command is found, divided by bars, and how it goes on.
_COMMANDS = (
    ("htpasswd -",
     rf"htpasswd -(?=[a-z]{{0,8}}b)(?:(?=[a-z]{{0,8}}n)[a-z]{{1,9}}|[a-z]{{1,9}}{_GAP}\S{{1,128}})"
     rf"{_GAP}\S{{1,64}}{_GAP}"),
    ("net use ", rf"net use{_GAP}(?:(?:[a-z]:|\*){_GAP})?\\{{2,8}}\S{{1,128}}{_GAP}(?:/\w{{1,12}}:\S{{1,64}}{_GAP})?"),
    ("net user ", rf"net user{_GAP}[^\s/]{{1,64}}{_GAP}"),
    ("chpasswd|sudo -S|-stdin|with-token|phrase-fd",
     r"(?:chpasswd|sudo -s|-stdin|with-token|phrase-fd 0)[^\n<]{0,80}<<<?[ \t]{0,4}\\{0,4}[\"']?(?:[\w.-]{1,64}:)?"),
    ("add_user |change_password |authenticate_user ",
     rf"(?:add|authenticate|change)_(?:user|password){_GAP}[\w.@-]{{1,64}}{_GAP}"),
    (" -U ", rf" -u{_GAP}{_MAYBE_QUOTE}[\w./@-]{{1,64}}(?:\\{{1,4}}[\w.-]{{1,64}})?%"),
    ("lftp ", rf"lftp [^\n]{{0,80}}?-u{_GAP}{_MAYBE_QUOTE}[\w.@-]{{1,64}},"),
    ("freerdp ", r"freerdp [^\n]{0,160}?/p(?:ass)?:"),
    ("wpa_passphrase ", rf"wpa_passphrase{_GAP}(?:\\{{0,4}}[\"'][^\"'\n]{{1,40}}[\"']|\S{{1,40}}){_GAP}"),
    ("mc alias set |mc config host add ", rf"mc (?:alias set|config host add)(?:{_GAP}\S{{1,128}}){{3}}{_GAP}"),
    ("ogin: |ign in: |og in: |in as |in using ",
     r"(?:(?:ogin|ign in|og in): |in (?:as|using) )[\w.@+-]{1,64}(?: ?/ ?|:| with (?:the )?(?:password )?)"),
    ("ifi: |iFi: |i-Fi: ", r"i-?fi: [^\n/:]{1,40}? ?/ ?"),
    ("assword for |ASSWORD FOR ", r"assword for [^\n=]{1,80}= ?(?:password\()?"),
    ("masterauth |kinit ", rf"(?:masterauth|kinit [^\n<]{{1,80}}<<<){_GAP}"),
    ("enable secret |enable password |snmp-server community |shared-key |shared key ",
     r"(?:enable (?:secret|password)|snmp-server community|shared[- ]key)"
     r"(?: (?:[0-9]|ascii|local|remote|is))?[ :=]{1,4}"),
    ("from-literal", rf"from-literal[= ]{_MAYBE_QUOTE}[\w.-]{{1,64}}="),
    ("<(echo ", rf"<\(echo{_GAP}"),
    ("fied by |FIED BY ", rf"fied by{_GAP}"),
    ("redis-cli ", rf"redis-cli [^\n]{{0,80}}?auth{_GAP}"),
)  # fmt: skip
_OTHER_COMMANDS = (
    ("echo |printf ", _ECHOED),
    ("sqlplus ", rf"sqlplus (?:-\w{{1,3}} ){{0,2}}{_MAYBE_QUOTE}[\w$#]{{1,30}}/(?P<value>[^\s@\"'\\]{{4,64}})"),
    ('send "|send -- "', r"send (?:-- )?\\{0,4}\"(?P<value>[!#-&(-\[\]-~]{4,128})(?=\\{1,4}[rn])"),
    ("oracle:thin:", r"oracle:thin:[\w$#]{1,30}/(?P<value>[^\s@\"'\\]{4,64})(?=@)"),
    ("WIFI:", r"wifi:[^\n]{0,80}?p:(?P<value>[^;\s\"'\\]{4,64})(?=;)"),
    ("-passin |-passout |-pass ", rf"-pass(?:in|out)?{_GAP}\\{{0,4}}[\"']pass:(?P<value>[^\"'\\\n]{{4,128}}(?=[\"'\\]))"),
    # Letters in groups, as they are shown to be typed.
    ("etup key|OTP secret|OTP seed|OTP Seed|uthenticator key|uthenticator secret|pp password|pp-password|pp Password",
     r"[ou]?[a-z-]{2,16}(?: (?:key|secret|seed|password))?[^\n:=]{0,40}?(?:[:=]| is)\s{1,3}[\"'`]?"
     r"(?P<value>(?:[a-z0-9]{4}[ -]){3,15}+[a-z0-9]{2,4}|(?<=seed: )[a-z0-9]{16,64})(?![a-z0-9])"),
    # The words of a wallet.
    ("eed phrase|eed Phrase|nemonic|ecovery phrase",
     rf"(?:eed|ecovery|nemonic)(?: phrase)?[^\n:=]{{0,16}}[:=]\s{{0,4}}{_MAYBE_QUOTE}"
     r"(?P<value>(?:[a-z]{3,8}[ ,]{1,2}){11,23}+[a-z]{3,8})"),
)  # fmt: skip
_IDENTIFIED = lazy_re(r"identified by[ \t]{1,4}\\{0,4}['\"]()[!#-&(-\[\]-~]{4,128}(?=\\{0,4}['\"])")


def _whole(_text: str, match: re.Match[str], _end: int) -> Read:
    return [(match.start(1), match.end(), "PASSWORD")], match.end()


def _strong(text: str, match: re.Match[str], _end: int) -> Read:
    first = match.start(1)
    taken = text[first : match.end()].rstrip(".,;:)")
    is_secret = is_strong(taken, is_password=True, least=5)
    return [(first, first + len(taken), "PASSWORD")] if is_secret else [], match.end()


def _code(text: str, match: re.Match[str], _end: int) -> Read:
    has_digit = any(character.isdigit() for character in text[match.start(1) : match.end()])
    return [(match.start(1), match.end(), "PIN")] if has_digit else [], match.end()


def _answer(text: str, match: re.Match[str], _end: int) -> Read:
    taken = text[match.start(1) : match.end()]
    is_secret = is_strong(taken, is_password=False, least=8)
    return [(match.start(1), match.end(), "SECRET")] if is_secret else [], match.end()


def _your_code(text: str, match: re.Match[str], end: int) -> Read:
    is_yours = "our " in text[max(0, match.start() - 40) : match.start() + 1]
    return _code(text, match, end) if is_yours else ([], match.end())


def _given(text: str, match: re.Match[str], _end: int) -> Read:
    first, last = match.span("value")
    taken = text[first:last].rstrip(",;:)")
    is_secret = " " in taken or is_strong(taken, is_password=True, least=5)
    return [(first, first + len(taken), "PASSWORD")] if is_secret else [], match.end()


def _basic(text: str, match: re.Match[str], _end: int) -> Read:
    """Only what is a user and a password: people write "Basic authentication" too."""
    encoded = text[match.start(1) : match.end()]
    try:
        decoded = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:
        return [], match.end()
    is_pair = b":" in decoded and decoded.replace(b"\t", b" ").decode("utf-8", "replace").isprintable()
    # In a header it is nothing else, whatever it stands for.
    before = (
        text[max(0, match.start() - 8) : match.start()].rstrip(" \t\"'\\").endswith(("tion:", 'tion":', "tion=", ","))
    )
    is_pair = is_pair or (before and is_strong(encoded, is_password=False, least=16))
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
        *(anchor for flag in (" -p", " -a", " -u", " --u", " --p", " --a") for anchor in in_any_case(flag)),
        Anchor(" -N"),
        Anchor(" -w"),
        Anchor(" -k"),
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
            is_phrase = match["phrase"] is not None
            first, last = match.span("pair" if is_pair else "phrase" if is_phrase else "alone")
            judge = _paired if is_pair else _words if is_phrase else _alone
            span = secret_in(views, first, views.flat[first:last], "PASSWORD", judge)
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
    if flag == "k" or client == "openssl":
        return flag == "k" and client == "openssl"
    if flag in "Nw":
        return flag == "w" and client.startswith("ldap")
    return client not in ("curl", "http", "https", "wget")


def _takes_behind_capital(text: str, line: int, place: int) -> bool:
    flag = text[place + 2]
    client = _CAPITAL_CLIENT.search(text, line, place) if flag in "NP" else None
    return client is not None and (flag == "P" or client[0] == "ssh-keygen")


def _paired(written: str, _is_password: bool) -> int:
    return 0 if written.startswith(("$", "{", "<", "%")) else len(written.rstrip(",;)"))


def _words(written: str, _is_password: bool) -> int:
    return len(written) if is_passphrase(written, is_told=True) or is_spaced_secret(written) else 0


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


# Codes are short: only behind what says that they open something.
_CODE_NAMES = (
    "ication code|urity code|irmation code|-time code|oor code|ate code|ecovery code|ackup code|2FA code|MFA code"
    "|ogin code|OTP |OTP: |OTP code|2fa code|mfa code|otp code|otp: |ign-in code|ign in code|og-in code|og in code"
    "|ccess code|nlock code|SMS code|asscode|2FA: |MFA: |airing code|tion Code|Backup Code|Recovery Code"
)
_ONE_CODE = r"(?:[0-9]{4,8}|[a-z0-9]{4,6}-[a-z0-9]{4,6}(?![0-9a-z-]))"
_NUMBERED = r"(?:[0-9]{1,2}[.)] |[-*] )?"
_CODE = lazy_re(
    r"[a-z0-9-]{2,8} ?(?:codes?)?(?:(?: is| was| =|:)? ?\s?|[^\n:]{1,60}?(?::\s{0,3}| (?:is|was|are) ))"
    rf"{_NUMBERED}[\"'`]?(){_ONE_CODE}(?:(?:[ ,]{{1,2}}|,?\r?\n[ \t]{{0,4}}){_NUMBERED}{_ONE_CODE}){{0,15}}+"
    r"(?![0-9a-z-]|[.,][0-9]| ?(?:min|sec|hour|day|char|digit|time|ms|s)\w{0,8}\b)"
)
# "Your … code is", and where a code opens something.
_YOUR_CODE = lazy_re(r" code(?: is|:) ?()[0-9]{4,8}(?![0-9a-z-]|[.,][0-9])")
_USED_CODE = lazy_re(
    r"code ()[0-9]{4,8}(?= (?:to|when|on) (?:sign|log|verify|confirm|complete|finish|continue|access|unlock|authenticate))"
)
# What a program prints that makes or tells a secret stands alone on the next line.
_MAKERS = (
    "openssl rand|pwgen |/dev/urandom|token_hex(|token_urlsafe(|token_bytes(|genkey|genpsk|gen-random|base64 -d"
    "|base64 --decode|pass show |op read |op item get|bw get |secret-tool lookup|get-secret-value|versions access"
    "|keyvault secret show|find-generic-password|find-internet-password|kv get |vault read |cat /run/secrets/"
    "|initialAdminPassword|rails secret|rake secret|key:generate|randomBytes(|print-access-token|get-access-token"
    "|get-login-password|create token|token create|get-password|get-parameter |decrypt --|gopass |chamber read|apg -"
)
_SHOWS = 'echo $|echo ${|echo "$|printenv |config:get |terraform output|output -raw |cat /run/|cat /etc/|cat ~/.|cat ./|cat sec|cat pass|cat tok|cat api|cat .|Write-Host $env:|echo %'
_ANSWER = (
    r"[^\n\\]{0,200}+(?:\r?\n|\\{1,4}n)(?:[ \t]{0,4}\r?\n)?[ \t]{0,4}[\"']?()(?![$/#>-])[!#-&(-\[\]-~]{8,256}"
    r"(?=[\"']?[ \t]{0,4}(?:\r?\n|\\|$))"
)
_MADE = lazy_re(_ANSWER)
_SHOWN = lazy_re(
    r"(?>(?:echo|printenv|config:get|(?:terraform )?output(?: -raw)?|cat|write-host)[ \t]{1,4}[^\n|;>&]{0,80}?"
    r"(?:pass(?!wd\b)|secret|token|[_.-]key|api_?key|pwd|psk|credential))"
    rf"(?![^\n]{{0,40}}\.(?:py|[jt]s|md|go|rb|java)\b){_ANSWER}"
)
# Behind a value: "as the password", "(passphrase)", and nothing that makes another thing of it.
_BEHIND = lazy_re(
    r"(?: (?:as|is|for) (?:(?:the|my|our|your|its|a|new) ){0,2}(?:[a-z0-9_-]{1,16} ){0,2}?"
    r"| \((?:(?:the|its|a) )?(?:[a-z0-9_-]{1,16} )?| (?://|\#) ?(?:(?:the|our) )?)"
    r"(?:(?P<password>pass(?:word|phrase|code|wd)?|pwd?)|(?:api|access|secret|auth)[ _-]?(?:key|token)|secret|token)"
    r"(?=[.,;:!?)\n\"'`]|$| (?:for|on|of|to|in|here|there|now|and|when|until|if|instead|please|then|-|—)(?!\w))"
)
# Words in quotes in the same sentence, or alone behind a colon.
_PHRASE_NEAR = lazy_re(
    r"(?:\w{0,4}[^\n\"'`“「『‘.;]{0,48}?[ \t(:=,（はを]{1,3}\\{0,4}(?P<quote>[\"'“「『‘])"
    r"|[ \t]{0,4}[:=][ \t]{1,4}(?=(?P<bare>(?:[A-Za-z]{2,12} ){4,11}+[a-z]{2,12})[ \t]{0,4}(?:\r?\n|\Z)))"
)


@dataclass(frozen=True, slots=True)
class Phrases:
    """Passphrases near their name."""

    anchors: tuple[Anchor, ...] = tuple(
        Anchor(form, len(form)) for form in ("assphrase", "ass phrase", "ASSPHRASE", "パスフレーズ")
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        done = start
        for place in places:
            near = _PHRASE_NEAR.match(views.text, place, end) if done <= place else None
            if near is None:
                continue
            if near["bare"] is None:
                span = phrase_at(views, near.end(), end, is_told=True)
            else:
                is_phrase = is_passphrase(near["bare"].lower(), is_told=True)
                span = (*near.span("bare"), "PASSWORD") if is_phrase else None
            if span is not None:
                spans.append(span)
                done = span[1]
        return spans


_BEHIND_WORDS = (
    " // pass| // secret| // api| // token| # pass| # secret| # api| # token"
    "| (pass| (the pass| (pw| (root pass| (admin pass| (db pass| (token)| (secret)| (api key)"
)
_SAID_WORDS = ("pass", "new pass", "root pass", "admin pass", "db pass", "wifi pass", "token", "api", "secret", "pw")
_LAST_WORD = lazy_re(r"(?P<quote>[\"'`“「])?(?P<value>[!#-&(-\[\]-_a-~]{4,128})[\"'`”」]?[)\];,]{0,3}\Z")


@dataclass(frozen=True, slots=True)
class SaidBefore:
    """A value before what it is: "use … as the password"."""

    anchors: tuple[Anchor, ...] = tuple(
        map(
            Anchor,
            (
                *(f" as {word} " for word in ("the", "my", "our", "your", "its", "a", "new")),
                *(f" is {word} {what}" for word in ("the", "my", "our", "your") for what in _SAID_WORDS),
                *(f" for the {word}pass" for word in ("", "root ", "admin ", "db ", "new ")),
                *(f" as {word}" for word in ("pass", "root ", "admin ", "db ", "token", "api", "secret")),
                *_BEHIND_WORDS.split("|"),
            ),
        )
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        for place in places:
            behind = _BEHIND.match(views.lower, place, end)
            if behind is None or place <= start:
                continue
            first = max(start, place - _LONGEST_LINE)
            while place > first and views.flat[place - 1] == " ":
                place -= 1
            first = max(first, views.flat.rfind(" ", first, place) + 1, views.flat.rfind("\n", first, place) + 1)
            word = _LAST_WORD.search(views.flat, first, place)
            if word is None:
                continue
            kind = "SECRET" if behind["password"] is None else "PASSWORD"
            judge = quoted if word["quote"] else SAID[6 if kind == "PASSWORD" else 16]
            span = secret_in(views, word.start("value"), word["value"], kind, judge)
            if span is not None:
                spans.append(span)
        return spans


_SECRETS = lazy_re(
    r"(?:secrets|credentials|passwords|creds)(?P<quote>\\{0,4}[\"'])?[ \t]{0,4}[:=][ \t]{0,4}(?=[\[{\r\n])"
)
_FIELD = lazy_re(
    r"(?:^|[\n{\[,])[ \t]{0,32}(?:-[ \t]{1,4})?\\{0,4}[\"']?(?P<name>[\w./-]{1,64})\\{0,4}[\"']?"
    r"[ \t]{0,4}[:=][ \t]{0,4}(?:\\{0,4}[\"'](?P<quoted>[!#-&(-\[\]-~]{4,128})(?=\\{0,4}[\"'])"
    r"|(?P<value>[!#-&(-+\--\[\]-z|~]{4,128})(?=[ \t]{0,4}(?:[\r\n,}\]]|$|\#)))"
)
# What names a secret, and is none.
_NAMING = frozenset(
    (*("name", "key", "id", "type", "kind", "description", "label", "title", "path"),
     *("source", "user", "username", "file", "email", "host", "target"))
)  # fmt: skip
_LONGEST_BLOCK: Final = 1600


@dataclass(frozen=True, slots=True)
class SecretsBelow:
    """What stands in the list or the fields below a word for secrets, whatever it is called there."""

    anchors: tuple[Anchor, ...] = tuple(
        Anchor(form)
        for word in ("secrets", "credentials", "passwords", "creds")
        for form in (word, word.title(), word.upper())
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        done = start
        for place in places:
            head = _SECRETS.match(views.lower, place, end) if done <= place else None
            if head is None:
                continue
            done = _end_of_block(views.flat, place, head.end(), end)
            for field in _FIELD.finditer(views.flat, head.end(), done):
                if field["name"].lower() in _NAMING:
                    continue
                group = "value" if field["quoted"] is None else "quoted"
                judge = SAID[6] if group == "value" else quoted
                span = secret_in(views, field.start(group), field[group], "SECRET", judge)
                if span is not None:
                    spans.append(span)
        return spans


def _end_of_block(text: str, place: int, start: int, end: int) -> int:
    """Where what begins with a bracket is closed, or where a line is indented no more than the first."""
    last = min(end, start + _LONGEST_BLOCK)
    if text[start] in "[{":
        depth = 0
        for mark in _BRACKET.finditer(text, start, last):
            depth += 1 if mark[0] in "[{" else -1
            if depth == 0:
                return mark.end()
        return last
    line = text.rfind("\n", max(0, place - _LONGEST_LINE), place) + 1
    indent = len(text[line:place]) - len(text[line:place].lstrip(" \t-\"'"))
    for other in _LINE.finditer(text, start, last):
        if len(other[1]) < indent or (len(other[1]) == indent and other[2] != "-"):
            return other.start()
    return last


_BRACKET = lazy_re(r"[\[\]{}]")
_LINE = lazy_re(r"\n([ \t]{0,64})(\S)")
_ACCESS_ID = lazy_re(r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])")
_SECRET_KEY = lazy_re(
    r"(?<![A-Za-z0-9/+=_-])(?=[^0-9]{0,39}[0-9])(?=[^A-Z]{0,39}[A-Z])(?=[^a-z]{0,39}[a-z])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])"
)
_NEAR: Final = 160
_SECRET_LENGTH: Final = 40


@dataclass(frozen=True, slots=True)
class BesideKeys:
    """The secret of an access key, which has no form of its own, near its id."""

    anchors: tuple[Anchor, ...] = (Anchor("AKIA"), Anchor("ASIA"))

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        done = start  # what was searched is not searched again
        for place in places:
            if _ACCESS_ID.match(views.flat, place, end) is None:
                continue
            reach = min(place + 20 + _NEAR, end)
            for secret in _SECRET_KEY.finditer(views.flat, max(done, place - _NEAR), reach):
                spans.append((*secret.span(), "AWS_SECRET_KEY"))
                done = secret.end()
            done = max(done, reach - _SECRET_LENGTH)
        return spans


def _command(words: str, pattern: str) -> Around:
    return Around(tuple(map(Anchor, words.split("|"))), lazy_re(pattern), _given)


def header_values() -> tuple[Finder, ...]:
    """One for each anchor."""
    return (
        Flags(),
        Around(tuple(in_any_case("basic ")), _BASIC, _basic),
        Around(tuple(in_any_case("cook")), _COOKIE, _cookie),
        Around(tuple(in_any_case("ied b", -len("identif"))), _IDENTIFIED, _whole),
        Around(tuple(Anchor(word) for word in _CALLS.split()), _ARGUMENTS, _strong),
        Around(tuple(Anchor(words, words.index("in ")) for words in _LOGS), _LOGGED_IN, _strong),
        Around((Anchor("SecureString "),), _SECURED, _strong),
        *(_command(words, f"{pattern}{_GIVEN}") for words, pattern in _COMMANDS),
        *(_command(words, pattern) for words, pattern in _OTHER_COMMANDS),
        Around(tuple(map(Anchor, _CODE_NAMES.split("|"))), _CODE, _code),
        Around((Anchor(" code is "),), _YOUR_CODE, _your_code),
        Around(tuple(Anchor(f"code {digit}") for digit in range(10)), _USED_CODE, _code),
        Around(tuple(map(Anchor, _MAKERS.split("|"))), _MADE, _answer),
        Around(tuple(map(Anchor, _SHOWS.split("|"))), _SHOWN, _answer),
        Phrases(),
        SaidBefore(),
        SecretsBelow(),
        BesideKeys(),
        Columns(),
        Around(tuple(Anchor(f":{port}:") for port in (5432, 5433, 6432)), _PGPASS, _strong),
    )


_LONGEST_ROW: Final = 400
_MOST_ROWS: Final = 64
_RULE = lazy_re(r"[ \t]{0,8}[|+:-][ \t|+:-]{2,400}\r?(?:\n|$)")
_HEAD = lazy_re(
    r"[ \t*`\"']*(?:[a-z_]{1,16}[ _-])?(?:(?P<password>pass(?:word|phrase|wd)|pwd?"
    r"|[ぁ-ヿ一-鿿]{0,8}(?:パスワード|パスフレーズ))"
    r"|api[ _-]?key|secret(?:[ _-]key)?|token|[a-z]{0,3}(?:[ぁ-ヿ一-鿿]{0,8}(?:トークン|シークレット)|キー))[ \t*`\"']*"
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
        known: dict[str, dict[int, str]] = {}  # many tables have the same head
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
            head = _head_above(text, below)
            columns = known.get(head)
            if columns is None:
                columns = known[head] = _named_columns(head, "|") if "|" in head else {}
            if columns:
                found, done = _cells(views, columns, done, end)
                spans += found
        return spans


_CSV_HEAD = lazy_re(
    r"[\"']?[A-Za-z_][\w .-]{0,31}[\"']?(?:(?P<by>[,;\t])[ ]?[\"']?[A-Za-z_][\w .-]{0,31}[\"']?)++\r?(?=\n)"
)
_CSV_NAMES = ("password", "passwd", "passphrase", "pwd", "secret", "token", "api_key", "apikey")


@dataclass(frozen=True, slots=True)
class Columns:
    """Values in columns divided by commas, semicolons or tabs, whose first line says what they are."""

    anchors: tuple[Anchor, ...] = tuple(
        Anchor(form)
        for word in _CSV_NAMES
        for name in (word, word.title(), word.upper())
        for by in ",;\t"
        for form in (f"{by}{name[:5]}", f"{name}{by}", f'{by}"{name[:5]}', f'{name}"{by}')
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        text, done = views.text, start
        for place in places:
            if place < done:
                continue
            first = max(text.rfind("\n", max(done, place - _LONGEST_ROW), place) + 1, done)
            head = _CSV_HEAD.match(text, first, min(first + _LONGEST_ROW, end))
            line = text.find("\n", place, place + _LONGEST_ROW)
            done = place + _LONGEST_ROW if line < 0 else line + 1
            if head is None or head.end() < place:
                continue
            columns = _named_columns(head[0], head["by"])
            if columns:
                found, done = _cells(views, columns, done, end, head["by"], head[0].count(head["by"]))
                spans += found
        return spans


def _head_above(text: str, below: int) -> str:
    """The line before the one that begins at ``below``, or what of it is looked at."""
    first = text.rfind("\n", max(0, below - 1 - _LONGEST_ROW), below - 1) + 1
    return text[max(first, below - 1 - _LONGEST_ROW) : below - 1]


def _named_columns(head: str, by: str) -> dict[int, str]:
    """The numbers of the columns with secrets, and of what kind those are."""
    names = map(_HEAD.fullmatch, head.lower().rstrip("\r").split(by))
    kinds = (
        (number, name and ("SECRET" if name["password"] is None else "PASSWORD")) for number, name in enumerate(names)
    )
    return {number: kind for number, kind in kinds if kind is not None}


def _cells(
    views: Views, columns: dict[int, str], place: int, end: int, by: str = "|", count: int | None = None
) -> tuple[list[SecretSpan], int]:
    """The secrets in those columns, and where the table ends, all of whose rows have so many marks."""
    text = views.text
    around = " \t\r*`" if by == "|" else " \t\r\"'"
    is_rule = _RULE.match
    spans: list[SecretSpan] = []
    for _ in range(_MOST_ROWS):
        reach = place + _LONGEST_ROW if place + _LONGEST_ROW < end else end
        line = text.find("\n", place, reach)
        last = reach if line < 0 else line
        row = text[place:last]
        cells = row.split(by)
        if len(cells) == 1 or (len(cells) != count + 1 if count else is_rule(row)):
            break
        for number, kind in columns.items():
            if number >= len(cells):
                break
            value = cells[number].strip(around)
            span = secret_in(views, 0, value, kind, _in_column)
            if span is not None:
                first = place + sum(map(len, cells[:number])) + number + cells[number].find(value)
                spans.append((first, first + span[1], kind))
        place = last + 1
        if line < 0:
            break
    return spans, min(place, end)


def _in_column(value: str, is_password: bool) -> int:
    if not is_password and len(value) < _SHORTEST_TOKEN:
        return 0
    return 0 if value.isalpha() or not is_quoted_secret(value, is_password=is_password) else len(value)
