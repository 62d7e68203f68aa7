"""How important a message is, from 0 to 1.

Owns the score and nothing else: no history, no budget, no choice. ``importance`` is the whole formula. Its
dear part, ``content_score``, depends on the content alone and is kept by ``ContentScores``; ``weigh`` makes the
score of a place in the history out of it with a few multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, asdict, dataclass, field, replace
from typing import Any, Self

from orihon.system import jsonio

_ROLE_SCORES = {"user": 1.0, "assistant": 0.5, "system": 0.3}
_OTHER_ROLE_SCORE = 0.5

_KEYWORD_SCORE = 0.3
_TOOL_SCORE = 0.25
_MARKER_SCORE = 0.2
_APPROVAL_SCORE = 0.3

_TOOL_MARKER = "[Tool:"
_MARKERS = ("[SYSTEM:", "[User", "[TASK")
_APPROVAL_WORDS = ("duck_call", "approval")
_KEYWORDS = "error success plan task duck_call approval denied completed failed warning"


class ModelLike:
    """What programs ask of a pydantic model, for the dataclasses that stand where the first designs have one."""

    __slots__ = ()

    @classmethod
    def model_validate(cls, given: Any) -> Self:
        return given if isinstance(given, cls) else cls(**given)

    @classmethod
    def model_validate_json(cls, given: str | bytes) -> Self:
        return cls.model_validate(jsonio.decode(given.encode() if isinstance(given, str) else given))

    def model_dump(self) -> dict[str, Any]:
        fields: dict[str, Any] = asdict(self)  # type: ignore[call-overload]  # every subclass is a dataclass
        return fields

    def model_dump_json(self) -> str:
        return jsonio.encode(self.model_dump()).decode()

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        return replace(self, **dict(update or {}))  # type: ignore[type-var]


@dataclass(slots=True)
class ScoringConfig(ModelLike):
    recency_weight: float = 0.3
    role_weight: float = 0.3
    content_weight: float = 0.4
    important_keywords: list[str] = field(default_factory=_KEYWORDS.split)
    min_content_length: int = 20
    short_content_penalty: float = 0.7
    min_content_length_penalty_threshold: InitVar[int | None] = None

    def __post_init__(self, min_content_length_penalty_threshold: int | None) -> None:
        self.important_keywords = list(self.important_keywords)
        if min_content_length_penalty_threshold is not None:
            self.min_content_length = min_content_length_penalty_threshold


def _set_length(config: ScoringConfig, length: int) -> None:
    config.min_content_length = length


# The other spelling is read and set, too: a dataclass leaves nothing but the default of an ``InitVar`` there.
ScoringConfig.min_content_length_penalty_threshold = property(  # type: ignore[attr-defined]
    lambda config: config.min_content_length, _set_length
)
DEFAULT_SCORING = ScoringConfig()


def importance(message: Mapping[str, Any], index: int, total: int, config: ScoringConfig = DEFAULT_SCORING) -> float:
    """The score of the message at ``index`` (from 0) of a history of ``total`` messages."""
    score = content_score(message_text(message), config)
    return weigh(score, str(message.get("role", "")), index, total, config)


def content_score(content: str, config: ScoringConfig = DEFAULT_SCORING) -> float:
    """The part of the score that depends on the content alone."""
    # Searching for each word in lowered text is ten times faster than one case-insensitive alternation.
    lowered = content.lower()
    score = 0.0
    if any(map(lowered.__contains__, map(str.lower, config.important_keywords))):
        score += _KEYWORD_SCORE
    if _TOOL_MARKER in content:
        score += _TOOL_SCORE
    if any(map(content.__contains__, _MARKERS)):
        score += _MARKER_SCORE
    if any(map(lowered.__contains__, _APPROVAL_WORDS)):
        score += _APPROVAL_SCORE
    if len(content) < config.min_content_length:
        score *= config.short_content_penalty
    return min(score, 1.0)


def weigh(content_score: float, role: str, index: int, total: int, config: ScoringConfig = DEFAULT_SCORING) -> float:
    """The whole score, from the content's score and the message's place and role."""
    recency = index / max(total - 1, 1)
    score = (
        recency * config.recency_weight
        + _ROLE_SCORES.get(role, _OTHER_ROLE_SCORE) * config.role_weight
        + content_score * config.content_weight
    )
    return min(score, 1.0)


class ContentScores:
    """Content scores that were found before, so many for a configuration; by hash, so no text is kept for them."""

    def __init__(self, most: int = 1 << 16) -> None:
        self.most = most
        self._kept: dict[str, dict[tuple[int, int], float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def scorer(self, config: ScoringConfig = DEFAULT_SCORING) -> Callable[[str], float]:
        """``content_score`` for this configuration, with a memory."""
        kept = self._kept.setdefault(config.model_dump_json(), {})

        def score(content: str) -> float:
            key = hash(content), len(content)
            found = kept.get(key)
            if found is None:
                found = content_score(content, config)
                self._make_room(kept)
                kept[key] = found
            return found

        return score

    def _make_room(self, kept: dict[tuple[int, int], float]) -> None:
        """The older half goes when it gets too much: one by one would have to look for the oldest each time."""
        if len(kept) >= self.most:
            for key in list(kept)[: (self.most + 1) // 2]:
                kept.pop(key, None)  # another thread may have been here


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message: its content, or the text of its content parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part_texts(content)) if isinstance(content, list) else ""


def part_texts(parts: list[Any]) -> Iterator[str]:
    """The texts among content parts, those inside tool results too."""
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            inner = part.get("text", part.get("content"))
            if isinstance(inner, str):
                yield inner
            elif isinstance(inner, list):
                yield from part_texts(inner)
