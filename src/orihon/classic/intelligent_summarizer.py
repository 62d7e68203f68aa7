"""``IntelligentSummarizer``: a summary in four fields, and the messages worth keeping whole.

A model writes the summary when there is one and its answer can be used: a JSON object whose fields are text and lists
of text. Anything else (a failure, an empty or malformed answer, a missing field) is made good by rule from the
messages themselves, which quotes and never invents.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

from orihon.compression.documents.findings import section_decisions
from orihon.compression.documents.markdown import parse
from orihon.compression.documents.statements import sentences, unmarked
from orihon.compression.importance import ScoringConfig, importance, message_text
from orihon.compression.model.call import Caller, LLMClientProtocol, SummaryReply
from orihon.compression.notes.extractor import summarize
from orihon.compression.notes.facts import is_constraint
from orihon.errors import InvalidMessage
from orihon.texts import text
from orihon.values.message.message import Message
from orihon.values.tokens.tokens import estimate

logger = logging.getLogger("orihon.compression")

_NOTES_TOKENS = 4000
_TIMEOUT = 120.0  # seconds
_LISTED = 20
_LINE = 200
_IMPORTANT_FROM = 0.6
_NOD = 16  # characters
_LEAST_SHOWN, _MOST_SHOWN = 80, 24_000  # characters of one message, and of all, that the model sees

_PATH = re.compile(r"(?<![\w/.-])(?:[\w.-]+/)*[\w-]+\.[A-Za-z][A-Za-z0-9]{0,7}(?![\w/])")
_WRITING_TOOL = re.compile(r"write|edit|create|patch|replace|insert|apply|delete|move|rename", re.I)
_CHANGE = re.compile(
    r"(?i:\b(?:changed|edited|modified|updated|created|added|removed|deleted|renamed|wrote|refactored|implemented|fixed)\b)"
    r"|変更し|修正し|追加し|作成し|削除し|実装し|更新し"
)
_PENDING = re.compile(
    r"(?i:^(?:next step|next|remaining|pending|open)\b\s*[:：]|\btodo\b|\bstill (?:to do|open|needs?)\b|\bnot yet\b"
    r"|\bremains to\b)|残タスク|未対応|未完了|未実装|まだ.{1,20}(?:ない|ません)|今後の課題"
)
_CHECK_BOX = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+\[ \]\s+(.+)$", re.M)


class HierarchicalSummary(TypedDict):
    """What was going on, what was decided, what was changed, what is left."""

    high_level: str
    key_decisions: list[str]
    code_changes: list[str]
    pending_tasks: list[str]


class IntelligentSummarizer:
    """Summaries of plain histories (lists of provider dicts), with or without a model."""

    def __init__(self, llm_client: LLMClientProtocol | None = None, config: ScoringConfig | None = None) -> None:
        self.llm = llm_client
        self.config = config or ScoringConfig()

    def create_hierarchical_summary(self, messages: Sequence[Mapping[str, Any]]) -> HierarchicalSummary:
        """The summary in its four fields; what the model does not give is made by rule."""
        by_rule = _by_rule(messages)
        if self.llm is None or not messages:
            return by_rule
        notes = summarize(list(_readable(messages)), _NOTES_TOKENS, count=estimate)
        question = notes + "\n\n" + json.dumps(by_rule, ensure_ascii=False, indent=1)
        answer = Caller(self.llm).ask(text("prompts.hierarchical_summary"), question, _NOTES_TOKENS, _TIMEOUT)
        if not isinstance(answer, SummaryReply):
            logger.warning("no hierarchical summary by the model (%s): %s", answer.reason, answer.detail)
            return by_rule
        return _parsed(answer.text, by_rule)

    def identify_important_messages(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The ids of the messages to keep whole: their ``seq`` or ``id``, else their place in the list.

        The model scores them; without one, or where its answer is none, rules do. What a user has ruled is kept
        whatever a score says.
        """
        total = len(messages)
        scores = self._scores(messages)
        by_rule = {index for index, message in enumerate(messages) if _is_rule(message)}
        return [
            _id_of(message, index)
            for index, message in enumerate(messages)
            if index in by_rule
            or (
                (importance(message, index, total, self.config) if scores is None else scores.get(index, 0.0))
                >= _IMPORTANT_FROM
                and (scores is not None or not _is_nod(message))
            )
        ]

    def _scores(self, messages: Sequence[Mapping[str, Any]]) -> dict[int, float] | None:
        """What the model says of each, by its place; ``None`` when it says nothing that can be used."""
        if self.llm is None or not messages:
            return None
        shown = max(_LEAST_SHOWN, _MOST_SHOWN // len(messages))
        places = {str(_id_of(message, index)): index for index, message in enumerate(messages)}
        lines = (
            f"[{name}] {messages[index].get('role', '')}: {' '.join(message_text(messages[index])[:shown].split())}"
            for name, index in places.items()
        )
        question = "\n".join(lines)
        answer = Caller(self.llm).ask(text("prompts.important_messages"), question, _NOTES_TOKENS, _TIMEOUT)
        if not isinstance(answer, SummaryReply):
            logger.warning("no scores by the model (%s): %s", answer.reason, answer.detail)
            return None
        given = _json_object(answer.text or "").get("scores")
        known = given.items() if isinstance(given, dict) else ()
        scores = {places[name]: float(score) for name, score in known if name in places and _is_score(score)}
        return scores or None


def _is_score(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_rule(message: Mapping[str, Any]) -> bool:
    """Something that a person has ruled; what an agent or a tool quotes is nobody's rule."""
    lines = message_text(message).splitlines() if message.get("role") in ("user", "system", "developer") else ()
    return any(map(is_constraint, lines))


def _is_nod(message: Mapping[str, Any]) -> bool:
    """A word or two that say nothing by themselves: "ok", "go on"."""
    said = message_text(message)
    return not message.get("tool_calls") and len(said) < _NOD and len(said.split()) <= 2


def _id_of(message: Mapping[str, Any], index: int) -> int:
    for key in ("seq", "id"):
        if isinstance(value := message.get(key), int):
            return value
    return index


def _readable(messages: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
    """The messages that can be read as such; a summary does not fail because of the others."""
    for message in messages:
        try:
            yield from Message.from_chat(message).as_chat()
        except InvalidMessage:
            continue


def _by_rule(messages: Sequence[Mapping[str, Any]]) -> HierarchicalSummary:
    decisions: dict[str, None] = {}
    changes: dict[str, None] = {}
    pending: dict[str, None] = {}
    for message in messages:
        said = message_text(message)
        changes.update(dict.fromkeys(_changes(message, said)))
        if message.get("role") not in ("tool", "function", "system", "developer"):
            found = (decision for section in parse(said).walk() for decision in section_decisions(section))
            decisions.update(dict.fromkeys(found))
            pending.update(dict.fromkeys(_pending(said)))
    return HierarchicalSummary(
        high_level=_high_level(messages),
        key_decisions=_listed(decisions),
        code_changes=_listed(changes),
        pending_tasks=_listed(pending),
    )


def _high_level(messages: Sequence[Mapping[str, Any]]) -> str:
    """What was first asked for, and where things stand."""
    asked = next((said for message in messages if (said := _words(message, "user"))), "")
    stands = next((said for message in reversed(messages) if (said := _words(message, "assistant"))), "")
    return "\n".join(dict.fromkeys(filter(None, (asked, stands))))


def _words(message: Mapping[str, Any], role: str) -> str:
    return _line(message_text(message)) if message.get("role") == role else ""


def _changes(message: Mapping[str, Any], said: str) -> Iterator[str]:
    """Files that tools wrote, and sentences that say what was changed in a file."""
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and _WRITING_TOOL.search(str(function.get("name"))):
            paths = _PATH.findall(str(function.get("arguments")))
            yield from (f"{function['name']}: {path}" for path in paths[:1])
    if message.get("role") == "assistant":
        yield from (_line(one) for one in _sentences(said) if _CHANGE.search(one) and _PATH.search(one))


def _pending(said: str) -> Iterator[str]:
    yield from (_line(found[1]) for found in _CHECK_BOX.finditer(said))
    yield from (_line(one) for one in _sentences(said) if _PENDING.search(one))


def _sentences(said: str) -> Iterator[str]:
    for line in said.splitlines():
        if not _CHECK_BOX.match(line):
            yield from sentences(unmarked(line))


def _listed(values: Iterable[str]) -> list[str]:
    """The latest ones: what was said last holds."""
    return list(values)[-_LISTED:]


def _line(said: str) -> str:
    line = " ".join(said[: 2 * _LINE].split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"


def _parsed(answer: str | None, by_rule: HierarchicalSummary) -> HierarchicalSummary:
    """The model's fields where they have the right form, ours elsewhere."""
    data = _json_object(answer or "")
    high_level = data.get("high_level")
    return HierarchicalSummary(
        high_level=high_level.strip() if isinstance(high_level, str) and high_level.strip() else by_rule["high_level"],
        key_decisions=_texts(data.get("key_decisions"), by_rule["key_decisions"]),
        code_changes=_texts(data.get("code_changes"), by_rule["code_changes"]),
        pending_tasks=_texts(data.get("pending_tasks"), by_rule["pending_tasks"]),
    )


def _json_object(answer: str) -> dict[str, Any]:
    """The object in an answer, which may stand in a code block or between words."""
    try:
        data = json.loads(answer[answer.find("{") : answer.rfind("}") + 1])
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _texts(value: object, otherwise: list[str]) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return otherwise
    return [item.strip() for item in value if item.strip()]
