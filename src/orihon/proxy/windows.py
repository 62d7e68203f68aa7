"""How many tokens a model takes: what the settings say, what its provider has said, or what is known by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping

# The longest beginning that fits decides. ``provider/`` in front is ignored.
_KNOWN: Mapping[str, int] = {
    "claude": 200_000,
    "claude-opus-5": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    "gpt-3.5": 16_385,
    "gpt-4": 8_192,
    "gpt-4-32k": 32_768,
    "gpt-4-turbo": 128_000,
    "gpt-4o": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4.5": 128_000,
    "gpt-5": 272_000,
    "gpt-6": 272_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4": 200_000,
    "codex": 200_000,
    "gemini": 1_048_576,
    "deepseek": 128_000,
    "grok": 131_072,
    "kimi": 262_144,
    "qwen3": 131_072,
    "glm-4": 131_072,
    "mistral": 131_072,
    "devstral": 131_072,
    "llama3": 131_072,
    "llama-3": 131_072,
}
_LONG = "context-1m"  # of the header anthropic-beta
_MILLION = 1_000_000
#: How providers word the window when a request does not fit it.
_SAID = (
    re.compile(r"maximum context length (?:is|of) (\d{3,9})"),
    re.compile(r"> (\d{3,9}) maximum"),
    re.compile(r"\d+ \+ \d+ > (\d{3,9})"),
    re.compile(r"context (?:size|window|length|limit)[^0-9]{0,40}(\d{3,9})"),
    re.compile(r'"n_ctx": ?(\d{3,9})'),
)
_OVERFLOWS = (
    "context_length_exceeded",
    "exceed_context_size",
    "prompt is too long",
    "maximum context length",
    "exceed context limit",
    "context window",
    "input is too long",
    "too many tokens",
)
_REFUSALS = (400, 413, 422)


class Windows:
    """The windows of models as they are known by now."""

    def __init__(self, usual: int, fixed: int | None = None) -> None:
        """``fixed``: what a person has set, for every model; ``usual``: for one that nobody knows."""
        self._usual = usual
        self._fixed = fixed
        self._learned: dict[str, int] = {}

    def of(self, model: str, beta: str = "") -> int:
        """Tokens of a model's window; ``beta`` is the header ``anthropic-beta``."""
        if self._fixed is not None:
            return self._fixed
        if model in self._learned:
            return self._learned[model]
        bare = model.lower().rpartition("/")[2]
        if bare.startswith("claude") and _LONG in beta:
            return _MILLION
        fitting = [start for start in _KNOWN if bare.startswith(start)]
        return _KNOWN[max(fitting, key=len)] if fitting else self._usual

    def learn(self, model: str, said: str) -> int | None:
        """What a provider says about the window in an error."""
        for pattern in _SAID:
            if found := pattern.search(said):
                self._learned[model] = int(found[1])
                return self._learned[model]
        return None


def is_overflow(status: int, said: str) -> bool:
    """Does this answer say that the request was too long for the model?"""
    lowered = said.lower()
    return status in _REFUSALS and any(words in lowered for words in _OVERFLOWS)
