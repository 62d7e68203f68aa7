"""``AuditLogger`` and ``ComplianceAuditLog``: the audit for programs that record accesses of their own.

They write to the same chains as everything else, whatever ``audit.enabled`` says. Details are masked as messages are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orihon.audit.actor import acting_as
from orihon.audit.record import LONGEST_LINE, OK, canonical
from orihon.audit.trail import AuditTrail, audit_of
from orihon.errors import InvalidInput, StorageUnavailable
from orihon.settings import Settings, load_settings
from orihon.store.factory import make_redactor

#: Masking may make a text longer, and user, address and task need room, too.
MOST_DETAILS = LONGEST_LINE // 2


class _Logger:
    def __init__(self, base_dir: Path | str | None = None, config: Mapping[str, Any] | Settings | None = None) -> None:
        self.settings = load_settings(config)
        where = base_dir if base_dir is not None else self.settings.context_storage.base_dir
        self.base_dir = Path(where).absolute()

    def _write(self, action: str, task: str, details: Mapping[str, Any], **who: Any) -> None:
        trail: AuditTrail = audit_of(self.base_dir, self.settings)
        if not trail.sink.is_at_home():
            raise StorageUnavailable("no_base_dir", path=self.base_dir)
        if len(canonical(details)) > MOST_DETAILS:
            raise InvalidInput("audit_details", most=MOST_DETAILS)
        redactor = make_redactor(self.settings, self.base_dir)
        trail.write(action, redactor.mask(task), OK, redactor.clean(dict(details)), **who)


class AuditLogger(_Logger):
    """Records who looked at or changed which task."""

    def log_context_access(self, process_id: str, task_key: str, action: str, details: Mapping[str, Any]) -> None:
        """One access: ``action`` is ``read``, ``write``, ``delete`` or a word of your own."""
        self._write(action, task_key, details, process=process_id)
        if action in ("read", "write"):
            audit_of(self.base_dir, self.settings).flush()


class ComplianceAuditLog(_Logger):
    """Records who had access to data of which category; the address is the one of ``acting_as``, unless given."""

    def log_data_access(
        self, user_id: str, task_id: str, action: str, data_category: str, ip_address: str | None = None
    ) -> None:
        """One access to data: ``data_category`` is ``personal``, ``code``, ``public`` or a word of your own."""
        details = {"category": data_category}
        if ip_address is None:
            self._write(action, task_id, details, user=user_id)
        else:
            with acting_as(user_id, ip_address):
                self._write(action, task_id, details)
        audit_of(self.base_dir, self.settings).flush()
