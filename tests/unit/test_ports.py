"""Ports for servers of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ports


@pytest.mark.parametrize(
    ("given_away", "end"), [("32768\t60999\n", 32_768), ("15000 65000\n", 15_000), ("1024 65535\n", 32_768)]
)
def test_a_port_is_one_that_the_system_gives_to_nobody(
    given_away: str, end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "range").write_text(given_away)
    monkeypatch.setattr(ports, "_RANGE", tmp_path / "range")
    assert all(10_240 <= ports.free_port() < end for _ in range(50))
