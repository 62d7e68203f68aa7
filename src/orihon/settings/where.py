"""Which base folder is meant where nobody has named one.

A ``contexts`` that is a base already, in the working folder or above it as with ``.git``; else the user's own folder
for data. Nothing is made here. A folder above that belongs to somebody else is passed over: what is kept would be
theirs to read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from orihon.settings.model import Given, Settings

KEY = "context_storage.base_dir"
#: Origins of the setting, beside those of ``Settings.origin``.
FOUND, USER = "found", "user"
_NAME = "contexts"
#: One of these makes a folder a base. Many a project has a folder ``contexts`` of its own.
_MARKS = ("tasks.db", "running", "paused", "completed", "archive", "audit")


def with_base_folder(settings: Settings, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings with the base folder that is meant; as they are where somebody has named one."""
    if settings.is_explicit(KEY):
        return settings
    found = _found_upwards()
    given = Given(user_base(environ), USER) if found is None else Given(found, FOUND)
    return settings.take({KEY: given})


def user_base(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own base folder, which need not be there yet."""
    environment = os.environ if environ is None else environ
    data = Path(environment.get("XDG_DATA_HOME") or "")
    if not data.is_absolute():  # the rule of XDG: such a value counts as not set
        data = Path("~/.local/share").expanduser()
    return data / "orihon"


def _found_upwards() -> Path | None:
    if _is_base(Path(_NAME)):
        return Path(_NAME)
    try:
        here = Path.cwd()
    except OSError:  # removed under us
        return None
    above = (folder / _NAME for folder in here.parents)
    return next((folder for folder in above if _is_base(folder) and _is_own(folder)), None)


def _is_base(folder: Path) -> bool:
    return any(os.path.lexists(folder / mark) for mark in _MARKS)


def _is_own(folder: Path) -> bool:
    return folder.stat().st_uid == os.geteuid()
