"""The scope of a compression that is not about the whole view: a part of the log, and what is written down with it."""

from __future__ import annotations

from dataclasses import dataclass

from orihon.values.view import SeqRange


@dataclass(frozen=True, slots=True)
class CompressionScope:
    """What a compression is about; an empty scope is the view as a whole."""

    span: SeqRange | None = None  # only these messages, however new they are
    checkpoint: str = ""  # the checkpoint that was approved
    archived_to: str = ""  # the file with the whole text; folds refer to it

    def outside(self, last_seq: int) -> tuple[SeqRange, ...]:
        """The runs of the log that are to be left alone."""
        if self.span is None:
            return ()
        first, last = self.span
        runs = ((1, first - 1), (last + 1, last_seq))
        return tuple((start, end) for start, end in runs if start <= end)


WHOLE_VIEW = CompressionScope()
