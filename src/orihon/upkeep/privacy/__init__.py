"""A person's data: taken along, made anonymous, erased.

Owns which places hold something of a user (``erase``), what a person is handed out (``export_user``) and what in a
text tells who somebody is (``anonymize``). Promises that after an erasure nothing of the user's tasks is left in the
store, its indexes, archives, mirrors and caches, that their names are refused from then on, and that the audit can
still be verified. ``docs/privacy.md`` says what lies elsewhere: backups, logs, exports.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orihon.settings import Settings
from orihon.tasks.base import opened_base
from orihon.upkeep.privacy.anonymize import Anonymized, anonymize_personal_data, anonymize_task, placeholder_of
from orihon.upkeep.privacy.erase import Erasure, erase_user
from orihon.upkeep.privacy.export_user import UserExport, export_user, user_data

__all__ = [
    "Anonymized",
    "Erasure",
    "GDPRCompliantStorage",
    "UserExport",
    "anonymize_personal_data",
    "anonymize_task",
    "erase_user",
    "export_user",
]


class GDPRCompliantStorage:
    """The rights of a person over what is stored of them."""

    def __init__(
        self, base_dir: Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
    ) -> None:
        self._base = opened_base(base_dir, settings, create=True)

    def anonymize_personal_data(self, content: str) -> str:
        """The text without names, addresses and numbers of people; the same person stays the same."""
        return anonymize_personal_data(content, placeholder_of(self._base.path))

    def export_user_data(self, user_id: str) -> dict[str, Any]:
        """Everything that belongs to a user. Held in memory as a whole: ``export_user`` writes it to a folder."""
        return user_data(self._base, user_id)

    def delete_user_data(self, user_id: str) -> Erasure:
        """Erase everything that belongs to a user, for good."""
        return erase_user(self._base, user_id)
