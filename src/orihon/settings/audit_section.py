"""The section of the settings about the audit: what is recorded, who acts, what is anchored outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from orihon.settings.kinds import FLAG, PATH, SECRET, TEXT, URL, choice, number, whole
from orihon.settings.sections import spec


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit: who did what to which task."""

    enabled: bool = field(default=True, metadata=spec(FLAG, "Record in the audit what is done; see `audit.md`."))
    level: str = field(
        default="changes",
        metadata=spec(
            choice("changes", "all"),
            "`changes`: compressions, undo, approvals, exports, deletions, settings and the like. `all`: also every "
            "read and every message that is added.",
        ),
    )
    required: bool = field(
        default=False,
        metadata=spec(FLAG, "Refuse also reads and exports that cannot be recorded; changes always are."),
    )
    user: str | None = field(
        default=None,
        metadata=spec(TEXT, "Who acts where nobody has logged in; unset: the user of the operating system."),
    )
    anchor_file: Path | None = field(
        default=None,
        metadata=spec(PATH, "File outside the base folder, for this one alone, to which heads of chains are added."),
    )
    anchor_webhook: str | None = field(
        default=None,
        repr=False,
        metadata=spec(URL, "Address to which heads of chains are posted; only scheme and host are ever shown."),
    )
    anchor_secret: str | None = field(
        default=None, repr=False, metadata=spec(SECRET, "Secret that these posts are signed with; unset: they are not.")
    )
    anchor_every: int = field(
        default=100, metadata=spec(whole(1), "Records of a chain after which its head is anchored again.")
    )
    anchor_seconds: float = field(
        default=300.0, metadata=spec(number(low=0), "Seconds after which the next record is anchored in any case.")
    )
    keep_days: int | None = field(
        default=None,
        metadata=spec(whole(1), "Days that records are kept, at least; unset: for ever. `orihon maintain` removes."),
    )

    @property
    def is_anchored(self) -> bool:
        """Shall heads of chains be kept outside?"""
        return self.anchor_file is not None or self.anchor_webhook is not None
