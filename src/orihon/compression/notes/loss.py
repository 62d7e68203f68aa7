"""What a fold's text lost: the facts of its run that stand in no shown text, and the lines that bring them back.

It does not matter who wrote the text: notes or a model. Names (paths, identifiers, numbers …) are looked for word for
word; a line that reports an error or a decision stands as long as one shown line says most of it, by the rarity of its
words; a constraint only as long as it is quoted. Takes time linear in the run and the shown text. A line that comes
again after the run belongs to where it stands last. Invents nothing: lost facts and added lines are quoted.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from orihon.compression.notes.facts import Fact, FactKind, is_constraint, line_kinds
from orihon.compression.notes.pool import KEPT_WEIGHT, Pool, sentences_of
from orihon.compression.notes.reader import LineStatistics

IMPORTANT = 0.3  # worth of a fact from which on its loss is made good: about as likely to be used again as not
_MOST_LOOKED_AT = 64  # shown lines for one lost line, so that a word in every line does not make it slow


@dataclass(frozen=True, slots=True)
class FactLoss:
    """How many facts a run has, how many of them are still shown, and those that are not, the most valuable first."""

    found: int
    kept: int
    lost: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """What of the lines ``lines`` is not shown."""

    features: Mapping[int, int]  # names, and the first line that has them
    lines: tuple[tuple[FactKind, int], ...]
    found: int

    def without(self, pool: Pool, shown: Collection[int]) -> Lost:
        """What is still lost when these lines are shown after all."""
        again = {feature for index in shown for feature in pool.features[index]}
        features = {feature: index for feature, index in self.features.items() if feature not in again}
        return Lost(features, tuple(one for one in self.lines if one[1] not in shown), self.found)

    def constraints(self, pool: Pool) -> list[int]:
        """Lines with a constraint of a user that is not shown."""
        return [index for kind, index in self.lines if _is_of_user(pool, kind, index)]


def find_lost(pool: Pool, reading: LineStatistics, lines: range, shown: Iterable[str]) -> Lost:
    """Compare the lines of a run with the lines that are shown."""
    kinds = reading.kinds()
    names: dict[int, int] = {}
    telling: list[tuple[FactKind, int]] = []
    for index in lines:
        for feature in pool.said[index]:
            if kinds[feature] is not None:
                names.setdefault(feature, index)
        telling += ((kind, index) for kind in line_kinds(pool.lines[index], pool.sources[index].role))
    parts = [_parts(pool, reading, kind, index) for kind, index in telling]
    view = _View(pool, reading, {part.key for of_line in parts for part in of_line}, shown)
    lost = {feature: index for feature, index in names.items() if feature not in view.features}
    lost_lines = tuple(one for one, of_line in zip(telling, parts, strict=True) if not all(map(view.says, of_line)))
    return Lost(lost, lost_lines, len(names) + len(telling))


def report(
    pool: Pool, reading: LineStatistics, worth: Sequence[float], lost: Lost, most: int | None = None
) -> FactLoss:
    """The report on what was lost; only the ``most`` valuable facts are named, if a number is given."""
    kinds, names = reading.kinds(), reading.names()
    valued: list[tuple[float, int, FactKind, str | int]] = []
    for feature, index in lost.features.items():
        if (kind := kinds[feature]) is not None:
            valued.append((-worth[feature], index, kind, feature))
    for kind, index in lost.lines:
        value = max(map(worth.__getitem__, pool.said[index]), default=0.0) + _is_of_user(pool, kind, index)
        valued.append((-value, index, kind, pool.lines[index]))
    weightiest = sorted(valued, key=_RANK) if most is None else heapq.nsmallest(most, valued, key=_RANK)
    facts = (Fact(kind, names[said] if isinstance(said, int) else said) for _, _, kind, said in weightiest)
    return FactLoss(lost.found, lost.found - len(valued), tuple(facts))


_RANK = itemgetter(0, 1)


def lines_to_add(pool: Pool, worth: Sequence[float], lines: range, lost: Lost) -> Iterator[int]:
    """The lines that bring back what matters, the most needed first: constraints, then the likeliest facts.

    For each fact that is the line which says most of what is still missing for its tokens.
    """
    yield from (constraints := lost.constraints(pool))
    missing = {feature for feature in lost.features if worth[feature] >= IMPORTANT}
    where: dict[int, list[int]] = {feature: [] for feature in missing}
    for index in lines:
        for feature in missing.intersection(pool.features[index]):
            where[feature].append(index)
    for index in constraints:
        missing.difference_update(pool.said[index])
    for feature in sorted(missing, key=lambda feature: (-worth[feature], feature)):
        if feature in missing and where[feature]:
            best = max(where[feature][-_MOST_LOOKED_AT:], key=lambda at: _density(pool, worth, missing, at))
            missing.difference_update(pool.features[best])
            yield best


def _is_of_user(pool: Pool, kind: FactKind, index: int) -> bool:
    return kind is FactKind.CONSTRAINT and pool.sources[index].role == "user"


def _density(pool: Pool, worth: Sequence[float], missing: Collection[int], index: int) -> float:
    gain = sum(worth[feature] for feature in pool.features[index] if feature in missing)
    return gain * pool.factors[index] / pool.least_costs[index]


@dataclass(frozen=True, slots=True)
class _Part:
    """What must be shown of a line, in one shown line."""

    text: str
    features: frozenset[int]
    key: int | None  # its rarest feature
    must_be_quoted: bool


def _parts(pool: Pool, reading: LineStatistics, kind: FactKind, index: int) -> list[_Part]:
    text = pool.lines[index]
    if kind is not FactKind.CONSTRAINT:
        return [_part(reading, text, pool.said[index], must_be_quoted=False)]
    sentences = [sentence for sentence in sentences_of(text) if is_constraint(sentence)] or [text]
    return [_part(reading, one, reading.features_of(one), must_be_quoted=True) for one in sentences]


def _part(reading: LineStatistics, text: str, features: Collection[int], *, must_be_quoted: bool) -> _Part:
    rarest = min(features, key=lambda feature: (reading.messages[feature], feature), default=None)
    return _Part(_flat(text), frozenset(features), rarest, must_be_quoted)


class _View:
    """The shown lines: what they are about, and where the features in ``keys`` stand."""

    def __init__(self, pool: Pool, reading: LineStatistics, keys: Collection[int | None], shown: Iterable[str]) -> None:
        self.features: set[int] = set()
        self._pool = pool
        self._flat: list[str] = []
        self._where: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
        for line in shown:
            features, flat = reading.features_of(line), _flat(line)
            self._flat.append(flat)
            self.features.update(features)
            for feature in features:
                if feature in keys:
                    self._where.setdefault(feature, []).append((flat, features))

    def says(self, part: _Part) -> bool:
        """Whether one shown line says this."""
        if part.key is None:
            return any(part.text in line for line in self._flat)
        needed = KEPT_WEIGHT * self._pool.weight(part.features)
        for line, features in self._where.get(part.key, ())[:_MOST_LOOKED_AT]:
            says_most = needed > 0 and self._pool.weight(part.features.intersection(features)) >= needed
            if part.text in line or (says_most and not part.must_be_quoted):
                return True
        return False


def _flat(text: str) -> str:
    return " ".join(text.split())
