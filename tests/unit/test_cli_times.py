"""Times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.cli.arguments import moment
from orihon.errors import InvalidInput
from tests.helpers import refused


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("2026-11-01", "2026-11-01T00:00:00.000000+00:00"),
        ("2026-11-01T12:30", "2026-11-01T12:30:00.000000+00:00"),
        (" 2026-11-01T12:30:00+09:00 ", "2026-11-01T03:30:00.000000+00:00"),
    ],
)
def test_dates(typed: str, meant: str) -> None:
    assert moment(typed) == meant


@given(count=st.integers(0, 9999), unit=st.sampled_from("mhdw"))
def test_how_long_ago(count: int, unit: str) -> None:
    length = {"m": 60, "h": 3600, "d": 86400, "w": 604800}[unit] * count
    found = datetime.now(UTC) - datetime.fromisoformat(moment(f"{count}{unit}"))
    assert abs(found - timedelta(seconds=length)) < timedelta(seconds=60)


@pytest.mark.parametrize("typed", ["", "never", "7y", "-3d", "2026-13-01", "999999w", "yesterday\x1b[31m"])
def test_what_is_no_time_is_refused(typed: str) -> None:
    with refused(InvalidInput, "typed_time"):
        moment(typed)
