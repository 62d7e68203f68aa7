r"""What a secret looks like: the built-in patterns, and how they are searched at the speed of ``memchr``.

Each rule hangs on its *anchor*, a literal that ordinary text holds seldom (the ``_`` of ``ghp_``, the ``J``
of ``eyJ``). All rules of an anchor become one expression that begins with it, so that the expression engine
leaps from anchor to anchor; what must stand before the anchor is tested by looking back. This is the
literal prefilter and the search in one, and a new rule costs nothing on text without its anchor.

Promises: no rule takes more than linear time on any text (runs are possessive or bounded, or start at most
once), and no match cuts a backslash escape, so that JSON inside a string stays JSON. Refuses to guess: a
rule wants a form that is unmistakable, or a name beside the value that says what it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

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

# Between a name and its value: assignment, JSON (also quoted again), XML, or a blank as on a command line.
_QUOTE = r"(?:\\{0,4}[\"'])?"
_ASSIGN = rf"{_QUOTE}(?:[ \t]{{0,8}}(?:=>|:=|[=:>,])[ \t]{{0,8}}|[ \t]{{1,8}}){_QUOTE}"
_AWS_SECRET = rf"{_ASSIGN}()[A-Za-z0-9/+]{{30,}}+={{0,2}}"

_PEM_LABEL = r"[A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
# Code that names both lines has little between them and no key. A listing may stop in the middle of a key:
# then the lines that are there are taken.
_PEM = (
    rf"{_PEM_LABEL}(?:(?!(?s:.){{0,19}}-----)(?:[^-]++|-(?!----))*+-----END {_PEM_LABEL}"
    r"|(?:(?:\s|\\[nr])++[A-Za-z0-9+/=]{16,}+)++)"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. ``pattern`` goes on after the anchor; the group that takes part is empty and marks
    where the secret begins, which ends with the match. ``tail`` is what the last characters before the anchor
    must be, if known; within an anchor all tails have one width."""

    name: str
    anchor: str
    pattern: str
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Scanner:
    """All rules of one anchor. Without the character ``gate`` nothing matches; group ``n`` of ``expression``
    belongs to ``names[n - 1]``."""

    gate: str
    names: tuple[str, ...]
    expression: re.Pattern[str]


def _key(name: str, before: str, anchor: str, then: str, after: str, *, start: str = _START) -> Rule:
    """A key at the start of a word: ``before``, the anchor, ``then`` and ``after``; only the last may vary in
    width."""
    head = f"{before}{anchor}{then}"
    tail = "".join(re.findall(r"\[[^\]]*\]|.", before)[-2:])
    # The first look back is redundant but cheap: it spares most anchors the test of the word start.
    return Rule(name, anchor, f"{then}(?<={head})(?<={start}(){head}){after}", tail)


def _glued_key(name: str, before: str, anchor: str, then: str, after: str) -> Rule:
    """A key so unmistakable that it counts in the middle of a word too."""
    return _key(name, before, anchor, then, after, start="")


