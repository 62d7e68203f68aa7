"""One frozen ``Settings`` object: flag over environment over ``config.yaml`` over default.

``load_settings`` makes it, and refuses by name what it does not know or what cannot be. The table of all
settings is ``sections``; ``docs/settings.md`` describes them. Importing this package reads nothing.
"""

from __future__ import annotations

from orihon.settings.load import find_config, load_settings
from orihon.settings.model import Settings, schema

__all__ = ["Settings", "find_config", "load_settings", "schema"]
