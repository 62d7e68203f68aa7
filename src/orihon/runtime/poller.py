"""Polls the sources of tasks: what they have is claimed there and enqueued here.

A task is enqueued after its source has given it to us, so two machines that poll one source do not both take it.
Who dies between the two leaves a task that is claimed and in nobody's queue: the first poll after a start takes up what
the source shows as claimed and the catalogue does not know as open, where nobody else can have claimed it (a folder;
a service only when the settings say that no other machine polls there). A source that cannot be reached, or breaks, is
left for the next poll, and the others are asked all the same. A task that is open here already is not taken twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

from orihon.catalogue.rows import may_go_on
from orihon.errors import InvalidInput, SourceError, StorageError
from orihon.runtime.queue import TaskQueue
from orihon.runtime.sources.base import SourceTask, Speakers, TaskSource
from orihon.runtime.sources.folder import FolderSource
from orihon.runtime.sources.forge import ForgeOptions, Labels, Retry
from orihon.settings import Settings
from orihon.settings.runtime_sections import GitHubSettings, GitLabSettings, SourceSettings

logger = logging.getLogger("orihon.sources")


def sources_of(settings: Settings) -> list[TaskSource]:
    """The sources that the settings name; those of services need their packages and tokens."""
    wanted, github, gitlab = settings.sources, settings.sources.github, settings.sources.gitlab
    labels = Labels(**{field.name: getattr(wanted.labels, field.name) for field in fields(Labels)})
    sources: list[TaskSource] = []
    if github.repositories:
        from orihon.runtime.sources.github import GitHubSource

        sources.append(GitHubSource(github.repositories, **_options(settings, github, labels)))
    if gitlab.repositories:
        from orihon.runtime.sources.gitlab import GitLabSource

        sources.append(GitLabSource(gitlab.repositories, **_options(settings, gitlab, labels)))
    if wanted.folder is not None:
        sources.append(FolderSource(wanted.folder, speakers=_speakers(wanted)))
    return sources


def _options(settings: Settings, service: GitHubSettings | GitLabSettings, labels: Labels) -> ForgeOptions:
    wanted = settings.sources
    return ForgeOptions(
        token=service.token or "",
        base_url=service.base_url,
        labels=labels,
        types=service.types,
        retry=Retry(tries=wanted.tries, longest_wait=wanted.longest_wait),
        timeout=wanted.timeout,
        speakers=_speakers(wanted),
    )


def _speakers(sources: SourceSettings) -> Speakers:
    return Speakers(sources.trusted, sources.trusted_users)


class SourcePoller:
    """Brings tasks from their sources into the queue."""

    def __init__(self, queue: TaskQueue, sources: Sequence[TaskSource], interval: float) -> None:
        self._queue = queue
        self._sources = sources
        self._interval = interval
        self._taken_up: set[str] = set()  # sources whose lost tasks have been looked for
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look now and then, in a thread of its own, until ``stop``."""
        if self._sources and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="orihon-sources", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """No more looks; one that is under way may end."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._queue.close()

    def poll_once(self) -> list[str]:
        """One look at every source; the UUIDs of the tasks that are in line now."""
        return [uuid for source in self._sources for uuid in self._from(source)]

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.poll_once()
            self._stopped.wait(self._interval)

    def _from(self, source: TaskSource) -> list[str]:
        taken: list[str] = []
        try:
            may_take_up = self._queue.settings.sources.take_up_claimed or not source.is_shared
            if may_take_up and source.name not in self._taken_up:
                taken += self._enqueued(source, source.claimed(), lambda found: True)
                self._taken_up.add(source.name)
            taken += self._enqueued(source, source.poll(), source.claim)
        except (SourceError, StorageError) as error:
            logger.warning("%s: %s", source.name, error)
        except Exception:  # a source is code of others; nobody would start this thread again
            logger.exception("%s: the source is broken", source.name)
        return taken

    def _enqueued(
        self, source: TaskSource, found_tasks: Iterator[SourceTask], is_ours: Callable[[SourceTask], bool]
    ) -> Iterator[str]:
        for found in found_tasks:
            if self._stopped.is_set():
                return
            key = replace(found.key, user=found.user or found.key.user)
            if any(map(may_go_on, self._queue.catalogue.tasks.unfinished(key))) or not is_ours(found):
                continue
            try:
                yield self._queue.enqueue(key, prompt=source.prompt(found), source=source.name)
            except InvalidInput as error:
                logger.error("%s: %s cannot be taken: %s", source.name, key.label, error)
                source.finish(key, "failed", str(error))
