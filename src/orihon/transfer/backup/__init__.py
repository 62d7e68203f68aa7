"""Backups of a whole base folder, made while others work in it, and their restore."""

from orihon.transfer.backup.backup import BackupReport, backup
from orihon.transfer.backup.restore import CheckReport, RestoreReport, check_backups, list_backups, restore_backup
from orihon.transfer.backup.vault import BackupInfo, VaultKey

__all__ = [
    "BackupInfo",
    "BackupReport",
    "CheckReport",
    "RestoreReport",
    "VaultKey",
    "backup",
    "check_backups",
    "list_backups",
    "restore_backup",
]
