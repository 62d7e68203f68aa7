"""The prover: plays faults (kills, stops, cuts, errors, damages …) at real stores and counts what they could do."""

from orihon.upkeep.torture.campaign import MUST_BE_ZERO
from orihon.upkeep.torture.runner import CAMPAIGNS, TortureFailure, TorturePlan, TortureReport, TortureRow, torture

__all__ = ["CAMPAIGNS", "MUST_BE_ZERO", "TortureFailure", "TorturePlan", "TortureReport", "TortureRow", "torture"]
