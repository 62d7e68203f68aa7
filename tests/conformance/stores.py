"""The one class that every back end has to pass; a new back end subclasses it and names itself."""

from __future__ import annotations

from tests.conformance.checkpoint_records import CheckpointBehaviour
from tests.conformance.folds import FoldBehaviour, PinBehaviour, RecreateBehaviour
from tests.conformance.log import LogBehaviour
from tests.conformance.masking import MaskingBehaviour
from tests.conformance.processes import EpochBehaviour, ReaderBehaviour, WriterBehaviour
from tests.conformance.refusals import DamageBehaviour, RefusalBehaviour
from tests.conformance.siblings import FigureBehaviour, SiblingBehaviour
from tests.conformance.tool_pairs import ToolPairBehaviour


class StoreConformance(
    LogBehaviour,
    ToolPairBehaviour,
    FoldBehaviour,
    PinBehaviour,
    RecreateBehaviour,
    MaskingBehaviour,
    SiblingBehaviour,
    FigureBehaviour,
    CheckpointBehaviour,
    RefusalBehaviour,
    DamageBehaviour,
    EpochBehaviour,
    WriterBehaviour,
    ReaderBehaviour,
):
    """Every behaviour that a store promises."""
