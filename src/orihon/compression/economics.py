"""What a fold costs and brings where the provider keeps a prompt cache.

A request whose beginning the provider has seen before pays little for that beginning. A fold changes the request from
some place on, so everything behind that place has to be read once more at the full price; from then on every request
is shorter. Owns the prices, and the rule that weighs the one against the other.

Promises: pure functions of their arguments; no prices are fetched. Refuses prices that are no amounts of money. The
rule needs only the proportions between the prices, which change far less often than the prices themselves, so a table
that has become a little old still decides rightly; the settings can overrule it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from orihon.errors import InvalidSettings
from orihon.settings import Settings

__all__ = [
    "FREE",
    "PRICES",
    "UNKNOWN_MODEL",
    "Prices",
    "expected_turns",
    "is_worth_it",
    "prices_for",
    "prices_of",
    "request_cost",
]

# Stands for "not given"; compared by identity, so that no price that is given is taken for it.
_AS_INPUT = float("-inf")
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for a million tokens. Only proportions matter, so the currency does not."""

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
            if not (math.isfinite(value) and value >= 0):
                raise InvalidSettings("price", name=name, value=value)


FREE = Prices(0.0)
UNKNOWN_MODEL = Prices(2.0, cached=0.5, output=8.0)
"""A hosted model that is not in the table: most providers take a tenth to a half for what is in their cache."""

_OPUS = Prices(15, 1.5, 18.75, 75)
_NEW_OPUS = Prices(5, 0.5, 6.25, 25)
_SONNET = Prices(3, 0.3, 3.75, 15)

PRICES: Mapping[str, Prices] = MappingProxyType(
    {
        "gpt-3.5": Prices(0.5, output=1.5),
        "gpt-4": Prices(30, output=60),
        "gpt-4-turbo": Prices(10, output=30),
        "gpt-4.1": Prices(2, 0.5, output=8),
        "gpt-4.1-mini": Prices(0.4, 0.1, output=1.6),
        "gpt-4.1-nano": Prices(0.1, 0.025, output=0.4),
        "gpt-4o": Prices(2.5, 1.25, output=10),
        "gpt-4o-mini": Prices(0.15, 0.075, output=0.6),
        "gpt-5": Prices(1.25, 0.125, output=10),
        "gpt-5-mini": Prices(0.25, 0.025, output=2),
        "gpt-5-nano": Prices(0.05, 0.005, output=0.4),
        "gpt-5-pro": Prices(15, output=120),
        "gpt-5.1-codex-mini": Prices(0.25, 0.025, output=2),
        "gpt-5.2": Prices(1.75, 0.175, output=14),
        "o1": Prices(15, 7.5, output=60),
        "o1-mini": Prices(1.1, 0.55, output=4.4),
        "o1-pro": Prices(150, output=600),
        "o3": Prices(2, 0.5, output=8),
        "o3-mini": Prices(1.1, 0.55, output=4.4),
        "o3-pro": Prices(20, output=80),
        "o4-mini": Prices(1.1, 0.275, output=4.4),
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
"""List prices in dollars, by the beginning of a model's name; the longest beginning that fits decides."""

_AT_HOME = ("ollama", "lmstudio")
_NONE: Mapping[str, Prices] = MappingProxyType({})


def prices_for(provider: str, model: str, own: Mapping[str, Prices] = _NONE) -> Prices:
    """The prices of a model: the user's ``own`` (by beginnings of names too), then nothing at home, then the table.

    ``provider/`` and ``ft:`` in front are ignored, as for tokenizers; an own name may contain them. A tuned model
    costs more than its base, at the same proportions.
    """
    full = model.lower()
    bare = full.rpartition("/")[2].removeprefix("ft:")
    mine = _longest({name.lower(): prices for name, prices in own.items()}, full, bare)
    if mine is not None:
        return mine
    if provider.lower() in _AT_HOME:
        return FREE
    return _longest(PRICES, bare) or UNKNOWN_MODEL


def prices_of(settings: Settings, model: str) -> Prices:
    """The prices of a model as the settings have them, or the table."""
    own = {name: Prices(**prices) for name, prices in settings.prices.items()}
    return prices_for(settings.llm.provider, model, own)


def _longest(table: Mapping[str, Prices], *names: str) -> Prices | None:
    fitting = [prefix for prefix in table if any(name.startswith(prefix) for name in names)]
    return table[max(fitting, key=len)] if fitting else None


def is_worth_it(saved: int, reread: int, turns: float, prices: Prices) -> bool:
    """Do ``turns`` further requests cost less with a fold than without it?

    ``saved`` is by how many tokens the view gets smaller. ``reread`` are the tokens of the new view from the first
    changed place to its end: the next request pays them as new input and no longer as cached. Where the cache brings
    no discount (or nothing costs anything) there is nothing to break, and every saving is worth it.
    """
    if saved <= 0:
        return False
    if prices.written <= prices.cached:
        return True
    return saved * prices.cached * turns > reread * (prices.written - prices.cached)


_FEWEST_TURNS = 4
_MOST_TURNS = 200


def expected_turns(turns_so_far: int) -> float:
    """How many more requests a task will make: as many as it has made, at least 4, at most 200.

    Nothing is known of a task but its age. The lengths of tasks spread over several orders of magnitude, and for
    such things the best guess is that half of them is over (Lindy's law). A task that has only begun says little, and
    hardly any ends at once, hence the least. The most keeps a long task from folding far forward on the strength of
    hundreds of turns that may not come: by then the gain from any fold that pays at all is clear.
    """
    return float(min(max(turns_so_far, _FEWEST_TURNS), _MOST_TURNS))


def request_cost(previous_tokens_in_common: int, total: int, prices: Prices) -> float:
    """What the input of one request costs whose first tokens are in the cache; the answer is not counted."""
    cached = min(max(previous_tokens_in_common, 0), total)
    return (cached * prices.cached + (total - cached) * prices.written) / _MILLION
