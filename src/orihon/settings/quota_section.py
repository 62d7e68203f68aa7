"""The section of the settings about what one user may take: tasks, tokens, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orihon.settings.kinds import FrozenMap, whole
from orihon.settings.rungs import QUOTAS
from orihon.settings.sections import spec


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """What one user may take; unset: as much as there is."""

    tasks: int | None = field(
        default=None, metadata=spec(whole(1), "Most tasks of one user that are not finished, at a time.")
    )
    tokens_per_day: int | None = field(
        default=None,
        metadata=spec(whole(1), "Most tokens of models for the tasks of one user on one day (UTC); then they pause."),
    )
    bytes: int | None = field(
        default=None, metadata=spec(whole(1), "Most bytes that the tasks of one user may take, as of their last stop.")
    )
    users: Mapping[str, Mapping[str, int]] = field(
        default=FrozenMap(),
        metadata=spec(QUOTAS, "Other limits for single users, by name: `tasks`, `tokens_per_day`, `bytes`."),
    )
