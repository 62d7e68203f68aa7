"""One task from the command line or from standard input.

The key is made of the text, so that the same words name the same piece of work; what is said about the task goes to a
function that the command line gives. Refuses texts that are empty, too large or not UTF-8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from orihon.errors import InvalidInput, SourceError
from orihon.runtime.sources.base import SourceOutcome, SourceTask, TaskSource
from orihon.values.task import TaskKey

MAX_BYTES = 1024 * 1024
_TITLE_CHARS = 80


class CommandSource(TaskSource):
    """A source of exactly one task."""

    name = "cli"

    def __init__(
        self,
        said: str,
        *,
        user: str = "",
        task_id: str = "",
        tell: Callable[[str], object] = lambda said: None,
    ) -> None:
        body = said.strip()
        if not body:
            raise InvalidInput("task_empty")
        try:
            data = body.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput("task_encoding", offset=error.start) from error
        if len(data) > MAX_BYTES:
            raise InvalidInput("task_large", limit=MAX_BYTES)
        named = task_id or hashlib.sha256(data).hexdigest()[:12]
        first = body.split("\n", 1)[0].strip()
        title = first if len(first) <= _TITLE_CHARS else first[: _TITLE_CHARS - 1] + "…"
        self._task = SourceTask(TaskKey(self.name, "", "", "task", named, user=user), title, body, user=user)
        self._claimed = False
        self._told: set[tuple[str, str]] = set()
        self._tell = tell

    @classmethod
    def from_stream(
        cls,
        stream: BinaryIO,
        *,
        user: str = "",
        task_id: str = "",
        tell: Callable[[str], object] = lambda said: None,
    ) -> CommandSource:
        """The text of a stream such as ``sys.stdin.buffer``, up to its end."""
        data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InvalidInput("task_large", limit=MAX_BYTES)
        try:
            said = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput("task_encoding", offset=error.start) from error
        return cls(said, user=user, task_id=task_id, tell=tell)

    def poll(self) -> Iterator[SourceTask]:
        if not self._claimed:
            yield self._task

    def claimed(self) -> Iterator[SourceTask]:
        if self._claimed:
            yield self._task

    def find(self, key: TaskKey) -> SourceTask:
        if key != self._task.key:
            raise SourceError("foreign_key", key=key.label, service=self.name)
        return self._task

    def claim(self, found: SourceTask) -> bool:
        won = not self._claimed and found.key == self._task.key
        self._claimed = self._claimed or won
        return won

    def comment(self, key: TaskKey, said: str, *, kind: str = "") -> None:
        once = (key.uuid or "", kind or said)
        if said.strip() and once not in self._told:
            self._tell(said)
            self._told.add(once)

    def finish(self, key: TaskKey, outcome: SourceOutcome, said: str) -> None:
        self.comment(key, said, kind=f"finish-{outcome}")

    def resumed(self, key: TaskKey) -> None:
        """Nobody is shown whether the task waits."""

    def prompt(self, found: SourceTask) -> str:
        """The words as they were given: nobody else has added to them."""
        return found.body
