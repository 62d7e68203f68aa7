"""Times as people type them, as an option: ``2026-11-01``, ``2026-11-01T12:00``, ``7d``, ``12h``, ``30m``."""

from __future__ import annotations

from orihon.errors import InvalidInput
from orihon.system.clock import as_typed


def moment(typed: str, option: str = "--since") -> str:
    """A time in the form of the catalogue; what has no zone is UTC, and ``7d`` is seven days ago."""
    try:
        return as_typed(typed)
    except ValueError as error:
        raise InvalidInput("typed_time", option=option, value=ascii(typed[:80])) from error
