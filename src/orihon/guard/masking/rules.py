r"""What a secret looks like: the built-in patterns, and around which literals they are looked for.

Each rule hangs on its *anchor*, one character or a few that are fixed (the ``_`` of ``ghp_``, the ``://`` of an
address), and what must stand around that gives the literals that ``anchors`` looks for. Rules with the same literals
become one expression, which begins with the anchor and looks back at what stands before it; it is compiled when one of
its literals is met for the first time.

Promises: no rule takes more than linear time on any text (runs are possessive or bounded, or start at most
once), and no match cuts a backslash escape, so that JSON inside a string stays JSON. Refuses to guess: a
rule wants a form that is unmistakable, or a name beside the value that says what it is. The providers' own key formats
are in ``providers``; values that only their surroundings give away (``password=…``) in ``named_values``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

from orihon.guard.masking.anchors import ESCAPE_LETTERS, Anchor, Finders, SecretSpan, Views, in_any_case, literals_of
from orihon.guard.masking.headers import Tables, header_values
from orihon.guard.masking.japanese import japanese_values
from orihon.guard.masking.judgement import is_strong
from orihon.guard.masking.named_values import named_values
from orihon.guard.masking.providers import (
    AFTER_DOT,
    DASHED,
    DOTTED,
    HOOKS,
    PROVIDER_KEYS,
    RUN_KEYS,
    UNDERSCORED,
    Prefixed,
)
from orihon.system.patterns import lazy_re

# A key starts where no word is going on: ``task-12`` and ``laughs_1`` are none. Some things end with a
# letter or digit and still end a word: escapes such as \n and \u003e in quoted text, %3D in addresses,
# terminal colours.
_START = (
    r"(?:(?<![A-Za-z0-9_-])"
    r"|(?<=\\[abefnrtv])|(?<=\\u[0-9A-Fa-f]{4})"
    r"|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[m)|(?<=[\[;][0-9]m)|(?<=[\[;][0-9]{2}m))"
)
# A first letter may belong to an escape: a newline and ``pm_`` are written \npm_ in JSON.
_NO_ESCAPE = r"(?<!\\)"

# People write ``ghp_token`` or ``sk-proj-key`` when they talk about keys: a short one counts only with a
# digit.
_KEY = r"(?=[A-Za-z]{0,15}[0-9]|[A-Za-z0-9]{16})[A-Za-z0-9]{6,}+"
_DASHED_KEY = r"(?=[A-Za-z_-]{0,15}[0-9]|[A-Za-z0-9_-]{16})[A-Za-z0-9_-]{4,}+"

# What follows the mark of a key of which little more is known: no key has a shorter rest, and a digit or a capital is
# soon in it, unlike in names of functions.
_PLAUSIBLE = r"(?=[A-Za-z0-9_+/-]{19})(?=[a-z_-]{0,16}+[A-Z0-9+/])"

# Between a name and its value: assignment, JSON (also quoted again), XML, or a blank as on a command line.
_QUOTE = r"(?:\\{0,4}[\"'])?"
_ASSIGN = rf"{_QUOTE}(?:[ \t]{{0,8}}(?:=>|:=|[=:>,])[ \t]{{0,8}}|[ \t]{{1,8}}){_QUOTE}"
_AWS_SECRET = rf"{_ASSIGN}()[A-Za-z0-9/+]{{30,}}+={{0,2}}"

# Where a line ends, and the next one; a half of a key that goes on there, and the least that both together have.
_BREAKS = ("\n", "\r\n", "\\\n")
_REST = lazy_re(r"[ \t]{0,8}([A-Za-z0-9_+/=.-]{6,256}+)(?=[ \t]{0,4}(?:[\r\n\"'`,;)]|$))")
_RANDOM = lazy_re(r"[A-Za-z0-9]*+\Z|(?=[^A-Z]*+[A-Z])(?=[^a-z]*+[a-z])[^0-9]*+[0-9]")
_LONGEST_HALF, _HALF, _LEAST_BROKEN = 96, 36, 24
# So many of one character end no key.
_RUN = 10

_PEM_LABEL = r"[A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
# Code that names both lines has little between them and no key. A listing may stop in the middle of a key:
# then the lines that are there are taken.
_PEM = (
    rf"{_PEM_LABEL}(?:(?!(?s:.){{0,19}}-----)(?:[^-]++|-(?!----))*+-----END {_PEM_LABEL}"
    r"|(?:(?:\s|\\[nr])++[A-Za-z0-9+/=]{16,}+)++)"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret, near some literals. ``pattern`` goes on after the anchor; the group that takes part is empty
    and marks where the secret begins, which ends with the match."""

    name: str
    anchor: str
    pattern: str
    literals: tuple[Anchor, ...]


