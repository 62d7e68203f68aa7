"""``orihon chain``: the tasks on one key, and what each inherited."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.changes import AsJson
from orihon.cli.options import CommandOptions
from orihon.cli.output import print_json, print_table
from orihon.cli.task_argument import TaskArgument
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.tasks.chain import ChainLink, Inherited

_SHORT_ID = 8
_MOST = 10_000
_COLUMNS = ("task", "status", "began", "ended", "heritage", "what")


def chain(
    context: typer.Context,
    task: TaskArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help=text("cli.chain.limit"))] = 50,
    as_json: AsJson = False,
) -> None:
    """Which task has what from which."""
    from orihon.tasks.chain import task_chain

    options = context.ensure_object(CommandOptions)
    links = task_chain(options.base, task, limit=limit)
    if as_json:
        print_json({"tasks": links})
    else:
        names = [text(f"cli.chain.{column}") for column in _COLUMNS]
        print_table(names, map(_cells, links), flexible=_COLUMNS.index("what"))


def _cells(link: ChainLink) -> tuple[object, ...]:
    on_terminal = sys.stdout.isatty()
    giver = link.inherits_from or text(f"cli.chain.{link.heritage}")
    if on_terminal and link.inherits_from is not None:
        giver = giver[:_SHORT_ID]
    uuid = link.uuid[:_SHORT_ID] if on_terminal else link.uuid
    began, ended = _time(link.started_at, short=on_terminal), _time(link.completed_at, short=on_terminal)
    return uuid, link.status.value, began, ended, giver, _what(link)


def _time(stamp: str | None, *, short: bool) -> str:
    if stamp is None:
        return "-"
    return stamp[:16].replace("T", " ") if short else stamp


def _what(link: ChainLink) -> str:
    if link.inherits_from is None:
        return "-"
    return text("cli.chain.unreadable") if link.inherited is None else _listed(link.inherited)


def _listed(inherited: Inherited) -> str:
    """In the words of the comment that a task's source gets."""
    counts = (
        ("has_plans", inherited.plans),
        ("has_problems", inherited.open_problems),
        ("has_earlier", inherited.earlier),
    )
    parts = [text("inheritance.has_summary")] if inherited.final_summary else []
    parts += [text(f"inheritance.{name}", count=count) for name, count in counts if count]
    return ", ".join(parts) or text("inheritance.nothing")
