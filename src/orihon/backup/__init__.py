"""Backups of a whole base folder, made while others work in it, and their restore."""

from orihon.backup.making import BackupReport, backup
from orihon.backup.restoring import CheckReport, RestoreReport, check_backups, list_backups, restore_backup
from orihon.backup.vault import BackupInfo

__all__ = [
    "BackupInfo",
    "BackupReport",
    "CheckReport",
    "RestoreReport",
    "backup",
    "check_backups",
    "list_backups",
    "restore_backup",
]