def _ends_with_run(text: str, end: int) -> bool:
    return text.endswith(text[end - 1] * _RUN, 0, end)


class Scanner:
    """Rules that have their anchor and some literals in common."""

    def __init__(self, rules: Sequence[Rule], anchors: Sequence[Anchor]) -> None:
        self.anchors: Final = anchors
        self._rules: Final = rules

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(f"{re.escape(self._rules[0].anchor)}(?:{'|'.join(rule.pattern for rule in self._rules)})")

    @cached_property
    def _names(self) -> list[str]:
        """For each group of the expression."""
        return [rule.name for rule in self._rules for _ in range(re.compile(rule.pattern).groups)]

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        text, expression = views.flat, self._expression
        done, line = start, 0
        for place in places:
            match = expression.match(text, place, end) if done <= place else None
            if match is None or (match.end() - place < _HALF and text.startswith(_BREAKS, match.end())):
                line = line if line >= place else text.find("\n", place) if line >= 0 else line
                is_near = done <= place and 0 <= line - place < _LONGEST_HALF
                broken = self._over_break(text, place, line, end) if is_near else None
                if broken is not None and broken[0] >= start:
                    spans.append(broken)
                    done = broken[1]
                    continue
            if match is None:
                continue
            done = match.end()
            group = match.lastindex or 1
            # Looking back sees the placeholder before ``start`` and may take its digits for an address. A run of one
            # character is padding, a rule or a template, and no key.
            if match.start(group) >= start and not _ends_with_run(text, done):
                spans.append((match.start(group), done, self._names[group - 1]))
        return spans

    def _over_break(self, text: str, place: int, line: int, end: int) -> SecretSpan | None:
        """A key that goes on behind the end of its ``line``, in one that has nothing else."""
        rest = _REST.match(text, line + 1, end) if line < end else None
        if rest is None or not text[place:line].rstrip("\r\\").isprintable() or " " in text[place:line]:
            return None
        if not _RANDOM.match(rest[1]) or not is_strong(rest[1], is_password=False):
            return None  # a word
        first = max(0, place - _LONGEST_HALF)
        head = text[first:line].rstrip("\r\\")
        match = self._expression.match(head + rest[1], place - first)
        if match is None or match.end() <= len(head):
            return None
        group = match.lastindex or 1
        if match.end() - match.start(group) < _LEAST_BROKEN or _ends_with_run(match.string, match.end()):
            return None
        return first + match.start(group), rest.start(1) + match.end() - len(head), self._names[group - 1]


def key(name: str, before: str, anchor: str, then: str, after: str, *, start: str = _START) -> Rule:
    """A key at the start of a word: ``before``, the anchor, ``then`` and ``after``; only the last may vary in
    width."""
    head = f"{before}{re.escape(anchor)}{then}"
    # The first look back is redundant but cheap: it spares most anchors the test of the word start.
    pattern = f"{then}(?<={head})(?<={start}(){head}){after}"
    return Rule(name, anchor, pattern, tuple(literals_of(before, anchor, then)))


def glued_key(name: str, before: str, anchor: str, then: str, after: str) -> Rule:
    """A key so unmistakable that it counts in the middle of a word too."""
    return key(name, before, anchor, then, after, start="")


