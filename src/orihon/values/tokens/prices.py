"""What models cost: prices by the beginning of a model's name, and what a call of one comes to.

The table is a list of known models; the settings (``prices``) overrule and extend it. Promises: pure functions of
their arguments; no prices are fetched; a model that nobody has named a price for has none, which is not the same as
costing nothing. Refuses prices that are no amounts of money.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from orihon.errors import InvalidSettings
from orihon.settings import Settings
from orihon.settings.rungs import MOST_PRICE

# Stands for "not given"; compared by identity, so that no price that is given is taken for it.
_AS_INPUT = float("-inf")
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for a million tokens, in any one currency; the built-in table has dollars."""

    input: float
    cached: float = _AS_INPUT  # input that is read from the provider's cache
    written: float = _AS_INPUT  # input that is new, and kept in the cache for the next request
    output: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cached", "written"):
            if getattr(self, name) is _AS_INPUT:
                object.__setattr__(self, name, self.input)
        for name in ("input", "cached", "written", "output"):
            value = getattr(self, name)
            if not 0 <= value <= MOST_PRICE:
                raise InvalidSettings("price", name=name, value=value, most=MOST_PRICE)

    def of_tokens(self, read: int, cached: int, said: int) -> float:
        """What calls cost that ``read`` so many tokens (``cached`` among them) and ``said`` so many.

        What is new is taken to be kept for the next request, as agents do.
        """
        fresh = max(read - cached, 0)
        return (cached * self.cached + fresh * self.written + said * self.output) / _MILLION


FREE = Prices(0.0)
UNKNOWN_MODEL = Prices(2.0, cached=0.5, output=8.0)
"""A hosted model that is not in the table, where proportions are wanted and a guess will do: most providers take a
tenth to a half for what is in their cache."""

_OPUS = Prices(15, 1.5, 18.75, 75)
_NEW_OPUS = Prices(5, 0.5, 6.25, 25)
_SONNET = Prices(3, 0.3, 3.75, 15)

PRICES: Mapping[str, Prices] = MappingProxyType(
    {
        "gpt-3.5": Prices(0.5, output=1.5),
        "gpt-4": Prices(30, output=60),
        "gpt-4-turbo": Prices(10, output=30),
        "gpt-4-32k": Prices(60, output=120),
        "gpt-4.5": Prices(75, 37.5, output=150),
        "gpt-4.1": Prices(2, 0.5, output=8),
        "gpt-4.1-mini": Prices(0.4, 0.1, output=1.6),
        "gpt-4.1-nano": Prices(0.1, 0.025, output=0.4),
        "gpt-4o": Prices(2.5, 1.25, output=10),
        "gpt-4o-mini": Prices(0.15, 0.075, output=0.6),
        "gpt-5": Prices(1.25, 0.125, output=10),
        "gpt-5-mini": Prices(0.25, 0.025, output=2),
        "gpt-5-nano": Prices(0.05, 0.005, output=0.4),
        "gpt-5-pro": Prices(15, output=120),
        "gpt-5.1": Prices(1.25, 0.125, output=10),
        "gpt-5.1-codex-mini": Prices(0.25, 0.025, output=2),
        "gpt-5.2": Prices(1.75, 0.175, output=14),
        "gpt-5.2-pro": Prices(21, output=168),
        "o1": Prices(15, 7.5, output=60),
        "o1-mini": Prices(1.1, 0.55, output=4.4),
        "o1-pro": Prices(150, output=600),
        "o3": Prices(2, 0.5, output=8),
        "o3-deep-research": Prices(10, 2.5, output=40),
        "o3-mini": Prices(1.1, 0.55, output=4.4),
        "o3-pro": Prices(20, output=80),
        "o4-mini": Prices(1.1, 0.275, output=4.4),
        "o4-mini-deep-research": Prices(2, 0.5, output=8),
        "claude-3-haiku": Prices(0.25, 0.03, 0.3, 1.25),
        "claude-3-5-haiku": Prices(0.8, 0.08, 1, 4),
        "claude-3-5-sonnet": _SONNET,
        "claude-3-7-sonnet": _SONNET,
        "claude-3-opus": _OPUS,
        "claude-haiku-4-5": Prices(1, 0.1, 1.25, 5),
        "claude-sonnet-4": _SONNET,
        "claude-opus-4": _OPUS,
        "claude-opus-4-5": _NEW_OPUS,
        "claude-opus-4-6": _NEW_OPUS,
        "claude": _SONNET,
        "gemini-2.5-pro": Prices(1.25, 0.125, output=10),
        "gemini-2.5-flash": Prices(0.3, 0.03, output=2.5),
        "gemini-2.5-flash-lite": Prices(0.1, 0.01, output=0.4),
    }
)
"""List prices in dollars, by the beginning of a model's name, whole parts of it; the longest that fits decides."""

#: Providers whose models run on one's own machines.
_AT_HOME = ("ollama", "lmstudio")


class PriceList:
    """The built-in table under the prices of somebody's settings; each model is looked up once."""

    def __init__(self, settings: Settings) -> None:
        self._own = {name.lower(): Prices(**prices) for name, prices in settings.prices.items()}
        self._found: dict[tuple[str, str], Prices | None] = {}

    def of(self, provider: str, model: str) -> Prices | None:
        """The prices of a model; ``None`` where nobody has named any. ``provider`` may be empty: not known."""
        key = provider, model
        if key not in self._found:
            self._found[key] = _known(provider, model, self._own)
        return self._found[key]


def prices_of(settings: Settings, model: str) -> Prices:
    """The prices of a model as the settings have them, or the table; a guess for one that is in neither."""
    return PriceList(settings).of(settings.llm.provider, model) or UNKNOWN_MODEL


def _known(provider: str, model: str, own: Mapping[str, Prices]) -> Prices | None:
    """The user's ``own`` prices (by beginnings of names too), then nothing at home, then the table.

    ``provider/`` and ``ft:`` in front are ignored, as for tokenizers; an own name may contain them. A tuned model
    costs more than its base, at the same proportions.
    """
    full = model.lower()
    bare = full.rpartition("/")[2].removeprefix("ft:")
    mine = _longest(own, full, bare)
    if mine is not None:
        return mine
    return FREE if provider.lower() in _AT_HOME else _listed(_as_anthropic_writes(bare))


def _as_anthropic_writes(bare: str) -> str:
    """Others put a region and the maker in front of Claude's names, and a dot into its versions."""
    name = bare.rpartition("anthropic.")[2]
    return name.replace(".", "-") if name.startswith("claude") else name


def _listed(name: str) -> Prices | None:
    """The table's prices. A beginning ends with a part of the name: ``gpt-5`` says nothing about ``gpt-5.5``."""
    rests = {prefix: name[len(prefix) :] for prefix in PRICES if name.startswith(prefix)}
    fitting = [prefix for prefix, rest in rests.items() if not (rest[:1].isalnum() or rest.startswith("."))]
    return PRICES[max(fitting, key=len)] if fitting else None


def _longest(table: Mapping[str, Prices], *names: str) -> Prices | None:
    fitting = [prefix for prefix in table if any(name.startswith(prefix) for name in names)]
    return table[max(fitting, key=len)] if fitting else None
