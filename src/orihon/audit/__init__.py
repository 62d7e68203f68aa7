"""The audit: who did what to which task, in chains that can be proved.

Owns the records and who acts (``record``), where they are kept (``sink``), when something is recorded
(``trail``), what is anchored outside (``anchors``) and the proof (``verify``). Promises that no message content goes
into a record, that a changed, moved or missing record is found, and that a person can be forgotten without breaking a
chain. ``docs/audit.md`` says what a crash or an attacker can do all the same.
"""

from orihon.audit.record import AuditRecord, acting_as
from orihon.audit.trail import AuditLogger, AuditTrail, ComplianceAuditLog, audit_of, audited
from orihon.audit.verify import AuditFilter, AuditReport, audit_records, forget_person, remove_old_records, verify_audit

__all__ = [
    "AuditFilter",
    "AuditLogger",
    "AuditRecord",
    "AuditReport",
    "AuditTrail",
    "ComplianceAuditLog",
    "acting_as",
    "audit_of",
    "audit_records",
    "audited",
    "forget_person",
    "remove_old_records",
    "verify_audit",
]
