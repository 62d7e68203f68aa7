"""Calls of models that a task's log has and the catalogue does not: a process died between writing the two.

Only calls that are missing count as wrong. Programs may report calls that no message came from, and the catalogue then
knows more than the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from orihon.catalogue import Catalogue, TaskRow, UsageRow
from orihon.settings import Settings
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace
from orihon.tasks.verify.findings import Finding
from orihon.upkeep.doctor.rebuild import usage_from_folder

_ANSWER = "answer"


def check_calls(base: OpenBase, row: TaskRow, place: TaskPlace) -> Iterator[Finding]:
    """What the catalogue lacks of a task's calls."""
    assert base.catalogue is not None  # the row came from there
    missing, _ = _missing(base.catalogue.usage.of_task(row.uuid), usage_from_folder(place, base.settings, row))
    if missing > 0:
        yield Finding("catalogue", "usage", "tasks.db", task=row.uuid, severity="warning", fields={"count": missing})


def count_calls(catalogue: Catalogue, row: TaskRow, place: TaskPlace, settings: Settings) -> None:
    """The answers as the log has them; of other calls the catalogue may know more."""
    known, told = catalogue.usage.of_task(row.uuid), usage_from_folder(place, settings, row)
    beside = [one for one in known if one.purpose != _ANSWER] or [one for one in told if one.purpose != _ANSWER]
    catalogue.usage.replace(row.uuid, [*(one for one in told if one.purpose == _ANSWER), *beside])
    calls, tokens = _missing(known, told)
    if calls > 0:
        catalogue.tasks.add_statistics(row.uuid, llm_calls=calls, tokens=max(tokens, 0))


def _missing(known: list[UsageRow], told: list[UsageRow]) -> tuple[int, int]:
    """Calls, and the tokens that they have read."""
    (calls, tokens), (known_calls, known_tokens) = _answers(told), _answers(known)
    return calls - known_calls, tokens - known_tokens


def _answers(rows: list[UsageRow]) -> tuple[int, int]:
    answers = [one for one in rows if one.purpose == _ANSWER]
    return sum(one.calls for one in answers), sum(one.input_tokens for one in answers)