# The order decides which name a secret gets that fits two rules.
_RULES = (
    key("GITHUB_TOKEN", "gh[psur]", "_", "", rf"{_KEY}(?:_eyJ[A-Za-z0-9_.-]++)?"),
    glued_key("GITHUB_TOKEN", "gh[psur]", "_", "", r"[A-Za-z0-9]{36,}+"),
    glued_key("GITHUB_TOKEN", "github", "_", "pat_", rf"{_KEY}[A-Za-z0-9_]*+"),
    key("GITHUB_OAUTH_TOKEN", "gho", "_", "", _KEY),
    glued_key("GITHUB_OAUTH_TOKEN", "gho", "_", "", r"[A-Za-z0-9]{36,}+"),
    key("STRIPE_KEY", rf"{_NO_ESCAPE}[sr]k", "_", "(?:live|test)_", r"[A-Za-z0-9]{10,}+"),
    key("HUGGINGFACE_TOKEN", "hf", "_", "", r"[A-Za-z0-9]{30,}+"),
    key("NPM_TOKEN", rf"{_NO_ESCAPE}npm", "_", "", r"[A-Za-z0-9]{36,}+"),
    Rule(
        "AWS_SECRET_KEY",
        "_",
        rf"(?<=(?i:secret)_)(?i:access_key){_AWS_SECRET}",
        tuple(in_any_case("cret_", len("cret"))),
    ),
    key("ANTHROPIC_KEY", "sk", "-", "ant-", _DASHED_KEY),
    key("OPENROUTER_KEY", "sk", "-", "or-v1-", _DASHED_KEY),
    key("OPENAI_KEY", "sk", "-", "", rf"(?:proj|svcacct|admin|None)-{_DASHED_KEY}"),
    key("OPENAI_KEY", "sk", "-", "", r"(?=[A-Za-z]*+[0-9])[A-Za-z0-9]{20,}+"),
    *(
        glued_key("GITLAB_TOKEN", prefix, "-", "", rf"{_DASHED_KEY}(?:\.[0-9a-z]{{2}}\.?[0-9a-z]{{7,9}})?")
        for prefix in (
            "glpat",
            "gldt",
            "glrt",
            "glcbt",
            "glptt",
            "glft",
            "glsoat",
            "glimt",
            "glagent",
            "gloas",
            "glffct",
        )
    ),
    key("SLACK_TOKEN", "xox[abcdeprs]", "-", "", r"(?=[A-Za-z-]{0,15}[0-9])[A-Za-z0-9%-]{10,}+"),
    glued_key("PYPI_TOKEN", "pypi", "-", "Ag", r"[A-Za-z0-9_-]{16,}+"),
    glued_key("PRIVATE_KEY", "----", "-", "BEGIN ", _PEM),
    *(key("AWS_ACCESS_KEY", "", "A", then, r"[A-Z0-9]{16,}+") for then in ("[KSB]IA", "CCA")),
    key("GOOGLE_API_KEY", "", "A", "Iza", r"[A-Za-z0-9_-]{35,}+"),
    Rule(
        "AWS_SECRET_KEY",
        "A",
        rf"ccessKey(?<=[Ss]ecretAccessKey){_AWS_SECRET}",
        tuple(literals_of("[Ss]ecret", "A", "ccessKey")),
    ),
    Rule(
        "PIN",
        "P",
        r"IN(?<![A-Za-z0-9_]PIN)(?:[ -]?(?:code|Code|number))?(?:[ \t](?:is|was)|[:=])[ \t]{0,4}()"
        r"[0-9]{4,8}(?![0-9A-Za-z])",
        (Anchor("PIN"),),
    ),
)
_SESSIONS = ("SESSID", "sessid", "sessionid", "SESSIONID", "sessionId", "SessionId", "session_id", "connect.sid")
# A key with the form of a provider has the more telling name.
_LAST_RULES = (
    Rule(
        "SIGNATURE",
        "=",
        r"(?=[A-Za-z0-9%/+_-]{32})(?:(?<=(?i:sig)=)|(?<=(?i:signature)=))()(?=[A-Za-z%/+_-]{0,511}+[0-9])"
        r"[A-Za-z0-9%/+_-]{32,512}+={0,2}",
        (*in_any_case("sig=", len("sig")), *in_any_case("ture=", len("ture"))),
    ),
    # Outside of a header, too.
    Rule(
        "COOKIE",
        "=",
        r"(?:(?<=(?i:sessid)=)|(?<=(?i:sessionid)=)|(?<=(?i:session_id)=)|(?<=connect\.sid=))()(?=[^0-9]{0,31}[0-9])"
        r"(?=[^A-Z]{0,31}[A-Z])(?=[^a-z]{0,31}[a-z])[A-Za-z0-9%_.-]{20,}+",
        tuple(Anchor(f"{name}=", len(name)) for name in _SESSIONS),
    ),
    # OpenWeather and others call a key so in addresses; elsewhere it names an app.
    Rule(
        "API_KEY",
        "=",
        r"(?:(?<=[?&;](?i:appid)=)|(?<=0026(?i:appid)=))()[0-9a-f]{32}(?![0-9A-Za-z_-])",
        tuple(in_any_case("appid=", len("appid"))),
    ),
    Rule(
        "API_KEY",
        "=",
        r"(?<=[?&]key=)()(?=[^0-9]{0,31}[0-9])(?=[^A-Z]{0,31}[A-Z])[A-Za-z0-9_-]{20,}+",
        (Anchor("?key=", 4), Anchor("&key=", 4)),
    ),
    Rule(
        "BEARER_TOKEN",
        "earer",
        r"(?<=[Bb]earer)[ \t]{1,4}()(?=[A-Za-z._~+/-]{0,32}[0-9]|[A-Za-z._~+/-]{32})"
        r"[A-Za-z0-9._~+/-]{10,}+={0,2}",
        tuple(literals_of("[Bb]", "earer", "")),
    ),
    *(Rule("WEBHOOK_ADDRESS", "://", then, (Anchor("://"),)) for then in HOOKS),
    Rule(
        "URL_PASSWORD",
        "://",
        # A template such as ${PASSWORD}, {password} or %s is no password, nor is a placeholder.
        r"[^\s/:@?#\"'`<>\\]{0,128}:()(?!\$?\{|\$\w+@|%s@|%\(|\[[A-Z0-9_]++\]#[0-9a-f]{8,}+@"
        r"|(?:(?i:(?:your|my|the|db|some)?[-_]?(?:pass(?:word|wd|phrase)?|pwd|pw|secret|token))|\*{2,32}|[xX]{3,32}|\.{3}|…)@)"
        r"[^\s/\"'`<>\\]{1,256}(?=@)",
        (Anchor("://"),),
    ),
    *(key(*row) for row in RUN_KEYS),
)


