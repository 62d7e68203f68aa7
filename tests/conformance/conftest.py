"""The tests live in modules that pytest does not collect by itself: have their assertions explained all the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_MODULES = [f"{__package__}.{path.stem}" for path in Path(__file__).parent.glob("[a-z]*.py")]
pytest.register_assert_rewrite(*(name for name in _MODULES if name not in sys.modules))
