"""What a text about a run has lost, whoever wrote it.

What a user asked for is looked for word for word, so are names (paths, identifiers, numbers …) and constraints; a line
that reports an error or a decision stands as long as one shown line says most of it, by the rarity of its words. A line
that comes again after the run belongs to where it stands last.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from orihon.compression.notes.facts import Fact, FactKind, is_constraint, line_kinds
from orihon.compression.notes.reader import LineStatistics
from orihon.compression.notes.selection import KEPT_WEIGHT, LEAST_DEMAND, Pool, sentences_of

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

    def demands(self, pool: Pool) -> list[int]:
        """Lines with what a user asked for and is not shown."""
        return list(dict.fromkeys(index for kind, index in self.lines if _demands(pool, kind, index)))


def find_lost(pool: Pool, reading: LineStatistics, lines: range, shown: Iterable[str]) -> Lost:
    """Compare the lines of a run with the lines that are shown."""
    kinds = reading.kinds()
    names: dict[int, int] = {}
    telling: list[tuple[FactKind, int]] = []
    for index in lines:
        for feature in pool.said[index]:
            if kinds[feature] is not None:
                names.setdefault(feature, index)
        mark = pool.told.get(index)
        if mark is not None and mark.kind == "user" and mark.worth >= LEAST_DEMAND:
            telling.append((FactKind.REQUEST, index))
        if mark is None or mark.kind != "call":  # a call is told, and stands there itself too
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
        value = max(map(worth.__getitem__, pool.said[index]), default=0.0) + _demands(pool, kind, index)
        value += pool.told[index].worth if kind is FactKind.REQUEST else 0.0  # a lost request comes first
        valued.append((-value, index, kind, pool.lines[index]))
    weightiest = sorted(valued, key=_RANK) if most is None else heapq.nsmallest(most, valued, key=_RANK)
    facts = (Fact(kind, names[said] if isinstance(said, int) else said) for _, _, kind, said in weightiest)
    return FactLoss(lost.found, lost.found - len(valued), tuple(facts))


_RANK = itemgetter(0, 1)


def _demands(pool: Pool, kind: FactKind, index: int) -> bool:
    return kind in (FactKind.REQUEST, FactKind.CONSTRAINT) and pool.sources[index].role == "user"


@dataclass(frozen=True, slots=True)
class _Part:
    """What must be shown of a line, in one shown line."""

    text: str
    features: frozenset[int]
    key: int | None  # its rarest feature
    must_be_quoted: bool


def _parts(pool: Pool, reading: LineStatistics, kind: FactKind, index: int) -> list[_Part]:
    text = pool.lines[index]
    if kind is FactKind.REQUEST:
        return [_part(reading, text, pool.said[index], must_be_quoted=True)]
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
        self._whole: str | None = None
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
            return part.text in self.whole
        needed = KEPT_WEIGHT * self._pool.weight(part.features)
        for line, features in self._where.get(part.key, ())[:_MOST_LOOKED_AT]:
            says_most = needed > 0 and self._pool.weight(part.features.intersection(features)) >= needed
            if part.text in line or (says_most and not part.must_be_quoted):
                return True
        return part.must_be_quoted and part.key in self.features and part.text in self.whole

    @property
    def whole(self) -> str:
        """All that is shown: what was said may be spread over several lines."""
        if self._whole is None:
            self._whole = " ".join(self._flat)
        return self._whole


def _flat(text: str) -> str:
    return " ".join(text.split())
