"""What a fold costs and brings where the provider keeps a prompt cache.

A request whose beginning the provider has seen before pays little for that beginning. A fold changes the request from
some place on, so everything behind that place has to be read once more at the full price; from then on every request
is shorter. Owns the rule that weighs the one against the other.

Promises: pure functions of their arguments. The rule needs only the proportions between the prices, which change far
less often than the prices themselves, so a table that has become a little old still decides rightly.
"""

from __future__ import annotations

from orihon.values.tokens.prices import Prices

__all__ = ["expected_turns", "is_worth_it", "request_cost"]

_MILLION = 1_000_000


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
