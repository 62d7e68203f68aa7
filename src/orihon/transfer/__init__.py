"""Whole tasks copied: archives, exports, forks, backups, migrations."""
