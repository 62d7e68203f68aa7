"""``orihon stats``: one picture of everything that shares a catalogue, of its storage, or of one task."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from orihon.cli.beside import hint_at_tasks_beside
from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_json, print_table
from orihon.cli.task_argument import named_task, task_argument
from orihon.texts import text

_SUMS = ("take_overs", "messages", "tokens", "llm_calls", "tool_calls", "compressions", "average_minutes")
_HOST = ("workers", "working", "processed", "failed", "leases")


def stats(
    context: typer.Context,
    task: Annotated[str | None, task_argument("cli.stats.task", "[TASK]")] = None,
    summary: Annotated[bool, flag("--summary", help=text("cli.stats.summary"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Tasks, the line, machines, and what it all cost; or the storage; or one task."""
    from orihon.cli.storage_output import print_storage, print_task_statistics
    from orihon.errors import InvalidInput

    options = context.ensure_object(CommandOptions)
    if task is not None and summary:
        raise InvalidInput("options_together", first="TASK", second="--summary")
    if task is not None:
        print_task_statistics(options, named_task(context, task), as_json=as_json)
        return
    if summary:
        print_storage(options, as_json=as_json)
    else:
        _print_cluster(options, as_json=as_json)
    hint_at_tasks_beside(options)


def _print_cluster(options: CommandOptions, *, as_json: bool) -> None:
    from orihon.runtime.stats import collect_cluster_stats

    found = collect_cluster_stats(options.base)
    if as_json:
        print_json(found)
        return
    rows = list(_statistics(found))
    if sys.stdout.isatty():
        names = [text("cli.stats.what"), text("cli.stats.figure")]
        print_table(names, [(_said(*key), _grouped(value)) for key, value in rows], flexible=0)
    else:
        print_table(["", ""], [(".".join(key), value) for key, value in rows], flexible=0)
    _print_hosts(found["hosts"])


def _statistics(found: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], object]]:
    for group in ("tasks", "queue", "workers", "leases"):
        for name, value in found[group].items():
            yield (group, name), value
    for name in _SUMS:
        yield ("sums", name), "-" if found[name] is None else found[name]


def _said(group: str, name: str) -> str:
    if group == "tasks":
        return text("cli.stats.tasks", status=name)
    if group == "workers":
        return text("cli.stats.workers", state=text(f"cli.workers.states.{name}"))
    return text(f"cli.stats.{group}.{name}")


def _print_hosts(hosts: list[dict[str, Any]]) -> None:
    if not hosts:
        return
    rows = [(host["host"], *(host[name] for name in _HOST)) for host in hosts]
    if sys.stdout.isatty():
        names = [text("cli.workers.host"), *(text(f"cli.stats.hosts.{name}") for name in _HOST)]
        print_table(names, [(name, *map(_grouped, figures)) for name, *figures in rows], flexible=0)
    else:
        print_table([""] * (len(_HOST) + 2), [("host", *row) for row in rows], flexible=0)


def _grouped(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
