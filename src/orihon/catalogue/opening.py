"""From a base folder and settings to its catalogue."""

from __future__ import annotations

from pathlib import Path

from orihon.catalogue import Catalogue
from orihon.settings import Settings


def open_catalogue(base_dir: Path, settings: Settings) -> Catalogue:
    """The catalogue of a base folder."""
    storage = settings.context_storage
    return Catalogue(
        base_dir / "tasks.db",
        timeout=storage.db_timeout,
        max_retries=storage.max_retries,
        retry_delay=storage.retry_delay,
    )
