"""Rows of the catalogue made again from what a damaged ``tasks.db`` still gives; from folders: ``tasks.folder_rows``.

Calls of models that a task's log has and the catalogue does not: a process died between writing the two.

Only calls that are missing count as wrong. Programs may report calls that no message came from, and the catalogue then
knows more than the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from orihon.catalogue import Catalogue, TaskRow, UsageRow
from orihon.errors import StorageError
from orihon.settings import Settings
from orihon.tasks.base import OpenBase
from orihon.tasks.folder_rows import usage_from_folder
from orihon.tasks.place import TaskPlace
from orihon.tasks.verify.findings import Finding

logger = logging.getLogger("orihon.doctor")


def rescued_rows(rows: Iterable[TaskRow]) -> list[TaskRow]:
    """What a damaged catalogue still gives, up to the first thing that cannot be read."""
    rescued: list[TaskRow] = []
    try:
        for row in rows:
            rescued.append(row)
    except StorageError as error:
        logger.warning("tasks.db could be read up to row %d only: %s", len(rescued), error)
    return rescued


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
