"""When a view is folded, and by which rung: back-off after an attempt in vain, rungs asked for, runs opened again.

After an undo or an unfold the ladder leaves those runs alone until the budget is used up, or the view has grown by a
rung since. What a rejection or a request for changes has opened is left alone until an approval in the same phase says
that the matter is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from orihon.compression.documents.sections import CompressionLevel
from orihon.compression.ladder import Fullness, Ladder
from orihon.errors import InvalidInput
from orihon.settings import Settings
from orihon.settings.rungs import EVENTS, STRATEGIES, Rung
from orihon.store.checkpoints import read_ledger
from orihon.store.task_store import TaskStore
from orihon.values.records import Compression
from orihon.values.view import SeqRange, covering

_GROWTH = 1.1


def should_back_off(now: Fullness, then: Fullness | None, ladder: Ladder, many: int) -> bool:
    """Did the last attempt (``then``) save nothing, and has little changed? ``many`` new entries are not little."""
    if then is None or (now.usage > 1 and now.entries != then.entries):
        return False  # what cannot be sent: whatever is new may help
    return (
        ladder.height(now) <= ladder.height(then)
        and then.tokens <= now.tokens < _GROWTH * then.tokens
        and now.entries < then.entries + many
    )


_ALL_THAT_CAN_GO = 0.01


def rung_by_hand(ladder: Ladder, strategy: str | None, level: CompressionLevel | None, target: float | None) -> Rung:
    """The ladder's strongest rung, with what is wanted in its place."""
    if strategy is not None and strategy not in STRATEGIES:
        raise InvalidInput("strategy", name=strategy, known=", ".join(STRATEGIES))
    if target is not None and not 0 < target <= 1:
        raise InvalidInput("target", value=target)
    rung = ladder.strongest()
    if strategy is None and level is not None:
        strategy = "sections"
    return replace(
        rung,
        strategies=rung.strategies if strategy is None else (strategy,),
        level=rung.level if level is None else level.name.lower(),
        target=rung.target if target is None else target,
    )


def rung_on(event: str, ladder: Ladder, settings: Settings, *, whole_view: bool) -> Rung | None:
    """The rung of an event; ``None`` when nothing is to be done."""
    if event not in EVENTS:
        raise InvalidInput("event", name=event, known=", ".join(EVENTS))
    rung, wanted = ladder.rung_for(event), settings.compression
    if rung is None or event != "approval":
        return rung
    if not wanted.auto_compress_on_approval:
        return None
    if whole_view or wanted.ladder is not None:
        return rung
    # The exploration of a phase that was approved: as a document, whatever else the preset does at its rungs.
    return replace(rung, strategies=("sections",), level="standard", target=_ALL_THAT_CAN_GO, economical=False)


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
