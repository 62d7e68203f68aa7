"""How both databases keep the marks of tasks: one row of the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orihon.search.documents import KINDS
from orihon.search.index import TaskMark


def row_of(mark: TaskMark) -> dict[str, Any]:
    """A mark as the columns of its row."""
    problem = mark.problem.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    known = {"uuid": mark.uuid, "state": mark.state, "is_settled": mark.is_settled, "problem": problem}
    return {**known, **{str(kind): number for kind, number in mark.reached.items()}}


def mark_from(row: Sequence[Any]) -> TaskMark:
    """A mark out of its row."""
    uuid, state, is_settled, *reached, problem = row
    return TaskMark(uuid, state, bool(is_settled), dict(zip(KINDS, map(int, reached), strict=True)), problem)