# The order decides which name a secret gets that fits two rules.
_RULES = (
    _key("GITHUB_TOKEN", "gh[psur]", "_", "", rf"{_KEY}(?:_eyJ[A-Za-z0-9_.-]++)?"),
    _glued_key("GITHUB_TOKEN", "gh[psur]", "_", "", r"[A-Za-z0-9]{36,}+"),
    _glued_key("GITHUB_TOKEN", "github", "_", "pat_", rf"{_KEY}[A-Za-z0-9_]*+"),
    _key("GITHUB_OAUTH_TOKEN", "gho", "_", "", _KEY),
    _glued_key("GITHUB_OAUTH_TOKEN", "gho", "_", "", r"[A-Za-z0-9]{36,}+"),
    _key("STRIPE_KEY", rf"{_NO_ESCAPE}[sr]k", "_", "(?:live|test)_", r"[A-Za-z0-9]{10,}+"),
    _key("HUGGINGFACE_TOKEN", "hf", "_", "", r"[A-Za-z0-9]{30,}+"),
    _key("NPM_TOKEN", rf"{_NO_ESCAPE}npm", "_", "", r"[A-Za-z0-9]{36,}+"),
    Rule("AWS_SECRET_KEY", "_", rf"(?<=(?i:secret)_)(?i:access_key){_AWS_SECRET}", tail="[eE][tT]"),
    _key("ANTHROPIC_KEY", "sk", "-", "ant-", _DASHED_KEY),
    _key("OPENROUTER_KEY", "sk", "-", "or-v1-", _DASHED_KEY),
    _key("OPENAI_KEY", "sk", "-", "", rf"(?:proj|svcacct|admin|None)-{_DASHED_KEY}"),
    _key("OPENAI_KEY", "sk", "-", "", r"(?=[A-Za-z]*+[0-9])[A-Za-z0-9]{20,}+"),
    _glued_key("GITLAB_TOKEN", "glpat", "-", "", rf"{_DASHED_KEY}(?:\.[0-9a-z]{{2}}\.?[0-9a-z]{{7,9}})?"),
    _key("SLACK_TOKEN", "xox[abprs]", "-", "", r"(?=[A-Za-z-]{0,15}[0-9])[A-Za-z0-9-]{10,}+"),
    _glued_key("PYPI_TOKEN", "pypi", "-", "Ag", r"[A-Za-z0-9_-]{16,}+"),
    _glued_key("PRIVATE_KEY", "----", "-", "BEGIN ", _PEM),
    _key("AWS_ACCESS_KEY", "", "A", "[KS]IA", r"[A-Z0-9]{16,}+"),
    _key("GOOGLE_API_KEY", "", "A", "Iza", r"[A-Za-z0-9_-]{35,}+"),
    Rule("AWS_SECRET_KEY", "A", rf"ccessKey(?<=[Ss]ecretAccessKey){_AWS_SECRET}"),
    _key("JWT", "ey", "J", "", r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"),
    Rule(
        "BEARER_TOKEN",
        "earer",
        r"(?<=[Bb]earer)[ \t]{1,4}()(?=[A-Za-z._~+/-]{0,32}[0-9]|[A-Za-z._~+/-]{32})"
        r"[A-Za-z0-9._~+/-]{10,}+={0,2}",
    ),
    Rule(
        "URL_PASSWORD",
        "://",
        # A template such as ${PASSWORD}, {password} or %s is no password, nor is a placeholder.
        r"[^\s/:@?#\"'`<>\\]{0,128}:()(?!\$?\{|\$\w+@|%s@|%\(|\[[A-Z0-9_]++\]#[0-9a-f]{8,}+@)"
        r"[^\s/\"'`<>\\]{1,256}(?=@)",
    ),
)
_SSN = (_key("SSN", "[0-9][0-9][0-9]", "-", "[0-9][0-9]-", r"[0-9]{4}(?![A-Za-z0-9_-])"),)

_LOCAL_PART = "[A-Za-z0-9._%+-]"
_LOCAL_START = r"(?:(?<![A-Za-z0-9._%+\\-])|(?<=\\[abefnrtv]))"
_DOMAIN = r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}"
# A look back has a fixed width, so each length of the part before the "@" gets its own.
_BEFORE_AT = "|".join(rf"(?<={_LOCAL_START}(){_LOCAL_PART}{{{length}}}@)" for length in range(1, 65))
_EMAIL = (Rule("EMAIL", "@", rf"(?={_DOMAIN})(?:{_BEFORE_AT}){_DOMAIN}", tail=_LOCAL_PART),)

# No rule matches in fewer characters: ``://:p@`` and ``a@b.jp``. Spares the many short strings of a message.
SHORTEST_TEXT = 6


@cache
def built_in_scanners(*, email: bool, ssn: bool) -> tuple[Scanner, ...]:
    """The built-in rules, one scanner for each anchor, in the order in which names are given."""
    by_anchor: dict[str, list[Rule]] = {}
    for rule in (*_RULES, *(_SSN if ssn else ()), *(_EMAIL if email else ())):
        by_anchor.setdefault(rule.anchor, []).append(rule)
    return tuple(_scanner(anchor, rules) for anchor, rules in by_anchor.items())


def _scanner(anchor: str, rules: list[Rule]) -> Scanner:
    choices = "|".join(rule.pattern for rule in rules)
    tails = [rule.tail for rule in rules]
    # One look back at the tails rejects most anchors; without it each rule would have to look back by itself.
    quick = f"(?<=(?:{'|'.join(dict.fromkeys(tails))}){anchor})" if all(tails) else ""
    names = tuple(rule.name for rule in rules for _ in range(re.compile(rule.pattern).groups))
    return Scanner(anchor[0], names, re.compile(f"{anchor}{quick}(?:{choices})"))
