"""Reports to a task's source: that work begins, what is inherited, what went wrong, how it ended.

A source that cannot be reached never ends a task: what could not be said is logged. Only the end is different: as long
as there are attempts left, it is tried again with the next one, since a task whose end is not shown counts as going on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from orihon.catalogue import TaskRow
from orihon.catalogue.rows import fresh_start
from orihon.errors import SourceError, StorageError
from orihon.runtime.sources.base import SourceOutcome, TaskSource
from orihon.texts import text

logger = logging.getLogger("orihon.agent")


class SourceReporter:
    """Notifies the source of one task; without a source, nobody."""

    def __init__(self, source: TaskSource | None, row: TaskRow) -> None:
        self._source = source
        # By the UUID the source knows what was said before. What is said after people had a task tried again is new.
        rounds = fresh_start(row)["round"]
        self._key = replace(row.key, uuid=f"{row.uuid}-{rounds}" if rounds else row.uuid)

    def begin(self, inheritance: str | None) -> None:
        """Work begins, perhaps with what an earlier task has left."""
        self._say("start", text("agent.comment.start"))
        if inheritance:
            self._say("inheritance", inheritance)

    def go_on(self) -> None:
        """Work goes on after a pause or a crash."""
        self._try(lambda source: source.resumed(self._key))

    def wait(self, checkpoint: int, question: str) -> None:
        """A person is asked, and nothing is done until the answer is there."""
        self._say(f"checkpoint-{checkpoint}", text("agent.comment.waiting", question=question))

    def trouble(self, attempt: int, error: object) -> None:
        """An attempt has failed."""
        self._say(f"error-{attempt}", text("agent.comment.error", error=error))

    def finish(self, outcome: SourceOutcome, said: str, *, insist: bool = False) -> None:
        """The work is over, or rests. ``insist``: an error of the source is the caller's."""
        if insist and self._source is not None:
            self._source.finish(self._key, outcome, said)
        else:
            self._try(lambda source: source.finish(self._key, outcome, said))

    def _say(self, kind: str, said: str) -> None:
        self._try(lambda source: source.comment(self._key, said, kind=kind))

    def _try(self, act: Callable[[TaskSource], None]) -> None:
        if self._source is None:
            return
        try:
            act(self._source)
        except (SourceError, StorageError) as error:
            logger.warning("%s: the source could not be notified: %s", self._key.label, error)
