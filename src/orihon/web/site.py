"""One running server: what it shows, the previews that somebody has open, and whose turn it is to change a task.

Previews are kept in memory, the newest few; one that is gone after a restart is made anew. Two changes of one task that
come at once would refuse each other, for each holds the task's lease: they take turns. Whoever waits has a thread, and
all requests share those: only some wait, and not for long. All others go on at once, and the lease decides.
Nor may the requests of one user take all threads, downloads by slow readers least of all: each user has a share.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.exceptions import HTTPException

from orihon.errors import IllegalFold
from orihon.system.crowd import Crowd
from orihon.tasks.approvals.question_cache import QuestionMemory
from orihon.tasks.base import OpenBase
from orihon.tasks.hand_edits import Preview
from orihon.web.broadcaster import Broadcaster

MOST_KEPT = 50


class Drafts:
    """The previews of one server."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, Preview]] = {}  # by name: whose, and what; the oldest first
        self._lock = threading.Lock()

    def keep(self, preview: Preview, user: str = "") -> str:
        """The name by which it can be applied; for it goes the oldest one of the user who has most."""
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[name] = user, preview
            if len(self._kept) > MOST_KEPT:
                most = Counter(whose for whose, _ in self._kept.values()).most_common(1)[0][0]
                del self._kept[next(kept for kept, (whose, _) in self._kept.items() if whose == most)]
        return name

    def get(self, name: str, uuid: str) -> Preview:
        """The preview of that name; ``IllegalFold`` where it is not kept any more, or another task's."""
        with self._lock:
            found = self._kept.get(name)
        if found is None or found[1].uuid != uuid:
            raise IllegalFold("preview_gone")
        return found[1]

    def names(self) -> Sequence[str]:
        """Of all that are kept, the oldest first."""
        with self._lock:
            return list(self._kept)


#: Who waits, for all tasks together: a fifth of the threads that answer requests.
MOST_WAITING = 8
_PATIENCE = 10.0


@dataclass(slots=True)
class _Line:
    lock: threading.Lock = field(default_factory=threading.Lock)
    people: int = 0


class Turns:
    """One line for each task that is being changed."""

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._lines: dict[str, _Line] = {}
        self._lock = threading.Lock()
        self._patience = patience
        self._room = threading.Semaphore(MOST_WAITING)

    @contextmanager
    def of(self, task: str) -> Iterator[None]:
        """Nobody else is in this block for the same task, unless that would take too long."""
        with self._lock:
            line = self._lines.setdefault(task, _Line())
            line.people += 1
        is_ours = False
        try:
            is_ours = line.lock.acquire(blocking=False) or self._waited(line)
            yield
        finally:
            if is_ours:
                line.lock.release()
            with self._lock:
                line.people -= 1
                if not line.people:
                    del self._lines[task]

    def _waited(self, line: _Line) -> bool:
        if not self._room.acquire(blocking=False):
            return False
        try:
            return line.lock.acquire(timeout=self._patience)
        finally:
            self._room.release()


class Shares:
    """What the requests of one user may take at a time, and those of all: the rest waits, and the last are refused."""

    def __init__(self, at_once: int, in_line: int, in_all: int) -> None:
        self._at_once, self._most = at_once, at_once + in_line
        self._room = asyncio.Semaphore(in_all)
        self._lines: dict[str, tuple[asyncio.Semaphore, list[None]]] = {}

    @asynccontextmanager
    async def of(self, user: str) -> AsyncIterator[None]:
        """In this block a thread may be taken."""
        own, people = self._lines.setdefault(user, (asyncio.Semaphore(self._at_once), []))
        if len(people) >= self._most:
            raise HTTPException(429, headers={"retry-after": "1"})
        people.append(None)
        try:
            async with own, self._room:
                yield
        finally:
            people.pop()
            if not people:
                del self._lines[user]


@dataclass(frozen=True, slots=True)
class Site:
    """What one running server shows."""

    base: OpenBase
    live: Broadcaster
    read_only: bool = False
    config: Path | None = None  # the configuration file that was read, for the page of settings
    drafts: Drafts = field(default_factory=Drafts)  # compressions that somebody is looking at
    questions: QuestionMemory = field(default_factory=QuestionMemory)
    turns: Turns = field(default_factory=Turns)
    # Of the forty threads some stay for those who have yet to show who they are.
    requests: Shares = field(default_factory=lambda: Shares(12, 48, 24))
    downloads: Shares = field(default_factory=lambda: Shares(2, 2, 8))
    streams: Crowd = field(default_factory=lambda: Crowd(150, 40))  # of events, by user
