"""What every task source does: find work, claim it, talk about it, end it.

A source never runs anything and keeps no state of its own: what it says of a task is read where the task lies. Each
change may be repeated after a crash: a comment carries a hidden marker and is not written twice, and a task is ended
by naming the state it shall have. Between ``claim`` and the queue a process may die: ``claimed`` gives those tasks
back. Refuses nothing by itself; what a service or a disk refuses comes as ``SourceError`` or ``StorageError``.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from orihon.texts import text
from orihon.values.task import TaskKey, new_uuid

SourceOutcome = Literal["completed", "failed", "cancelled", "paused"]
OUTCOMES: tuple[SourceOutcome, ...] = ("completed", "failed", "cancelled", "paused")

_MARKER = re.compile(r"(?<!\n)\n*+<!-- orihon:[A-Za-z0-9_-]*:[^>\n]*-->")


@dataclass(frozen=True, slots=True)
class SourceComment:
    """What somebody said about a task; ``place`` is the file and line of a remark on code."""

    author: str
    text: str
    created_at: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class SourceTask:
    """A task as its source shows it."""

    key: TaskKey
    title: str
    body: str
    comments: tuple[SourceComment, ...] = ()
    url: str = ""
    user: str = ""
    labels: tuple[str, ...] = ()
    source_branch: str = ""
    target_branch: str = ""


class TaskSource(ABC):
    """One place that tasks come from."""

    name: str
    #: Whether machines with other catalogues may take tasks there.
    is_shared: ClassVar[bool] = False

    @abstractmethod
    def poll(self) -> Iterator[SourceTask]:
        """The tasks that wait for somebody, oldest first."""

    @abstractmethod
    def claimed(self) -> Iterator[SourceTask]:
        """The tasks that were claimed and not ended, by whomever."""

    @abstractmethod
    def find(self, key: TaskKey) -> SourceTask:
        """The task as it is now, claimed or not."""

    @abstractmethod
    def claim(self, found: SourceTask) -> bool:
        """Take the task; ``False`` when another was faster."""

    @abstractmethod
    def comment(self, key: TaskKey, said: str, *, kind: str = "") -> None:
        """Say something about the task, once for each ``kind`` (without one: once for each text) and UUID."""

    @abstractmethod
    def finish(self, key: TaskKey, outcome: SourceOutcome, said: str) -> None:
        """Comment, and show that the task ended this way; a paused one stays claimed."""

    @abstractmethod
    def resumed(self, key: TaskKey) -> None:
        """Show that a paused task goes on."""

    def prompt(self, found: SourceTask) -> str:
        """The first user message for the agent."""
        return prompt(found)


def prompt(found: SourceTask) -> str:
    """The task as a message: where it comes from, what it says, and what was said about it."""
    head = [text("sources.prompt.task", label=found.key.label, kind=found.key.task_type)]
    if found.user:
        head.append(text("sources.prompt.user", user=found.user))
    if found.url:
        head.append(text("sources.prompt.url", url=found.url))
    if found.source_branch:
        head.append(text("sources.prompt.branches", source=found.source_branch, target=found.target_branch))
    head.append(text("sources.prompt.title", title=found.title))
    pieces = ["\n".join(head), without_markers(found.body).strip()]
    said = [_shown(comment) for comment in found.comments if without_markers(comment.text).strip()]
    if said:
        pieces += [text("sources.prompt.comments"), *said]
    return "\n\n".join(piece for piece in pieces if piece)


def _shown(comment: SourceComment) -> str:
    place = f" ({comment.place})" if comment.place else ""
    when = f", {comment.created_at}" if comment.created_at else ""
    return f"--- {comment.author or '?'}{when}{place}\n{without_markers(comment.text).strip()}"


def marker(key: TaskKey, kind: str, said: str) -> str:
    """The hidden line that tells a comment from every other; a task without a UUID gets a new one each time."""
    digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    named = re.sub(r"[^A-Za-z0-9_.-]", "_", kind) or f"note-{digest}"
    return f"<!-- orihon:{key.uuid or new_uuid()}:{named} -->"


def without_markers(said: str) -> str:
    """A text as people see it. An agent that quotes a marker must not silence its own later comment."""
    return _MARKER.sub("", said)
