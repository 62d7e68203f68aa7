"""Runs that somebody has opened again: after an undo or an unfold the ladder leaves them alone.

It does so until the budget is used up, or the view has grown by a rung since. What a rejection or a request for changes
has opened is left alone until an approval in the same phase says that the matter is done.
"""

from __future__ import annotations

from collections.abc import Callable

from orihon.store.checkpoints import read_ledger
from orihon.store.task_store import TaskStore
from orihon.values.ladder import Fullness, Ladder
from orihon.values.records import Compression
from orihon.values.view import SeqRange, covering


def opened_runs(
    store: TaskStore, ladder: Ladder, now: Fullness, fullness: Callable[[int, int | None], Fullness]
) -> tuple[SeqRange, ...]:
    """The runs to leave alone; ``fullness`` says how full a view of so many tokens and entries is."""
    if now.tokens > now.budget:
        return ()
    height = ladder.height(now)
    records = [
        record
        for record in map(Compression.from_record, store.read("compressions"))
        if record.kind in ("undo", "unfold")
        and ladder.height(fullness(record.after_tokens, record.after_entries)) >= height
    ]
    done = {answer.maker for answer in read_ledger(store).settled()} if records else ()
    opened = [number for record in records if record.made_by not in done for number in record.removed]
    visible, _ = store.state()
    return tuple(
        (fold.start_seq, fold.end_seq)
        for fold in store.folds(opened)
        if covering(visible, fold.start_seq) is None and covering(visible, fold.end_seq) is None
    )
