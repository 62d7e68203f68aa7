"""What every task source does: find work, claim it, talk about it, end it.

A source never runs anything and keeps no state of its own: what it says of a task is read where the task lies. Each
change may be repeated after a crash: a comment carries a hidden marker and is not written twice, and a task is ended
by naming the state it shall have. Between ``claim`` and the queue a process may die: ``claimed`` gives those tasks
back. Refuses nothing by itself; what a service or a disk refuses comes as ``SourceError`` or ``StorageError``.

Everybody may comment on a public issue. Whose words are the user's is a rule (``Speakers``); everybody else's are
quoted in the prompt line by line, each with its author and what the service says of them, and have the trust of tool
output. What is not quoted cannot announce a comment of somebody else.

``SourceReporter`` says to a task's source what happens to it. A source that cannot be reached never ends a task: what
could not be said is logged. Only the end is different: as long as there are attempts left, it is tried again with the
next one, since a task whose end is not shown counts as going on.
"""

from __future__ import annotations

import hashlib
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from orihon.catalogue import TaskRow
from orihon.catalogue.rows import fresh_start
from orihon.compression.notes.reader import announced, said_by_user, told_by
from orihon.errors import SourceError, StorageError
from orihon.texts import text
from orihon.values.task import TaskKey, new_uuid

logger = logging.getLogger("orihon.agent")

SourceOutcome = Literal["completed", "failed", "cancelled", "paused"]

_NOBODY = "ghost"  # so the services call those who have left

_MARKER = re.compile(r"(?<!\n)\n*+<!-- orihon:[A-Za-z0-9_-]*:[^>\n]*-->")


@dataclass(frozen=True, slots=True)
class SourceComment:
    """What somebody said about a task; ``place`` is the file and line of a remark on code.

    ``association``: what the author is to the repository, in the service's words; empty where it does not tell.
    """

    author: str
    text: str
    created_at: str = ""
    place: str = ""
    association: str = ""

    @property
    def is_agents(self) -> bool:
        """Was it written by an agent of ours? It may repeat what a tool has printed."""
        return "<!-- orihon:" in self.text


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
    association: str = ""  # of whom it is from
    assignees: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Speakers:
    """Whose words are the user's: by what they are to the repository or the task, and by name."""

    kinds: tuple[str, ...] = ("body", "owner", "member", "collaborator")
    names: tuple[str, ...] = ()

    def may_order(self, found: SourceTask, comment: SourceComment) -> bool:
        """Does the user speak in this comment?"""
        roles = {comment.association.lower()}
        if comment.author not in ("", _NOBODY):
            roles |= {"author"} if comment.author == found.user else set()
            roles |= {"assignee"} if comment.author in found.assignees else set()
        return not comment.is_agents and self._is_one(comment.author, roles)

    def may_ask(self, found: SourceTask) -> bool:
        """Does the user speak in the task's own title and text?"""
        return self._is_one(found.user, {"body", "author", found.association.lower()})

    def _is_one(self, name: str, roles: set[str]) -> bool:
        known = {one.casefold() for one in self.names}
        return "anyone" in self.kinds or not roles.isdisjoint(self.kinds) or name.casefold() in known


class TaskSource(ABC):
    """One place that tasks come from."""

    name: str
    #: Whether machines with other catalogues may take tasks there.
    is_shared: ClassVar[bool] = False
    speakers = Speakers()

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
        return prompt(found, self.speakers)


def prompt(found: SourceTask, speakers: Speakers | None = None) -> str:
    """The task as a message: where it comes from, what it says, and what was said about it."""
    speakers = speakers or Speakers()
    head = [text("sources.prompt.task", label=found.key.label, kind=found.key.task_type)]
    if found.user:
        head.append(text("sources.prompt.user", user=_line(found.user)))
    if found.url:
        head.append(text("sources.prompt.url", url=_line(found.url)))
    source, target = _line(found.source_branch), _line(found.target_branch)
    branches = text("sources.prompt.branches", source=source, target=target) if source else ""
    title, body = text("sources.prompt.title", title=_line(found.title)), without_markers(found.body).strip()
    comments = [comment for comment in found.comments if without_markers(comment.text).strip()]
    is_users = [speakers.may_order(found, comment) for comment in comments]
    if may_ask := speakers.may_ask(found):
        head += [branches, title]
    pieces = ["\n".join(filter(None, head))]
    if not (may_ask and all(is_users)):
        pieces.append(text("sources.prompt.quoted"))
    pieces.append(said_by_user(body) if may_ask else _told(found.user, found.association, branches, title, body))
    if comments:
        pieces += [text("sources.prompt.comments"), *map(_shown, comments, is_users)]
    return "\n\n".join(piece for piece in pieces if piece)


def _shown(comment: SourceComment, is_users: bool) -> str:
    author = comment.author or ("agent" if comment.is_agents else _NOBODY)
    association = "agent" if comment.is_agents else comment.association.lower() or "unknown"
    when = f", {_line(comment.created_at)}" if comment.created_at else ""
    place, said = _line(comment.place), without_markers(comment.text).strip()
    head = announced(author, association) + when
    if is_users:
        return f"{head}{f' ({place})' if place else ''}\n{said_by_user(said)}"
    return f"{head}\n{_told(author, association, f'({place})' if place else '', said)}"


def _told(author: str, association: str, *said: str) -> str:
    told = "\n".join(filter(None, said))
    return told_by(author or _NOBODY, association.lower() or "unknown", told)


def _line(said: str) -> str:
    """On one line, whatever somebody has called a file or a branch."""
    return " ".join(said.split())


def marker(key: TaskKey, kind: str, said: str) -> str:
    """The hidden line that tells a comment from every other; a task without a UUID gets a new one each time."""
    digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    named = re.sub(r"[^A-Za-z0-9_.-]", "_", kind) or f"note-{digest}"
    return f"<!-- orihon:{key.uuid or new_uuid()}:{named} -->"


def without_markers(said: str) -> str:
    """A text as people see it. An agent that quotes a marker must not silence its own later comment."""
    return _MARKER.sub("", said)


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
