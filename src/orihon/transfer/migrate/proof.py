"""The proof that a copied task is the same and sound in itself; the copying is ``store.copy``'s."""

from __future__ import annotations

from orihon.errors import DamagedStore
from orihon.store.copy import StoreContents, refuse_difference
from orihon.store.task_store import TaskStore
from orihon.tasks.verify.verify import verify_task


def check_copy(uuid: str, source: StoreContents, copy: TaskStore) -> None:
    """Raises ``DamagedStore`` when the copy is not the same, or not sound in itself."""
    refuse_difference(uuid, source, copy)
    wrong = [finding for finding in verify_task(copy) if finding.severity == "error"]
    if wrong:
        raise DamagedStore("not_sound", uuid=uuid, what=str(wrong[0].where), detail=wrong[0].cause)
