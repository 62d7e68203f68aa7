"""A view divided into exchanges, sessions and topics: runs of places that follow each other without a gap.

An *exchange* begins with a user's message that follows a finished answer: an assistant message without tool calls, or
a summary. What a user throws in while tools are still at work belongs to the exchange at hand. A *session* is an
exchange, or several short ones in a row: views carry no times, so a pause cannot end it. A *topic* is a row of
exchanges that speak of the same rare things. The system prompt belongs to none of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import Pages
from orihon.values.view import SYSTEM_ROLES, Entry

_ALIKE = 0.15  # cosine from which two texts are about the same
_MOST_EXCHANGES = 0.5  # of all exchanges: what stands in more of them tells nothing apart
_TELLING_DIGITS = 4  # a shorter number may count anything


def exchanges(pages: Pages) -> list[FoldedRun]:
    """The exchanges, oldest first."""
    entries = pages.view.entries
    joined: list[FoldedRun] = []
    for place in range(pages.view.head, len(entries)):
        if joined and not (entries[place].role == "user" and _is_finished(entries[place - 1])):
            joined[-1] = FoldedRun(joined[-1].start, place + 1)
        else:
            joined.append(FoldedRun(place, place + 1))
    return joined


def sessions(pages: Pages, least_messages: int) -> list[FoldedRun]:
    """Exchanges joined, oldest first, until each has so many messages of the log; the newest may have fewer."""
    joined: list[FoldedRun] = []
    for exchange in exchanges(pages):
        if joined and _messages(pages, joined[-1]) < least_messages:
            joined[-1] = FoldedRun(joined[-1].start, exchange.end)
        else:
            joined.append(exchange)
    return joined


@dataclass(slots=True)
class Topic:
    """Neighbouring exchanges that are about the same things."""

    run: FoldedRun
    is_current: bool = False  # whether the newest exchange is about it too
    about: set[int] = field(default_factory=set)


def topics(pages: Pages) -> list[Topic]:
    """The topics, oldest first. Things that most exchanges speak of do not count, rarer ones count more."""
    runs = exchanges(pages)
    features = [set().union(*(_about(pages, place) for place in range(run.start, run.end))) for run in runs]
    weights = _weights(features, pages.extractor.reading.names())
    found: list[Topic] = []
    for run, about in zip(runs, features, strict=True):
        if found and _likeness(found[-1].about, about, weights) >= _ALIKE:
            found[-1].run = FoldedRun(found[-1].run.start, run.end)
            found[-1].about |= about
        else:
            found.append(Topic(run, about=set(about)))
    newest = found[-1].about if found else set()
    for topic in found:
        topic.is_current = topic is found[-1] or _likeness(topic.about, newest, weights) >= _ALIKE
    return found


def _about(pages: Pages, place: int) -> tuple[int, ...]:
    message = pages.messages[place]
    said = "\n".join([message.text, *(call.arguments for call in message.tool_calls)])
    return pages.extractor.reading.features_of(said)


def _is_finished(entry: Entry) -> bool:
    if entry.role in SYSTEM_ROLES:
        return True
    return entry.role == "assistant" and not entry.calls


def _messages(pages: Pages, run: FoldedRun) -> int:
    entries = pages.entries(run)
    return entries[-1].end - entries[0].start + 1


def _weights(features: Sequence[Iterable[int]], names: Sequence[str]) -> dict[int, float]:
    """What each feature tells, squared."""
    seen = Counter(feature for of_exchange in features for feature in of_exchange)
    most = max(len(features) * _MOST_EXCHANGES, 2)
    return {
        feature: math.log2(1 + len(features) / count) ** 2
        for feature, count in seen.items()
        if count <= most and not (names[feature].isdigit() and len(names[feature]) < _TELLING_DIGITS)
    }


def _likeness(one: set[int], other: set[int], weights: Mapping[int, float]) -> float:
    """The cosine of two sets."""
    lengths = _weight(one, weights) * _weight(other, weights)
    return _weight(one & other, weights) / math.sqrt(lengths) if lengths else 0.0


def _weight(features: Iterable[int], weights: Mapping[int, float]) -> float:
    return sum(weights.get(feature, 0.0) for feature in features)
