"""A plain outline of a run of messages: the summary that needs no model and never invents.

It quotes: the goal as the user put it, what the assistant said it did, which tools ran how often, the errors they
reported, the last word. Memory is bounded by the outline, not by the run.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable

from orihon.message import Message
from orihon.texts import text
from orihon.tokens import estimate

_ERROR_LINE = re.compile(r"^.*\b(?:error|exception|failed|failure|traceback)\b.*$|^.*(?:エラー|失敗|例外).*$", re.I | re.M)
_QUOTE = 300
_STEPS = 40
_PROBLEMS = 12


class Outline:
    """Collects an outline while messages go by."""

    def __init__(self) -> None:
        self.count = 0
        self._goals: list[str] = []
        self._steps: deque[str] = deque(maxlen=_STEPS)
        self._tools: Counter[str] = Counter()
        self._problems: deque[str] = deque(maxlen=_PROBLEMS)
        self._last = ""

    def add(self, message: Message) -> None:
        self.count += 1
        said = message.text.strip()
        for call in message.tool_calls:
            self._tools[call.name] += 1
        if message.role == "user" and said:
            self._goals.append(_quote(said))
            del self._goals[6:-6]  # the first ones and the latest ones
        elif message.role == "assistant" and said:
            self._steps.append(_quote(said))
            self._last = said
        elif message.role == "tool" and (found := _ERROR_LINE.search(said[:20_000])):
            self._problems.append(_quote(found[0].strip()))

    def render(self, max_tokens: int) -> str:
        """The outline as text, shortened (steps first) until it fits."""
        steps = list(self._steps)
        while True:
            result = self._text(steps)
            if estimate(result) <= max_tokens or not steps:
                return _cut(result, max_tokens)
            del steps[: max(1, len(steps) // 4)]

    def _text(self, steps: list[str]) -> str:
        tools = ", ".join(f"{name} ×{count}" for name, count in self._tools.most_common(20))
        blocks = [
            text("outline.title", count=self.count),
            _block("outline.goal", self._goals),
            _block("outline.steps", steps),
            _block("outline.tools", [tools] if tools else []),
            _block("outline.problems", list(self._problems)),
            _block("outline.last", [self._last[: 2 * _QUOTE]] if self._last and not steps else []),
        ]
        return "\n\n".join(block for block in blocks if block)


def outline(messages: Iterable[Message], max_tokens: int) -> str:
    """The outline of these messages in at most ``max_tokens`` (estimated)."""
    collected = Outline()
    for message in messages:
        collected.add(message)
    return collected.render(max_tokens)


def _block(key: str, lines: list[str]) -> str:
    return "\n".join([f"## {text(key)}", *(f"- {line}" for line in lines)]) if lines else ""


def _quote(said: str) -> str:
    line = " ".join(said[: 2 * _QUOTE].split())
    return line if len(line) <= _QUOTE else line[: _QUOTE - 1] + "…"


def _cut(result: str, max_tokens: int) -> str:
    while estimate(result) > max_tokens and len(result) > 40:
        result = result[: len(result) * 3 // 4].rstrip() + "…"
    return result
