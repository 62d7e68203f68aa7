"""Publishes events to open pages: one thread polls, however many pages subscribe, and only while there are any.

A topic is ``site`` (the catalogue and the notices) or ``task:<uuid>`` (one task's log). A snapshot of a topic
is a few numbers; when it differs from the last one, everybody who listens gets it. Nothing is kept for those who
come later: a page asks for what it missed, by the numbers it has.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from orihon.errors import OrihonError

logger = logging.getLogger("orihon.web")

POLL_SECONDS = 0.2

TopicState = Mapping[str, Any]


class TopicReader(Protocol):
    """Reads snapshots of one topic; opened when the first page listens, closed after the last one."""

    def state(self) -> TopicState:
        """What is there now; the same mapping while nothing has changed."""

    def close(self) -> None: ...


@dataclass(slots=True)
class _Topic:
    reader: TopicReader
    state: TopicState | None = None
    listeners: set[Listener] = field(default_factory=set)


class Listener:
    """One open page. Several changes that come faster than they are sent are one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._has_changed = asyncio.Event()
        self._state: TopicState | None = None
        self.is_over = False  # the server is about to end

    def notify(self, state: TopicState) -> None:
        """From the thread that polls."""
        self._state = state
        self._loop.call_soon_threadsafe(self._has_changed.set)

    def dismiss(self) -> None:
        """Nothing will come any more."""
        self.is_over = True
        self._loop.call_soon_threadsafe(self._has_changed.set)

    async def next(self, seconds: float) -> TopicState | None:
        """The state after the next change; ``None`` when there was none for so long."""
        try:
            await asyncio.wait_for(self._has_changed.wait(), seconds)
        except TimeoutError:
            return None
        self._has_changed.clear()
        return self._state


class Broadcaster:
    """All topics that somebody listens to."""

    def __init__(self, open_topic: Callable[[str], TopicReader]) -> None:
        self._open_topic = open_topic
        self._topics: dict[str, _Topic] = {}
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._dismissed = False

    @contextmanager
    def listening(self, topic: str) -> Iterator[Listener]:
        """Hear of a topic in this block; the first thing that is heard is how it stands."""
        listener = Listener()
        with self._lock:
            if topic not in self._topics:
                self._topics[topic] = _Topic(self._open_topic(topic))
            found = self._topics[topic]
            found.listeners.add(listener)
            if found.state is not None:
                listener.notify(found.state)
            if self._dismissed:
                listener.dismiss()
            self._start()
        try:
            yield listener
        finally:
            with self._lock:
                found.listeners.discard(listener)
            self._changed.set()

    def dismiss(self) -> None:
        """Let go of everybody who listens, and of those who still come: open pages do not hold up the end."""
        with self._lock:
            self._dismissed = True
            listeners = [one for topic in self._topics.values() for one in topic.listeners]
        for listener in listeners:
            listener.dismiss()

    def close(self) -> None:
        """End the thread; nobody hears anything any more."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._changed.set()
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="orihon-live", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                gone = [name for name, topic in self._topics.items() if self._closed or not topic.listeners]
                closing = [self._topics.pop(name) for name in gone]
                over = not self._topics
                if over:
                    self._thread = None
                topics = list(self._topics.items())
            for topic in closing:
                topic.reader.close()
            if over:
                return
            for name, topic in topics:
                self._poll(name, topic)
            self._changed.wait(POLL_SECONDS)
            self._changed.clear()

    def _poll(self, name: str, topic: _Topic) -> None:
        try:
            state = topic.reader.state()
        except (OrihonError, OSError) as error:  # on its way somewhere, or the database is away: the next look may see
            logger.debug("%s cannot be read now: %s", name, error)
            return
        with self._lock:
            if state == topic.state:
                return
            topic.state = state
            listeners = list(topic.listeners)
        for listener in listeners:
            listener.notify(state)
