"""What a feature will be worth later: how likely it is that the agent needs it again.

The rule is a small logistic model. Its weights were fitted to public agent transcripts, and say: what the agent itself
has used it will use again; what a user named is likely to matter; what stands everywhere needs no note; age takes away
little. How often this agent goes back to what its tools showed differs from task to task, so it is measured in the
history at hand, for each kind of fact. Words weigh little beside facts, and more in a talk that has few of them.
"""

from __future__ import annotations

import math

from orihon.compression.notes.facts import FactKind
from orihon.compression.notes.reader import LineStatistics

_BIAS = -2.5
_USED = 1.5
_PER_AGENT_USE = 1.0  # for each doubling of the agent's messages that have it
_PER_MESSAGE = -0.4  # for each doubling of all messages that have it
_PER_AGE = -0.04  # for each doubling of its age
_BY_USER = 1.2
_MEASURED_REUSE = 0.7
_USUAL_REUSE = -2.5  # log-odds
_LEAST_REUSE = -3.5
_SMOOTHING = 8
_NUMBER = 0.7  # numbers are often made up again: counts, line numbers, times
_WORD = 0.008
_FEW_FACTS = 0.1  # of all features: with fewer facts it is a talk, and words weigh more
_MOST_LACK = 6.0
_WORTHLESS = 0.00025  # a word that stands everywhere


def feature_worth(reading: LineStatistics) -> list[float]:
    """The worth of each feature of a history."""
    reuse = _measured_reuse(reading)
    total = max(reading.places, 1)
    rarest = math.log2(1 + total)
    word = _WORD * _lack_of_facts(reading)
    worth = []
    for feature, kind in enumerate(reading.kinds()):
        if kind is None:
            of_word = word * math.log2(total / reading.messages[feature]) / rarest
            worth.append(of_word if of_word > _WORTHLESS else 0.0)
        else:
            chance = 1 / (1 + math.exp(-_log_odds(reading, feature, reuse[kind])))
            worth.append(chance * _NUMBER if kind is FactKind.NUMBER else chance)
    return worth


def _lack_of_facts(reading: LineStatistics) -> float:
    """How much more words weigh here than in a history full of facts."""
    kinds = reading.kinds()
    facts = len(kinds) - kinds.count(None)
    return min(max(_FEW_FACTS * len(kinds) / max(facts, 1), 1.0), _MOST_LACK)


def _log_odds(reading: LineStatistics, feature: int, reuse: float) -> float:
    uses = reading.agent_messages[feature]
    age = max(reading.places - reading.last[feature], 1)
    odds = _BIAS + _PER_AGENT_USE * math.log2(1 + uses) + _PER_AGE * math.log2(age)
    odds += _PER_MESSAGE * math.log2(reading.messages[feature]) + _BY_USER * (feature in reading.from_user)
    return odds + (_USED if uses else _MEASURED_REUSE * (reuse - _USUAL_REUSE))


def _measured_reuse(reading: LineStatistics) -> dict[FactKind, float]:
    """Log-odds, for each kind, that the agent takes up a fact which others brought in."""
    shown = dict.fromkeys(FactKind, 0)
    taken_up = dict.fromkeys(FactKind, 0)
    for feature, kind in enumerate(reading.kinds()):
        if kind is not None and feature not in reading.from_agent_first:
            shown[kind] += 1
            taken_up[kind] += reading.agent_messages[feature] > 0
    overall = (sum(taken_up.values()) + 1) / (sum(shown.values()) + 10)
    shares = {kind: (taken_up[kind] + _SMOOTHING * overall) / (shown[kind] + _SMOOTHING) for kind in FactKind}
    return {kind: max(math.log(share / (1 - share)), _LEAST_REUSE) for kind, share in shares.items()}
