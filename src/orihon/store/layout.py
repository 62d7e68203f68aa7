"""Where the entries of a view are: runs of the log and numbers of folds, no texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orihon.store.contract import OPEN_END, StreamRange
from orihon.values.records import Fold


@dataclass(frozen=True, slots=True)
class Layout:
    """The view that a compression made, and everything that came after it.

    A run of one summary stands for that fold; where the fold only shortens a message, the message's run follows it.
    """

    compression: int
    runs: tuple[StreamRange, ...]

    @classmethod
    def of(cls, compression: int, folds: Sequence[Fold]) -> Layout:
        """The layout with these folds, given in order."""
        return cls(compression, tuple(_runs(folds)))


def _runs(folds: Sequence[Fold]) -> Iterator[StreamRange]:
    next_seq = 1
    for fold in folds:
        if next_seq < fold.start_seq:
            yield "messages", next_seq, fold.start_seq - 1
        yield "summaries", fold.id, fold.id
        if fold.form == "preview":
            yield "messages", fold.start_seq, fold.end_seq
        next_seq = fold.end_seq + 1
    yield "messages", next_seq, OPEN_END
