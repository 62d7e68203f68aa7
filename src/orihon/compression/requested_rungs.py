"""The rung for a compression that somebody, or an event, asks for."""

from __future__ import annotations

from dataclasses import replace

from orihon.compression.documents.sections import CompressionLevel
from orihon.errors import InvalidInput
from orihon.settings import Settings
from orihon.settings.rungs import EVENTS, STRATEGIES, Rung
from orihon.values.ladder import Ladder

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
