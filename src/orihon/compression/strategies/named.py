"""The strategies by name, with the options that the settings and the ladder give them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from orihon.compression.documents.sections import CompressionLevel
from orihon.compression.importance import ContentScores
from orihon.compression.pages import Strategy
from orihon.compression.strategies.offload import Offload
from orihon.compression.strategies.prune import Prune, PruneSelection
from orihon.compression.strategies.section_folds import SectionFolds
from orihon.compression.strategies.summarize import Summarize
from orihon.settings import Settings
from orihon.settings.rungs import Rung
from orihon.values.ladder import Ladder


@dataclass(frozen=True, slots=True)
class Strategies:
    """Makes strategies for the rungs of one ladder."""

    settings: Settings
    ladder: Ladder
    preserved_patterns: tuple[str, ...] = ()
    scores: ContentScores = field(default_factory=ContentScores)  # kept from one compression to the next
    details: str = ""  # where the whole text lies

    def named(self, name: str, rung: Rung) -> Strategy:
        """The strategy that a rung names."""
        if name == "summarize":
            return Summarize(self.ladder.summary_share)
        if name == "prune":
            return Prune(
                selection=cast(PruneSelection, self.settings.compression.prune_selection),
                window=self.settings.compression.prune_window,
                min_gap_for_summary=self.settings.memory.min_gap_for_summary,
                emergency=not rung.model,
                scores=self.scores,
            )
        if name == "sections":
            level = CompressionLevel[rung.level.upper()]
            return SectionFolds(level, preserved_patterns=self.preserved_patterns, details=self.details)
        return Offload()
