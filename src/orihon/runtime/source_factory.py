"""``sources_of``: from the settings to the places that tasks come from."""

from __future__ import annotations

from orihon.runtime.sources.base import TaskSource
from orihon.runtime.sources.folder import FolderSource
from orihon.runtime.sources.forge import Labels
from orihon.runtime.sources.retry import Retry
from orihon.settings import Settings


def sources_of(settings: Settings) -> list[TaskSource]:
    """The sources that the settings name; those of services need their packages and tokens."""
    wanted, github, gitlab = settings.sources, settings.sources.github, settings.sources.gitlab
    labels, retry = _labels(settings), Retry(tries=wanted.tries, longest_wait=wanted.longest_wait)
    sources: list[TaskSource] = []
    if github.repositories:
        from orihon.runtime.sources.github import GitHubSource

        sources.append(
            GitHubSource(
                github.repositories,
                token=github.token or "",
                base_url=github.base_url,
                labels=labels,
                types=github.types,
                retry=retry,
                timeout=max(1, round(wanted.timeout)),
            )
        )
    if gitlab.repositories:
        from orihon.runtime.sources.gitlab import GitLabSource

        sources.append(
            GitLabSource(
                gitlab.repositories,
                token=gitlab.token or "",
                base_url=gitlab.base_url,
                labels=labels,
                types=gitlab.types,
                retry=retry,
                timeout=wanted.timeout,
            )
        )
    if wanted.folder is not None:
        sources.append(FolderSource(wanted.folder))
    return sources


def _labels(settings: Settings) -> Labels:
    labels = settings.sources.labels
    return Labels(labels.todo, labels.processing, labels.completed, labels.failed, labels.cancelled, labels.paused)
