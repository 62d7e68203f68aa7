"""How ``orihon stats --summary`` and ``orihon stats TASK`` print: the storage, and the figures of one task."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from orihon.cli.options import CommandOptions
from orihon.cli.output import human_bytes, print_json, print_table, progress_bar, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.reports.storage import SizeGroup, StorageSummary

_MOST_GROUPS = 10


def print_storage(options: CommandOptions, *, as_json: bool) -> None:
    """The picture of the storage."""
    from orihon.reports.storage import storage_summary

    with progress_bar("cli.stats.measuring", hidden=as_json) as progress:
        found = storage_summary(options.base, progress=progress)
    if as_json:
        print_json(found)
        return
    for line in storage_lines(found):
        typer.echo(shown(line))
    _print_groups("user", found.by_user)
    _print_groups("repository", found.by_repository)


def storage_lines(found: StorageSummary) -> Iterator[str]:
    """The picture of the storage, line by line."""
    yield text("cli.stats.storage.title")
    yield text("cli.stats.storage.total", tasks=found.tasks)
    yield text("cli.stats.storage.size", size=human_bytes(found.bytes))
    days: dict[str, Any] = {"archive_days": found.archive_days, "retention_days": found.retention_days}
    groups: dict[str, SizeGroup] = {"active": found.active, "archived": found.archived, "old": found.old}
    for name, group in groups.items():
        yield text(f"cli.stats.storage.{name}", tasks=group.tasks, size=human_bytes(group.bytes), **days)
    if found.cleaned.tasks:
        yield text("cli.stats.storage.cleaned", tasks=found.cleaned.tasks)
    if found.unmeasured:
        yield text("cli.stats.storage.unmeasured", tasks=found.unmeasured)
    yield text("cli.stats.storage.messages", messages=found.messages, average=found.messages_per_task)
    yield text("cli.stats.storage.summaries", summaries=found.summaries, compressions=found.compressions)
    if found.biggest:
        yield text("cli.stats.storage.biggest")
    for one in found.biggest:
        yield f"  {one.uuid}  {human_bytes(one.bytes)}  {one.status}  {one.label}"


def _print_groups(name: str, groups: Mapping[str, Any]) -> None:
    if not any(groups):
        return
    figures = ("tasks", "messages", "tokens")
    rows = [
        (group or "-", *(sums[figure] for figure in figures)) for group, sums in list(groups.items())[:_MOST_GROUPS]
    ]
    if sys.stdout.isatty():
        titles = [text(f"cli.stats.storage.by_{name}"), *(text(f"cli.stats.storage.column_{one}") for one in figures)]
        print_table(titles, rows, flexible=0)
    else:
        print_table([""] * (len(figures) + 2), [(name, *row) for row in rows], flexible=1)


def print_task_statistics(options: CommandOptions, uuid: str, *, as_json: bool) -> None:
    """The figures of one task."""
    from orihon.reports.overview import OverviewStatistics, task_overview

    overview = task_overview(options.base, uuid, last=0)
    figures = OverviewStatistics(overview).as_dict()
    if as_json:
        print_json(figures)
        return
    rows = [(name, "-" if value is None else value) for name, value in _flat(figures)]
    titles = [text("cli.stats.what"), text("cli.stats.figure")]
    print_table(titles, rows, flexible=0)


def _flat(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
