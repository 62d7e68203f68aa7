"""A file that grows: what was read of it before is read again, the same, and only then what is new."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.importing_agents import AGENT_SAMPLES, told

LINES = [(form, make) for form, make, is_lines, _ in AGENT_SAMPLES if is_lines]


@pytest.mark.parametrize(("form", "make"), LINES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_lines_that_are_added_change_nothing_before_them(
    form: str, make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    whole = told(form, path)
    for length in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:length]))
        part = told(form, path)
        for thread, items in part.of.items():
            known = whole.of[thread]
            assert [item.message for item in items] == [item.message for item in known[: len(items)]]
        assert [fold.text for fold in part.folds] == [fold.text for fold in whole.folds[: len(part.folds)]]
        assert {thread.id for thread in part.threads} <= {thread.id for thread in whole.threads}