def _unescaped(before: str) -> str:
    return f"{_NO_ESCAPE}{before}" if before and before[0] in ESCAPE_LETTERS else before


def _prefixed(mark: str, rows: Iterable[Prefixed]) -> Iterator[Rule]:
    """The rules for keys that begin with a word and a mark."""
    for kind, words, then, characters, least in rows:
        rest = f"{_PLAUSIBLE}{then}[{characters}]{{{least},}}+"
        yield from (key(kind, _unescaped(word.replace(".", r"\.")), mark, "", rest) for word in words.split())


_PROVIDER_RULES = (
    *(key(name, _unescaped(before), anchor, then, after) for name, before, anchor, then, after in PROVIDER_KEYS),
    *_prefixed("_", UNDERSCORED),
    *_prefixed("-", DASHED),
    *_prefixed(".", DOTTED),
)
_SSN = (key("SSN", "[0-9][0-9][0-9]", "-", "[0-9][0-9]-", r"[0-9]{4}(?![A-Za-z0-9_-])"),)

_LOCAL_PART = "[A-Za-z0-9._%+-]"
_LOCAL_START = r"(?:(?<![A-Za-z0-9._%+\\-])|(?<=\\[abefnrtv]))"
_DOMAIN = r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}"
# A look back has a fixed width, so each length of the part before the "@" gets its own.
_BEFORE_AT = "|".join(rf"(?<={_LOCAL_START}(){_LOCAL_PART}{{{length}}}@)" for length in range(1, 65))
_EMAIL = (Rule("EMAIL", "@", rf"(?={_DOMAIN})(?:{_BEFORE_AT}){_DOMAIN}", (Anchor("@"),)),)

# No rule matches in fewer characters: ``://:p@`` and ``a@b.jp``. Spares the many short strings of a message.
SHORTEST_TEXT = 6


@cache
def built_in_finders(*, email: bool, ssn: bool) -> Finders:
    """The built-in rules, those with the same literals together, in the order in which names are given."""
    by_literal: dict[tuple[str, Anchor], list[Rule]] = {}
    for rule in (*_RULES, *_PROVIDER_RULES, *(_SSN if ssn else ()), *(_EMAIL if email else ()), *_LAST_RULES):
        for literal in rule.literals:
            by_literal.setdefault((rule.anchor, literal), []).append(rule)
    literals: dict[tuple[Rule, ...], list[Anchor]] = {}
    for (_, literal), rules in by_literal.items():
        literals.setdefault(tuple(rules), []).append(literal)
    scanners = [Scanner(rules, anchors) for rules, anchors in literals.items()]
    dotted = [key(name, before, dot, then, f"{_PLAUSIBLE}{after}") for name, before, dot, then, after in AFTER_DOT]
    others = (*header_values(), *named_values(), *japanese_values(), Tables())
    return Finders((*scanners, *others), Scanner(dotted, ()), len(scanners))
