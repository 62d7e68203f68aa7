"""Times as people type them: ``2026-11-01``, ``2026-11-01T12:00``, ``7d``, ``12h``, ``30m``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from orihon.clock import as_utc
from orihon.errors import InvalidInput

_AGO = re.compile(r"(?P<count>[0-9]{1,6})\s*(?P<unit>[mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(typed: str, option: str = "--since") -> str:
    """A time in the form of the catalogue; what has no zone is UTC, and ``7d`` is seven days ago."""
    ago = _AGO.fullmatch(typed.strip().lower())
    try:
        if ago is not None:
            then = datetime.now(UTC) - timedelta(**{_UNITS[ago["unit"]]: int(ago["count"])})
            return then.isoformat(timespec="microseconds")
        return as_utc(typed.strip())
    except (ValueError, OverflowError) as error:
        raise InvalidInput("typed_time", option=option, value=ascii(typed[:80])) from error
