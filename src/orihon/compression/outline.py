"""A plain outline of a run of messages: the summary that needs no model and never invents.

It quotes: the goal as the user put it, what the assistant said it did, which tools ran how often, the errors they
reported, the last word. An outline that stands in the run is taken apart and merged, so that folding again and again
does not bury the goal. Memory is bounded by the outline, not by the run.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from functools import cache

from orihon.message import Message
from orihon.texts import LANGUAGES, text
from orihon.tokens import estimate

# The line that says what went wrong: best the end of a traceback, else the first that speaks of an error.
_EXCEPTION_LINE = re.compile(r"^(?:E +)?[\w.]*(?:Error|Exception)\b.*$", re.M)
_ERROR_LINE = re.compile(
    r"^.*(?:\b(?i:error|exception|failed|failure)\b|\w(?:Error|Exception)\b|エラー|失敗|例外).*$", re.M
)
_SEARCHED = 10_000  # characters at either end of a result
_TOOL_COUNT = re.compile(r"(\S+) ×(\d+)")
_QUOTE = 300
_STEPS = 40
_PROBLEMS = 12


class Outline:
    """Collects an outline while messages go by."""

    def __init__(self) -> None:
        self.count = 0
        self._earlier: list[str] = []
        self._goals: list[str] = []
        self._steps: deque[str] = deque(maxlen=_STEPS)
        self._tools: Counter[str] = Counter()
        self._problems: deque[str] = deque(maxlen=_PROBLEMS)
        self._last = ""

    def add(self, message: Message) -> None:
        """One more message of the run."""
        self.count += 1
        said = message.text.strip()
        for call in message.tool_calls:
            self._tools[call.name] += 1
        if message.role == "user" and said:
            self._add_goal(_quote(said))
        elif message.role == "assistant" and said:
            self._last = _quote(said)
            _append_once(self._steps, self._last)
        elif message.role == "tool" and (problem := _problem(said)):
            _append_once(self._problems, _quote(problem))

    def add_summary(self, summary: str, count: int) -> None:
        """A text that stands for ``count`` messages of the run: an outline is merged, another text carried on."""
        self.count += count
        first, *lines = summary.splitlines() or [""]
        is_outline = _titles().fullmatch(first) is not None
        carried = [] if is_outline else [first]
        heading = ""
        for line in lines:
            found = _headings().get(line, "")
            if found == "pinned":
                break  # whoever folds puts the pinned lines in again
            if is_outline and found and heading != "earlier":  # that text stands last and is not ours
                heading = found
            elif not (is_outline and line.startswith("- ") and self._merge(heading, line[2:])):
                carried.append(line)
        if rest := "\n".join(carried).strip():
            self._earlier.append(rest)

    def _merge(self, heading: str, line: str) -> bool:
        match heading:
            case "goal":
                self._add_goal(line)
            case "steps":
                _append_once(self._steps, line)
            case "tools":
                self._tools.update({name: int(count) for name, count in _TOOL_COUNT.findall(line)})
            case "problems":
                _append_once(self._problems, line)
            case "last":
                self._last = line
            case _:
                return False
        return True

    def _add_goal(self, goal: str) -> None:
        self._goals.append(goal)
        del self._goals[6:-6]  # the first ones and the latest ones

    def render(self, max_tokens: int) -> str:
        """The outline as text, shortened (steps first) until it fits."""
        steps = list(self._steps)
        earlier = _cut("\n\n".join(self._earlier), max_tokens // 2)
        while True:
            result = self._text(earlier, steps)
            if estimate(result) <= max_tokens or not steps:
                return _cut(result, max_tokens)
            del steps[: max(1, len(steps) // 4)]

    def _text(self, earlier: str, steps: list[str]) -> str:
        tools = ", ".join(f"{name} ×{count}" for name, count in self._tools.most_common(20))
        blocks = [
            text("outline.title", count=self.count),
            _block("goal", self._goals),
            _block("steps", steps),
            _block("tools", [tools] if tools else []),
            _block("problems", list(self._problems)),
            _block("last", [self._last] if self._last and not steps else []),
            f"{_heading('earlier')}\n{earlier}" if earlier else "",
        ]
        return "\n\n".join(block for block in blocks if block)


def outline(messages: Iterable[Message], max_tokens: int) -> str:
    """The outline of these messages in at most ``max_tokens`` (estimated)."""
    collected = Outline()
    for message in messages:
        collected.add(message)
    return collected.render(max_tokens)


def with_pinned_lines(summary: str, lines: Iterable[str]) -> str:
    """The summary followed by the lines that it must hold word for word and does not yet."""
    missing = [line for line in lines if line not in summary]
    return "\n".join([summary, "", _heading("pinned"), *missing]) if missing else summary


def _append_once(lines: deque[str], line: str) -> None:
    """What is said again counts as said now."""
    if line in lines:
        lines.remove(line)
    lines.append(line)


def _problem(result: str) -> str:
    searched = result if len(result) <= 2 * _SEARCHED else f"{result[:_SEARCHED]}\n{result[-_SEARCHED:]}"
    found = _EXCEPTION_LINE.search(searched) or _ERROR_LINE.search(searched)
    return found[0] if found else ""


def _block(name: str, lines: list[str]) -> str:
    return "\n".join([_heading(name), *(f"- {line}" for line in lines)]) if lines else ""


def _heading(name: str, lang: str | None = None) -> str:
    return f"## {text(f'outline.{name}', lang=lang)}"


@cache
def _headings() -> dict[str, str]:
    names = ("goal", "earlier", "steps", "tools", "problems", "last", "pinned")
    return {_heading(name, lang): name for name in names for lang in LANGUAGES}


@cache
def _titles() -> re.Pattern[str]:
    titles = (re.escape(text("outline.title", lang=lang, count="\0")) for lang in LANGUAGES)
    return re.compile("|".join(title.replace(re.escape("\0"), r"\d+") for title in titles))


def _quote(said: str) -> str:
    line = " ".join(said[: 2 * _QUOTE].split())
    return line if len(line) <= _QUOTE else line[: _QUOTE - 1] + "…"


def _cut(result: str, max_tokens: int) -> str:
    while estimate(result) > max_tokens and len(result) > 40:
        result = result[: len(result) * 3 // 4].rstrip() + "…"
    return result
