"""Loading settings apart from the environment that the tests run in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orihon.errors import InvalidSettings
from orihon.settings import Settings, load_settings

#: Writes a configuration file and says where it is.
Write = Callable[[str], Path]


def load(
    config: Any = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """``load_settings`` with this environment and no other."""
    return load_settings(config, environ=environ or {}, flags=flags)


def refused(
    config: Any = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> InvalidSettings:
    """The error that ``load`` raises."""
    with pytest.raises(InvalidSettings) as caught:
        load(config, environ, flags)
    return caught.value
