"""A person's data: taken along, made anonymous, erased.

Owns which places hold something of a user (``erase``), what a person is handed out (``export_user``) and what in a
text tells who somebody is (``personal``). Promises that after an erasure nothing of the user's tasks is left in the
store, its indexes, archives, mirrors and caches, that their names are refused from then on, and that the audit can
still be verified. ``docs/privacy.md`` says what lies elsewhere: backups, logs, exports.
"""

from __future__ import annotations

from orihon.upkeep.privacy.anonymize import Anonymized, anonymize_task
from orihon.upkeep.privacy.erase import Erasure, erase_user
from orihon.upkeep.privacy.export_user import UserExport, export_user
from orihon.upkeep.privacy.personal import anonymize_personal_data
from orihon.upkeep.privacy.storage import GDPRCompliantStorage

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
