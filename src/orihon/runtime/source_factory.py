"""``sources_of``: from the settings to the places that tasks come from."""

from __future__ import annotations

from orihon.runtime.sources.base import TaskSource
from orihon.runtime.sources.folder import FolderSource
from orihon.runtime.sources.forge import ForgeOptions, Labels
from orihon.runtime.sources.retry import Retry
from orihon.settings import Settings
from orihon.settings.runtime_sections import GitHubSettings, GitLabSettings


def sources_of(settings: Settings) -> list[TaskSource]:
    """The sources that the settings name; those of services need their packages and tokens."""
    wanted, github, gitlab = settings.sources, settings.sources.github, settings.sources.gitlab
    sources: list[TaskSource] = []
    if github.repositories:
        from orihon.runtime.sources.github import GitHubSource

        sources.append(GitHubSource(github.repositories, **_options(settings, github)))
    if gitlab.repositories:
        from orihon.runtime.sources.gitlab import GitLabSource

        sources.append(GitLabSource(gitlab.repositories, **_options(settings, gitlab)))
    if wanted.folder is not None:
        sources.append(FolderSource(wanted.folder))
    return sources


def _options(settings: Settings, service: GitHubSettings | GitLabSettings) -> ForgeOptions:
    wanted, labels = settings.sources, settings.sources.labels
    return ForgeOptions(
        token=service.token or "",
        base_url=service.base_url,
        labels=Labels(labels.todo, labels.processing, labels.completed, labels.failed, labels.cancelled, labels.paused),
        types=service.types,
        retry=Retry(tries=wanted.tries, longest_wait=wanted.longest_wait),
        timeout=wanted.timeout,
    )
